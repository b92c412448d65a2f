"""Floods: bounded in what they cost, while scrapes are answered and the watch goes on."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from exporter.simulator.runtime import SimulatedRuntime
from tests.support.commands import ANYWHERE, Running, running
from tests.support.failures import log_of
from tests.support.floods import (
    REQUEST,
    STRANGER,
    as_login,
    connect,
    flooded,
    gulp,
    hammer,
    says,
    trickle,
)
from tests.support.runtimes import simulated
from tests.support.secured import TLS, Papers, ended, hashed, knock, metrics, refused
from tests.support.waiting import until

JSON = "--log.format=json"
LOGIN = ("prometheus", "open")
RIGHT = as_login(*LOGIN)
WRONG = as_login("prometheus", "guess")
SCRAPES = 10
# Strangers that are turned away before a flood may end; passwords that are looked at.
TURNED_AWAY = 20
CHECKS = 5
PATIENCE = 40.0
PROMETHEUS_WAITS = 10.0
# Each from an address of its own: what one has used up is not missing for the next.
FLOODS: dict[str, tuple[str, Callable[..., Coroutine[Any, Any, None]], int]] = {
    "slow-loris": ("127.0.0.101", trickle, 160),
    "scrapes": ("127.0.0.102", partial(gulp, sent=RIGHT), 10),
    "rubbish": ("127.0.0.103", partial(hammer, sent=b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"), 10),
    "logins": ("127.0.0.104", partial(hammer, sent=RIGHT), 10),
    "silence": ("127.0.0.105", partial(hammer, sent=b""), 160),
    "passwords": ("127.0.0.106", partial(hammer, sent=WRONG), 10),
}


@dataclass(frozen=True, slots=True)
class Exporter:
    """A process of its own that looks at passwords, and the runtime that it watches."""

    runtime: SimulatedRuntime
    running: Running
    url: str

    async def scraped(self) -> str:
        """The metrics as of now, which an honest scraper gets."""
        answer = await knock(metrics(self.url), login=LOGIN)
        assert answer.status == 200
        return answer.text

    async def comes_to(self, count: Callable[[str], float], number: float, what: str) -> str:
        """The metrics once a count in them has come so far."""
        text = ""

        async def come() -> bool:
            nonlocal text
            text = await self.scraped()
            return count(text) >= number

        await until(come, what, seconds=PATIENCE, every=0.05)
        return text

    @property
    def bcrypt_seconds(self) -> float:
        """CPU of the threads that are as nice as can be."""
        tasks = Path(f"/proc/{self.running.process.pid}/task").iterdir()
        return sum(
            int((task / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
            for task in tasks
            if (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[16] == "19"
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exporter(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Exporter]:
    """One for all floods that leave it alive; it outlives them without a traceback."""
    papers = Papers(tmp_path_factory.mktemp("flooded"))
    # The cheapest: where others want the CPU, the nicest thread waits long for a costly check.
    papers.write(f"basic_auth_users: {{prometheus: {hashed('open')}}}\n")
    secured = f"--web.config.file={papers.config}"
    async with simulated() as runtime:
        flags = (f"--runtime-endpoint={runtime.endpoint}", "--relist-period=200ms", JSON)
        async with running("serve", ANYWHERE, secured, *flags) as process:
            with log_of("the exporter", lambda: "".join(process.heard)):
                url = str((await process.logged("serving"))["url"])
                await process.logged("subscribed to the event stream")
                yield Exporter(runtime.runtime, process, url)
                outcome = await process.stop()
    assert (outcome.code, "Traceback" in outcome.err) == (0, False)


def sample(text: str, name: str) -> float:
    """A sample without labels."""
    return next(float(t.split()[1]) for t in text.splitlines() if t.startswith(name + " "))


def received(text: str) -> float:
    """How many events have come."""
    name = "shadow_pleg_events_received_total{"
    return sum(float(t.split()[-1]) for t in text.splitlines() if t.startswith(name))


def turned_away(text: str) -> float:
    """How many strangers were refused something."""
    reasons = ("busy", "connections", "credentials", "malformed", "rate", "timeout")
    return sum(refused(text, reason) for reason in reasons)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", FLOODS)
async def test_the_watch_goes_on_and_scrapes_are_answered_in_a_flood(
    exporter: Exporter, name: str
) -> None:
    """A process of its own, an honest scraper beside a flood from another address."""
    stranger, attack, times = FLOODS[name]
    runtime, slowest = exporter.runtime, 0.0
    async with flooded(partial(attack, source=stranger), exporter.url, times):
        before = await exporter.scraped()
        for number in range(SCRAPES):
            pod = runtime.run_pod(f"{name}-{number}")
            runtime.start(runtime.create(pod, "app"))
            began = time.monotonic()
            answer = await knock(exporter.url + "metrics", login=LOGIN)
            assert answer.status == 200
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.02)
        expected = received(before) + 4 * SCRAPES
        await exporter.comes_to(received, expected, "every event has come")
        enough = turned_away(before) + TURNED_AWAY
        after = await exporter.comes_to(turned_away, enough, "strangers are turned away")
    assert slowest < PROMETHEUS_WAITS
    assert sample(after, "shadow_pleg_discard_events_total") == 0
    assert 'cause="silent"' in after
    assert not [x for x in after.splitlines() if 'cause="silent"' in x and not x.endswith(" 0.0")]
    assert sample(after, "process_open_fds") < 200
    assert sample(after, "process_resident_memory_bytes") < 150e6


@pytest.mark.asyncio(loop_scope="module")
async def test_a_flood_of_passwords_costs_a_fifth_of_a_cpu_and_leaves_others_alone(
    exporter: Exporter,
) -> None:
    """Wrong passwords from one address; a scraper that is known scrapes on."""
    before = refused(await exporter.scraped(), "credentials")
    async with flooded(partial(hammer, sent=WRONG), exporter.url, 4):
        spent, began = exporter.bcrypt_seconds, time.monotonic()
        await exporter.comes_to(
            lambda text: refused(text, "credentials"), before + CHECKS, "passwords are looked at"
        )
        share = (exporter.bcrypt_seconds - spent) / (time.monotonic() - began)
    # A check that was under way at either end counts whole. A busy machine only stretches the time.
    assert 0 < share < 0.3


async def test_a_new_scraper_gets_in_while_strangers_guess(papers: Papers) -> None:
    """After a restart nobody is remembered: who asks from another address waits for one turn."""
    text = f"basic_auth_users: {{prometheus: {hashed('open')}}}\n"
    async with papers.served(text) as url, flooded(partial(hammer, sent=WRONG), url, 30):
        await until(lambda: _are_refused(url), "strangers are turned away")
        assert (await knock(url + "metrics", login=LOGIN)).status == 200


async def _are_refused(url: str) -> bool:
    return b" 429 " in await says(url, WRONG)


async def test_the_greediest_loses_its_oldest(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for four: a fifth costs the stranger one, and never the scraper its own."""
    monkeypatch.setattr("exporter.web.connections._MOST", 4)
    async with papers.served("") as url:
        scraper = await connect(url, "127.0.0.1")
        strangers = [await connect(url) for _ in range(5)]
        for reader, _ in strangers[:2]:
            async with asyncio.timeout(5):
                assert await _is_over(reader)
        for reader, writer in (scraper, *strangers[2:]):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        for _, writer in (scraper, *strangers):
            await ended(writer)
        text = (await knock(metrics(url))).text
    assert refused(text, "connections") == 2


