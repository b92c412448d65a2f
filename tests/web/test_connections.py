"""Floods and rubbish: scrapes are answered meanwhile, and the watch goes on."""

import asyncio
import logging
import re
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from simulator.runtime import SimulatedRuntime
from testbed.waiting import until
from tests.support.commands import ANYWHERE, Running, fetch, running
from tests.support.runtimes import short_folder, simulated
from tests.support.searching import examples
from tests.support.secured import TLS, WebFiles, hashed
from tests.support.web_clients import (
    PROBE,
    SCRAPE,
    as_login,
    connection,
    flooded,
    gulp,
    hammer,
    metrics,
    refusals,
    refusals_in,
    says,
    trickle,
)
from tests.support.web_pages import CONFIG, EAGER, pages_in_virtual_time, pages_of

JSON = "--log.format=json"
LOGIN = ("prometheus", "open")
RIGHT, WRONG = as_login(*LOGIN), as_login("prometheus", "guess")
SCRAPES = 5
# How many are refused before a flood may end; how many passwords are checked.
REFUSED, CHECKS = 20, 5
PATIENCE_SECONDS = 40.0
PROMETHEUS_WAITS_SECONDS = 10.0
RUBBISH = b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"
MANY = tuple(f"127.0.1.{number}" for number in range(1, 21))
# Pages that have to be rendered, as far as a client can make that necessary.
PAGES = tuple(
    RIGHT.replace(b"/metrics HTTP/1.1", page + b" HTTP/1.1\r\nAccept-Encoding: gzip")
    for page in (
        *(b"/metrics?%d" % number for number in range(40)),
        *(b"/", b"/debug/misses?format=json", b"/debug/misses?format=html"),
    )
)
# Each from addresses of its own, with allowances of their own.
FLOODS: dict[str, tuple[Sequence[str], Callable[..., Coroutine[Any, Any, None]], int]] = {
    "slow-loris": (["127.0.0.101"], trickle, 160),
    "scrapes": (["127.0.0.102"], partial(gulp, sent=RIGHT), 10),
    "rubbish": (["127.0.0.103"], partial(hammer, sent=[RUBBISH]), 10),
    "logins": (["127.0.0.104"], partial(gulp, sent=as_login("nobody", "x")), 10),
    "silence": (["127.0.0.105"], partial(hammer, sent=[b""]), 160),
    "passwords": (["127.0.0.106"], partial(hammer, sent=[WRONG]), 10),
    "pages": (MANY, partial(hammer, sent=PAGES), 60),
}


