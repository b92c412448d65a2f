"""Floods: scrapes are answered meanwhile, and the watch goes on."""

import asyncio
import itertools
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import pytest
import pytest_asyncio

from exporter.model.labels import Refusal
from exporter.web.access.guard import Known
from exporter.web.server import IDLE_SECONDS, MOST_CONNECTIONS, Turns, peer_of
from simulator.runtime import SimulatedRuntime
from testbed.waiting import until
from tests.support import web
from tests.support.commands import Exporter, fetch
from tests.support.observer import Metrics, tasks
from tests.support.runtimes import simulated
from tests.support.stage import Stage
from tests.support.web import ALICE, WebFiles, hashed, pages_of, users

LOGIN = ("prometheus", "open")
RIGHT, WRONG = web.as_login(*LOGIN), web.as_login("prometheus", "guess")
SCRAPES = 5
# How many are refused before a flood may end.
REFUSED = 20
PATIENCE_SECONDS = 200.0
PROMETHEUS_WAITS_SECONDS = 10.0
RUBBISH = b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"
MANY = tuple(f"127.0.1.{number}" for number in range(1, 21))
# More than there are connections: each has one, or two.
SWARM = tuple(f"127.3.{number // 250}.{1 + number % 250}" for number in range(300))
ZIPPED = b"\r\nAccept-Encoding: gzip\r\n"
PAGES = tuple(page.replace(b"\r\n", ZIPPED, 1) for page in web.pages_for(*LOGIN))
# Each from addresses of its own, with allowances of their own.
FLOODS: dict[str, tuple[Sequence[str], web.Attack, int]] = {
    "slow-loris": (["127.0.0.101"], web.trickle, 160),
    "scrapes": (["127.0.0.102"], web.gulp(RIGHT), 10),
    "rubbish": (["127.0.0.103"], partial(web.hammer, sent=[RUBBISH]), 10),
    "logins": (["127.0.0.104"], web.gulp(web.as_login("nobody", "x")), 10),
    "silence": (["127.0.0.105"], partial(web.hammer, sent=[b""]), 160),
    "passwords": (["127.0.0.106"], partial(web.hammer, sent=[WRONG]), 10),
    "pages": (MANY, partial(web.hammer, sent=PAGES), 60),
    "swarm": (SWARM, partial(web.pester, every=0.3), 400),
    "asking swarm": (SWARM, partial(web.hammer, sent=[WRONG.replace(b"metrics", b"livez")]), 400),
}
LONG = {"swarm", "asking swarm"}
# They wait for their turns, and are not refused.
HARMLESS = {"rubbish", "pages", "scrapes"}


class Guarded(Exporter):
    """It checks passwords; `asks` as a legitimate scraper does."""

    runtime: SimulatedRuntime
    # More often would use up what a client may ask in a flood.
    every: ClassVar = 1.0

    def scraped_from(self, address: str) -> None:
        self.asks = {"login": LOGIN, "source": address}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exporter(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    """One for all floods; it survives them without a traceback."""
    files = WebFiles(tmp_path_factory.mktemp("flooded"))
    # The cheapest hash: on a busy machine, the thread waits long for a costly check.
    files.write(f"basic_auth_users: {{prometheus: {hashed('open')}}}\n")
    flags = ("--relist-period=200ms", "--relist-timeout=30s")
    async with (
        simulated() as server,
        Guarded(server.socket, files.flag, *flags, grace=5) as guarded,
    ):
        guarded.runtime = server.runtime
        guarded.scraped_from("")
        await guarded.streaming()
        yield guarded


def refused(seen: Metrics) -> float:
    return seen.value(web.REFUSALS) - seen.value(web.REFUSALS, reason="handshake")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "name", [pytest.param(it, marks=pytest.mark.soak) if it in LONG else it for it in FLOODS]
)
async def test_the_watch_goes_on_and_scrapes_are_answered_in_a_flood(
    exporter: Guarded, name: str
) -> None:
    """The scraper has another address than the flood, and than that of the flood before."""
    exporter.scraped_from(f"127.0.1.{1 + list(FLOODS).index(name)}")
    strangers, attack, times = FLOODS[name]
    runtime, slowest = exporter.runtime, 0.0
    events = partial(Metrics.value, name="shadow_pleg_events_received_total")
    # Who comes first in a flood of many addresses may need several attempts.
    await exporter.metrics()
    async with web.flooded(attack, exporter.url, times, strangers):
        before = await exporter.metrics()
        for number in range(SCRAPES):
            pod = runtime.run_pod(f"{name}-{number}", "shop")
            runtime.start(runtime.create(pod, "app"))
            began = time.monotonic()
            await exporter.metrics()
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.02)
        most, least = events(before) + 4 * SCRAPES, REFUSED * (name not in HARMLESS)
        await exporter.shows(lambda seen: events(seen) >= most, "every event has come")
        after = await exporter.shows(
            lambda seen: refused(seen) - refused(before) >= least, "they are refused"
        )
    assert slowest < PROMETHEUS_WAITS_SECONDS
    assert after.value("shadow_pleg_discard_events_total") == after.silent == 0
    assert after.value("process_open_fds") < 200
    assert after.value("process_resident_memory_bytes") < 150e6