async def _is_over(reader: asyncio.StreamReader) -> bool:
    try:
        return not await reader.read()
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", REQUEST[:-2], b"\x00", b"GET /metrics HTTP/1.1\r\nX"])
async def test_who_never_finishes_a_request_is_shown_out(
    papers: Papers, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Silent from the start, or stuck in the middle."""
    monkeypatch.setattr("exporter.web.connections._HANDSHAKE", 0.1)
    monkeypatch.setattr("exporter.web.connections._FIRST_REQUEST", 0.1)
    async with papers.served("") as url, asyncio.timeout(5):
        await says(url, sent)
        # The honest one has as long as always.
        monkeypatch.undo()
        text = (await knock(metrics(url))).text
    assert refused(text, "timeout") + refused(text, "malformed") == 1


async def test_who_never_shakes_hands_is_shown_out(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that says nothing of TLS holds its place for a moment only."""
    monkeypatch.setattr("exporter.web.connections._HANDSHAKE", 0.2)
    async with papers.served(TLS) as url:
        async with asyncio.timeout(5):
            assert await says(url, b"") == b""
        # The honest one has as long as always.
        monkeypatch.undo()
        text = (await knock(metrics(url), papers.client())).text
    assert refused(text, "handshake") == 1


async def test_scrapes_beyond_what_may_wait_are_told_so(papers: Papers) -> None:
    """Four of one address are served in turn, a fifth hears 503 at once; others feel nothing."""
    async with papers.served("") as url:
        strangers = [await connect(url) for _ in range(20)]
        for reader, writer in strangers:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"ok\n")
        for _, writer in strangers:
            writer.write(REQUEST)
        honest = await knock(url + "metrics")
        statuses = [int((await reader.readline()).split()[1]) for reader, _ in strangers]
        for _, writer in strangers:
            await ended(writer)
        text = (await knock(metrics(url))).text
    assert honest.status == 200
    assert set(statuses) == {200, 503}
    assert statuses.count(503) == refused(text, "busy") == 16