@dataclass(frozen=True, slots=True)
class Exporter:
    """A process of its own that checks passwords, and the runtime that it watches."""

    runtime: SimulatedRuntime
    running: Running
    url: str

    async def scraped(self) -> str:
        """The metrics as of now, as a legitimate scraper gets them."""
        answer = await fetch(metrics(self.url), login=LOGIN)
        assert answer.status == 200
        return answer.text

    async def reaches(self, count: Callable[[str], float], number: float, what: str) -> str:
        """The metrics once a count in them has reached that number."""
        text = ""

        async def reached() -> bool:
            nonlocal text
            text = await self.scraped()
            return count(text) >= number

        await until(reached, what, seconds=PATIENCE_SECONDS, every=0.05)
        return text

    @property
    def bcrypt_seconds(self) -> float:
        """CPU time of the threads with a low priority."""
        tasks = Path(f"/proc/{self.running.process.pid}/task").iterdir()
        return sum(
            int((task / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
            for task in tasks
            if (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[16] == "5"
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exporter(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Exporter]:
    """One for all floods; it survives them without a traceback."""
    files = WebFiles(tmp_path_factory.mktemp("flooded"))
    # The cheapest hash: on a busy machine, the thread waits long for a costly check.
    files.write(f"basic_auth_users: {{prometheus: {hashed('open')}}}\n")
    secured = f"--web.config.file={files.config}"
    async with simulated() as runtime:
        flags = (f"--runtime-endpoint={runtime.endpoint}", "--relist-period=200ms", JSON)
        async with running("serve", ANYWHERE, secured, *flags) as process:
            url = str((await process.logged("serving"))["url"])
            await process.logged("subscribed to the event stream")
            yield Exporter(runtime.runtime, process, url)
            outcome = await process.stop()
    assert (outcome.code, "Traceback" in outcome.err) == (0, False)


def sum_of(text: str, name: str) -> float:
    """The sum of a metric's samples."""
    found = re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)
    assert found
    return sum(map(float, found))


def refused(text: str) -> float:
    """How many were refused, but for handshakes."""
    return sum(number for reason, number in refusals_in(text).items() if reason != "handshake")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", FLOODS)
async def test_the_watch_goes_on_and_scrapes_are_answered_in_a_flood(
    exporter: Exporter, name: str
) -> None:
    """The scraper has another address than the flood."""
    strangers, attack, times = FLOODS[name]
    runtime, slowest = exporter.runtime, 0.0
    events = partial(sum_of, name="shadow_pleg_events_received_total")
    async with flooded(attack, exporter.url, times, strangers):
        before = await exporter.scraped()
        for number in range(SCRAPES):
            pod = runtime.run_pod(f"{name}-{number}", "shop")
            runtime.start(runtime.create(pod, "app"))
            began = time.monotonic()
            answer = await fetch(exporter.url + "metrics", login=LOGIN)
            assert answer.status == 200
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.02)
        await exporter.reaches(events, events(before) + 4 * SCRAPES, "every event has come")
        after = await exporter.reaches(refused, refused(before) + REFUSED, "they are refused")
    assert slowest < PROMETHEUS_WAITS_SECONDS
    assert sum_of(after, "shadow_pleg_discard_events_total") == 0
    assert sum_of(after, r"kube_pod_missed_events_total\{[^}]*cause=\"silent\"[^}]*\}") == 0
    assert sum_of(after, "process_open_fds") < 200
    assert sum_of(after, "process_resident_memory_bytes") < 150e6


@pytest.mark.asyncio(loop_scope="module")
async def test_a_flood_of_passwords_costs_a_fifth_of_a_cpu(exporter: Exporter) -> None:
    """A scraper whose login is known scrapes on."""

    def checked(text: str) -> float:
        return refusals_in(text)["credentials"]

    before = checked(await exporter.scraped())
    async with flooded(partial(hammer, sent=[WRONG]), exporter.url, 4):
        spent, began = exporter.bcrypt_seconds, time.monotonic()
        await exporter.reaches(checked, before + CHECKS, "passwords are checked")
        share = (exporter.bcrypt_seconds - spent) / (time.monotonic() - began)
    # A check in progress at either end counts whole. A busy machine only stretches the time.
    assert 0 < share < 0.3


async def test_a_new_scraper_gets_in_while_strangers_guess(web_files: WebFiles) -> None:
    """After a restart no login is remembered: a scraper at another address waits for one turn."""
    text = f"basic_auth_users: {{prometheus: {hashed('open')}}}\n"

    async def are_refused() -> bool:
        return b" 429 " in await says(url, WRONG, MANY[-1])

    guessing = partial(hammer, sent=[WRONG])
    async with web_files.served(text) as url, flooded(guessing, url, 100, MANY):
        await until(are_refused, "strangers are refused")
        assert (await fetch(url + "metrics", login=LOGIN)).status == 200


@asynccontextmanager
async def cramped(descriptors: int, *flags: str) -> AsyncIterator[Running]:
    """A `serve` that may open only so many files; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *("prlimit", f"--nofile={descriptors}", sys.executable, "-m", "exporter", "serve", *flags),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        process.kill()
        await process.communicate()


async def test_idle_connections_leave_descriptors_for_the_watch() -> None:
    """With 64 of them, it finds its runtime again, and is scraped."""
    with short_folder() as folder:
        async with AsyncExitStack() as stack:
            async with simulated(at=folder / "cri.sock") as runtime:
                flags = (f"--runtime-endpoint={runtime.endpoint}", "--relist-period=200ms", JSON)
                process = await stack.enter_async_context(cramped(64, ANYWHERE, *flags))
                url = str((await process.logged("serving"))["url"])
                await process.logged("subscribed to the event stream")
                for source in MANY * 4:
                    _, writer = await stack.enter_async_context(connection(url, source))
                    writer.write(PROBE)
            async with simulated(at=folder / "cri.sock"):
                await process.logged("subscribed to the event stream")
                text = (await fetch(metrics(url))).text
                assert sum_of(text, "process_open_fds") < 50
                assert refusals_in(text)["connections"] > 0


async def test_no_descriptor_left_is_a_matter_of_the_greediest() -> None:
    """Though fewer connections than allowed are open: others may have taken the descriptors."""
    async with AsyncExitStack() as stack, simulated() as runtime:
        flags = (f"--runtime-endpoint={runtime.endpoint}", JSON)
        process = await stack.enter_async_context(cramped(1024, ANYWHERE, *flags))
        url = str((await process.logged("serving"))["url"])
        await process.logged("subscribed to the event stream")
        used = sum_of((await fetch(metrics(url))).text, "process_open_fds")
        resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (int(used) + 20,) * 2)
        for source in ("127.0.0.107",) * 60:
            _, writer = await stack.enter_async_context(connection(url, source))
            writer.write(PROBE)
        assert refusals_in((await fetch(metrics(url))).text)["connections"] > 0


async def test_the_peer_with_the_most_connections_loses_its_oldest() -> None:
    """Room for four: a fifth costs the stranger one, and never the scraper its own."""
    async with (
        AsyncExitStack() as stack,
        pages_of(limits=replace(EAGER, connections=4)) as url,
    ):
        scraper = await stack.enter_async_context(connection(url, "127.0.0.1"))
        strangers = [await stack.enter_async_context(connection(url)) for _ in range(5)]
        async with asyncio.timeout(5):
            for reader, _ in strangers[:2]:
                assert await _is_closed(reader)
        for reader, writer in (scraper, *strangers[2:]):
            writer.write(PROBE)
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        assert (await refusals(url))["connections"] == 3


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return not await reader.read()
    except ConnectionError:
        return True


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("sent", "seconds"),
    [(b"", 15), (b"\x00", 0), (b"GET /metrics HTTP/1.1\r\nX", 15), (PROBE, 180)],
    ids=["silent", "rubbish", "half a request", "idle"],
)
async def test_a_connection_has_its_time(sent: bytes, seconds: float) -> None:
    """To the first request, and to each next one."""
    async with pages_in_virtual_time() as url:
        began = time.monotonic()
        await says(url, sent)
        assert time.monotonic() - began == pytest.approx(seconds, abs=0.2)
        counts = await refusals(url)
    assert counts["timeout"] == bool(seconds)
    assert counts["malformed"] == (not seconds)


async def test_a_handshake_has_its_time(web_files: WebFiles) -> None:
    """A client that never begins TLS is disconnected."""
    web_files.write(TLS)
    config = replace(CONFIG, web_config_file=str(web_files.config))
    async with pages_of(config=config, limits=replace(EAGER, handshake_seconds=0.5)) as url:
        async with asyncio.timeout(5):
            assert await says(url, b"") == b""
        assert (await refusals(url, web_files.client()))["handshake"] == 1


async def test_a_burst_of_requests_is_cut_off_until_it_is_over() -> None:
    """A 429 and the end; another peer notices nothing, and a moment later this one is served."""
    answered: list[bytes] = []
    limits = replace(EAGER, burst=50.0, requests_per_second=5.0)
    async with pages_of(limits=limits) as url, asyncio.timeout(10):
        async with connection(url) as (reader, writer):
            while not answered or b" 200 " in answered[-1]:
                writer.write(PROBE)
                answered.append(await reader.readuntil(b"\r\n\r\n"))
                if b" 200 " in answered[-1]:
                    await reader.readexactly(len(b"ok\n"))
            rest = await reader.read()
        assert (await fetch(url + "livez")).status == 200
        assert (await refusals(url))["rate"] == 1

        async def is_served() -> bool:
            return (await says(url, SCRAPE)).startswith(b"HTTP/1.1 200")

        await until(is_served, "the stranger is served")
    assert answered[-1].startswith(b"HTTP/1.1 429 Too Many Requests")
    assert rest == b"too many requests\n"
    assert len(answered) > 50


LINES = st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b""))
METHODS = (
    st.sampled_from([b"GET", b"HEAD", b"POST", b"CONNECT", b"OPTIONS", b"get", b"PRI"]) | LINES
)
PATHS = LINES | st.sampled_from(
    [
        *(b"/", b"/metrics", b"/livez", b"//", b"/%00", b"/%ff", b"/..%2f..%2fetc/passwd", b"*"),
        *(b"http://elsewhere/metrics", b"/metrics?name[]=%00", b"/metrics?" + b"a" * 5000, b"[::"),
    ]
)
NAMES = LINES | st.sampled_from(
    [
        *(b"Host", b"Content-Length", b"Transfer-Encoding", b"Expect", b"Upgrade", b"Connection"),
        *(b"Authorization", b"Accept", b"Accept-Encoding", b"Range", b"X-Forwarded-For", b"Cookie"),
    ]
)
VALUES = LINES | st.sampled_from(
    [b"chunked", b"100-continue", b"websocket", b"upgrade", b"-1", b"99999999999", b"Basic Og=="]
)
REQUESTS = st.builds(
    lambda method, path, headers: b"\r\n".join(
        [
            method + b" " + path + b" HTTP/1.1",
            *(b": ".join(each) for each in headers),
            *(b"Connection: close", b"", b""),
        ]
    ),
    METHODS,
    PATHS,
    st.lists(st.tuples(NAMES, VALUES), max_size=6),
)
NOISE = st.binary(min_size=1, max_size=300).map(lambda raw: raw + b"\r\n\r\n")


@examples(1)
@given(sent=REQUESTS | NOISE)
def test_no_request_harms(sent: bytes) -> None:
    """Odd methods, paths and headers, TLS, noise: an answer below 500, and others are served."""

    async def answered() -> tuple[bytes, int]:
        async with pages_of() as url:
            try:
                async with asyncio.timeout(0.3):
                    said = await says(url, sent)
            except TimeoutError:
                said = b""  # it waits for the rest, until the connection's time is over
            return said, (await fetch(url + "livez")).status

    said, alive = asyncio.run(answered())
    assert alive == 200
    # Even HTTP/0.9, if a request looks like it.
    assert not said or re.match(rb"HTTP/[01]\.[019] [1-4]", said) or b"no relist" in said
    assert b"aiohttp" not in said.lower()
    assert b"python/" not in said.lower()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", 400),
        (b"GET /" + b"x" * 4096 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 8191 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 65 + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: yyyyyyyyy\r\n" * 1300, 0),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n" + b"x" * 20000, 0),
    ],
    ids=["rubbish", "line", "header", "headers", "endless", "body"],
)
async def test_rubbish_and_large_requests_are_counted_and_not_logged(
    caplog: pytest.LogCaptureFixture, sent: bytes, status: int
) -> None:
    """A request for a page has a few hundred bytes; a traceback for each would fill a disk."""
    caplog.set_level(logging.INFO)
    async with pages_of() as url:
        async with asyncio.timeout(5):
            said = await says(url, sent)
        assert (await refusals(url))["malformed"] == 1
    assert not said or int(said.split()[1]) in {status, 400, 405}
    assert not status or said
    assert not [each for each in caplog.records if each.name.startswith("aiohttp")]


@pytest.mark.virtual_time
@pytest.mark.parametrize("host", [b"evil.example", b"<script>", b"127.0.0.1:1", b"", b"x\xff"])
async def test_the_host_header_changes_nothing(host: bytes) -> None:
    """No page repeats it, links to it, or redirects there; a client elsewhere may send any."""
    asked = b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
    async with pages_in_virtual_time() as url:
        plain = (await fetch(url)).text
        head, _, body = (await says(url, asked)).partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert b"Location" not in head
    assert b" 200 " not in head.splitlines()[0] or body.decode() == plain