async def test_a_new_scraper_gets_in_while_strangers_guess(web_files: WebFiles) -> None:
    """After a restart no login is remembered: a scraper at another address waits for one turn."""
    # Dear enough that strangers guess faster than passwords are checked.
    text = f"basic_auth_users: {{prometheus: {hashed('open', cost=7)}}}\n"

    async def are_refused() -> bool:
        return b" 429 " in await web.says(url, WRONG, MANY[-1])

    guessing = partial(web.hammer, sent=[WRONG])
    async with web_files.served(text) as url, web.flooded(guessing, url, 100, MANY):
        await until(are_refused, "strangers are refused", seconds=PATIENCE_SECONDS)
        assert (await fetch(url + "metrics", login=LOGIN)).status == 200
        await web.counted(url, "rate", 1, login=LOGIN)


@asynccontextmanager
async def crowd(url: str, *sources: str) -> AsyncIterator[list[web.Connection]]:
    """A connection from each of these addresses, one after the other."""
    async with AsyncExitStack() as stack:
        opened = (web.connection(url, source) for source in sources)
        yield [await stack.enter_async_context(each) for each in opened]


async def test_the_client_with_the_most_connections_loses_its_oldest() -> None:
    """Not the scraper, which has one and keeps it, however many silent ones come after it."""
    stage, strangers = Stage(), [web.STRANGER] * (MOST_CONNECTIONS + 2)
    async with pages_of(stage) as url, crowd(url, "127.0.0.1", *strangers) as (scraper, *others):
        async with asyncio.timeout(10):
            for reader, _ in others[:2]:
                with suppress(ConnectionError):
                    assert await reader.read() == b""
        for each in (scraper, others[-1]):
            await web.probed(*each)
        assert stage.node.refusals[Refusal.CONNECTIONS] == 3


async def test_who_was_answered_keeps_its_place() -> None:
    """Among as many strangers as there are places, each with one connection."""
    async with pages_of() as url, crowd(url, "127.0.0.1") as (scraper,):
        await web.probed(*scraper)
        async with crowd(url, *SWARM[: MOST_CONNECTIONS + 2]):
            await web.counted(url, "connections", 3)
            await web.probed(*scraper)


async def test_where_there_are_users_only_a_login_keeps_a_place(web_files: WebFiles) -> None:
    """A stranger may ask a probe."""
    asked = web.as_login(*ALICE)
    async with (
        web_files.served(users(ALICE)) as url,
        crowd(url, "127.0.0.1", web.STRANGER) as ((scraper, scrapes), (prober, probes)),
    ):
        scrapes.write(asked.replace(b"Connection: close\r\n", b""))
        assert (await scraper.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await web.probed(prober, probes)
        async with crowd(url, *SWARM[:MOST_CONNECTIONS]):
            await web.counted(url, "connections", 3, login=ALICE)
            scrapes.write(asked)
            assert b"HTTP/1.1 200" in await scraper.read()
            await until(lambda: prober.at_eof() or bool(prober.exception()), "the prober lost it")


async def test_who_waits_for_its_turn_or_its_answer_keeps_its_place() -> None:
    """Of strangers who all come at once and ask, it is the last who are turned away."""
    asked = web.PROBE.replace(b"Host", b"Connection: close\r\nHost")
    async with AsyncExitStack() as stack, pages_of() as url:
        answers = []
        for stranger in SWARM:
            reader, writer = await stack.enter_async_context(web.connection(url, stranger))
            writer.write(asked)
            answers.append(asyncio.create_task(reader.read()))
        said = await asyncio.gather(*answers, return_exceptions=True)
    first = said[: MOST_CONNECTIONS // 2]
    assert [each for each in first if not (isinstance(each, bytes) and b" 200 " in each)] == []


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("127.0.0.1", 1), "127.0.0.1"),
        (("::ffff:10.1.2.3", 1, 0, 0), "10.1.2.3"),
        (("fd00:7::1", 1, 0, 0), "fd00:7::/64"),
        (("fd00:7::ffff:1", 1, 0, 0), "fd00:7::/64"),
        (("fd00:7:0:1::1", 1, 0, 0), "fd00:7:0:1::/64"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::/64"),
        ("", ""),
    ],
)
def test_a_client_is_an_address_or_a_network_of_ipv6(address: object, peer: str) -> None:
    """One host has a whole /64."""
    assert peer_of(address) == peer