async def test_a_burst_of_requests_on_one_connection_is_cut_off(papers: Papers) -> None:
    """Five hundred at once, then a 429 and the end; somebody else notices nothing."""
    answered: list[bytes] = []
    async with papers.served("") as url, asyncio.timeout(10):
        reader, writer = await connect(url)
        while not answered or b" 200 " in answered[-1]:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            answered.append(await reader.readuntil(b"\r\n\r\n"))
            if b" 200 " in answered[-1]:
                await reader.readexactly(len(b"ok\n"))
        rest = await reader.read()
        await ended(writer)
        assert (await knock(url + "livez")).status == 200
    assert answered[-1].startswith(b"HTTP/1.1 429 Too Many Requests")
    assert rest == b"too many requests\n"
    assert len(answered) > 500


async def test_a_flood_is_over_when_it_is_over(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very address that flooded is served again a moment later."""
    # So few that also a slow machine floods; the scraper, which is as rare, does not.
    monkeypatch.setattr("exporter.web.connections._BURST", 20.0)
    monkeypatch.setattr("exporter.web.connections._RATE", 5.0)
    async with papers.served("") as url:
        async with flooded(partial(hammer, sent=b"\x00\r\n\r\n"), url, 40):
            await until(
                lambda: _is_slammed(url), "its connections are refused", seconds=PATIENCE, every=0.3
            )

        async def is_served() -> bool:
            return (await says(url, REQUEST)).startswith(b"HTTP/1.1 200")

        await until(is_served, f"{STRANGER} is served")


async def _is_slammed(url: str) -> bool:
    return refused((await knock(metrics(url))).text, "rate") > 0


async def test_sigterm_ends_a_flooded_process_in_time(papers: Papers) -> None:
    """Two seconds, whoever still hangs on the line."""
    papers.write("")
    secured = f"--web.config.file={papers.config}"
    async with simulated() as runtime:
        flags = (f"--runtime-endpoint={runtime.endpoint}", JSON)
        began = time.monotonic()
        async with running("serve", ANYWHERE, secured, *flags) as process:
            url = str((await process.logged("serving"))["url"])
            starting = time.monotonic() - began
            async with flooded(trickle, url, 100):
                await process.logged("subscribed to the event stream")
                began = time.monotonic()
                outcome = await process.stop(signal.SIGTERM)
                took = time.monotonic() - began
    assert outcome.code == 0
    # The start is mere work: it says how slow the machine is.
    assert took < max(2.5, starting)