@pytest.mark.virtual_time
async def test_no_flood_makes_the_server_forget_who_was_answered() -> None:
    """Not before it stayed away for five minutes; a stranger is not remembered meanwhile."""
    known = Known()
    known.add("scraper")
    for number in range(2000):
        known.add(f"stranger {number}")
    assert "scraper" in known
    assert "stranger 0" in known
    assert "stranger 1999" not in known
    await asyncio.sleep(200)
    known.add("scraper")
    await asyncio.sleep(200)
    known.add("late")
    assert "scraper" in known
    assert "late" in known
    assert "stranger 0" not in known


@pytest.mark.virtual_time
async def test_an_idle_connection_is_closed() -> None:
    async with pages_of() as url:
        began = time.monotonic()
        await web.says(url, web.PROBE)
        assert time.monotonic() - began == pytest.approx(IDLE_SECONDS, abs=0.2)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("cpu_seconds", "least", "most"), [(0.0, 0.0, 0.01), (5e-4, 0.1, 0.4)], ids=["cheap", "dear"]
)
async def test_strangers_are_turned_away_quickly_and_cpu_time_is_bounded(
    monkeypatch: pytest.MonkeyPatch, cpu_seconds: float, least: float, most: float
) -> None:
    """Else a probe behind them in the kernel's queue times out.

    `cpu_seconds`: what it costs to turn one away.
    """
    looks = itertools.count()
    monkeypatch.setattr(time, "thread_time", lambda: next(looks) * cpu_seconds)
    stage, strangers = Stage(), 100
    refusals = stage.node.refusals
    async with pages_of(stage) as url, AsyncExitStack() as stack:
        await stack.enter_async_context(crowd(url, *[web.STRANGER] * (MOST_CONNECTIONS + 1)))
        await until(lambda: refusals[Refusal.CONNECTIONS] == 1, "no more have room", every=1e-4)
        began = time.monotonic()
        for _ in range(strangers):
            stranger = stack.enter_context(socket.socket(socket.AF_UNIX))
            stranger.connect(unquote(urlsplit(url).netloc))
        await until(
            lambda: refusals[Refusal.CONNECTIONS] == 1 + strangers, "all have come", every=1e-4
        )
        assert least <= time.monotonic() - began < most


@pytest.mark.virtual_time
async def test_some_500_requests_are_served_a_second() -> None:
    """However many ask at once."""
    asked = web.PROBE.replace(b"Host", b"Connection: close\r\nHost")
    async with pages_of() as url:
        began = time.monotonic()
        said = await asyncio.gather(*(web.says(url, asked) for _ in range(100)))
        # Each takes a turn for its connection, and one for its request.
        assert 0.3 < time.monotonic() - began < 0.6
    assert {each[:12] for each in said} == {b"HTTP/1.1 200"}


@pytest.mark.virtual_time
async def test_each_address_has_its_turn() -> None:
    """However many ask from twenty addresses, all of them are served alike, and a scraper soon."""
    turns, served = Turns(), Counter[str]()

    async def flood(peer: str) -> None:
        while True:
            await turns.wait(peer)
            served[peer] += 1

    async with tasks(*(flood(f"10.0.0.{number % 20}") for number in range(127))):
        for _ in range(10):
            await asyncio.sleep(1)
            began = time.monotonic()
            await turns.wait("scraper")
            assert time.monotonic() - began < 0.05
    assert max(served.values()) - min(served.values()) <= 1
