"""Floods of TLS, and everything at once, in the memory that the DaemonSet gives: one budget.

The exporter is a process in a cgroup of 256 MiB where one can be made: beyond that the kernel ends
it. Counted until enough has happened, whatever time that takes: a busy machine decides nothing.
"""

import asyncio
import contextlib
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.web.server import MOST_CONNECTIONS
from testbed import messages
from testbed.http2 import Stream
from testbed.waiting import until
from tests.support.commands import fetch
from tests.support.hostile_runtime import Answer, Measured, limited_memory, watching
from tests.support.web_clients import as_login, flooded, gulp, hammer, hold, refusals_in, trickle
from tests.support.web_pages import ALICE, BUFFERED, MTLS, TLS, WebFiles, users

LIMIT_MIB = 256
FLOODED_MIB = 150
PATIENCE_SECONDS = 200.0
CLIENTS = tuple(f"127.0.2.{number}" for number in range(1, 6))
REFUSED = 1000


def hello() -> bytes:
    """What a client of TLS says first."""
    said = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
    return said.read()


HELLO = hello()


@contextlib.asynccontextmanager
async def limited(
    files: WebFiles, answers: Mapping[str, Answer], *flags: str
) -> AsyncIterator[Measured]:
    """An exporter with those files, in its cgroup."""
    own = f"--web.config.file={files.config}"
    with limited_memory(LIMIT_MIB) as cgroup:
        async with watching(answers, own, *flags, cgroup=cgroup) as (_, exporter):
            yield exporter


@pytest.mark.parametrize(
    ("text", "sent", "strangers"),
    [
        (TLS, b"", 5),
        (MTLS, HELLO, 1),
        pytest.param(MTLS, b"", 1, marks=pytest.mark.soak),
        pytest.param(TLS, HELLO, 5, marks=pytest.mark.soak),
    ],
    ids=["silent", "hello and certificates", "silent and certificates", "hello"],
)
async def test_tls_that_is_never_begun_or_never_ended_takes_no_memory(
    web_files: WebFiles, text: str, sent: bytes, strangers: int
) -> None:
    """Replaced without end, from one address or five: a scraper gets in, and nothing is kept."""
    web_files.write(text)
    tls = web_files.client("prometheus")
    async with limited(web_files, {}) as exporter:

        async def are_many() -> bool:
            answer = await fetch(f"{exporter.url}/metrics", tls=tls)
            return sum(refusals_in(answer.text).values()) > REFUSED

        attack = partial(hold, sent=sent)
        async with flooded(attack, exporter.url, 100, CLIENTS[:strangers]):
            await until(are_many, "many have come", seconds=PATIENCE_SECONDS, every=0.5)
        assert (await exporter.cost()).peak_mib < FLOODED_MIB


def test_a_connection_of_tls_has_a_small_buffer(web_files: WebFiles) -> None:
    """Also in a Python in which the buffer has another name: this says when that comes."""
    web_files.write(TLS)
    command = (sys.executable, "-c", BUFFERED, web_files.config)
    assert int(subprocess.check_output(command)) < 64 * 1024


@dataclass(slots=True)
class Restless:
    """A runtime whose lists have nothing in common, and that sends 1,500 events a second."""

    containers: int
    lists: int = 0
    _streams: list[Stream] = field(default_factory=list)

    def answers(self) -> Mapping[str, Answer]:
        """All that it is asked."""
        numbers = range(self.containers)
        pods = [pb.PodSandbox(id=f"{number:064x}") for number in numbers[::7]]
        rest = [
            pb.Container(
                id=f"{number:064x}", pod_sandbox_id=pods[number // 7].id, state=pb.CONTAINER_RUNNING
            )
            for number in numbers
        ]
        sandboxes = pb.ListPodSandboxResponse(items=pods).SerializeToString()
        containers = pb.ListContainersResponse(containers=rest).SerializeToString()

        def listed(stream: Stream, one: bytes) -> None:
            self.lists += one is sandboxes
            stream.answer(one.replace(b"0" * 32, b"%032x" % self.lists))

        def subscribed(stream: Stream) -> None:
            self._streams[:] = [stream]
            stream.put(())

        return {
            "ListPodSandbox": partial(listed, one=sandboxes),
            "ListContainers": partial(listed, one=containers),
            "GetContainerEvents": subscribed,
        }

    async def send(self) -> None:
        """Send until cancelled; a client that does not take them gets no more."""
        events = messages.Events(1000)
        while True:
            for stream in self._streams:
                if stream.unsent < 1 << 20:
                    stream.put(events.take(150, time.time_ns()))
            await asyncio.sleep(0.1)


GUESS = as_login("alice", "guess")
PAGES = tuple(
    as_login(*ALICE).replace(b"/metrics", page)
    for page in (b"/metrics", b"/", b"/debug/misses?format=json", b"/debug/misses?format=html")
)


@contextlib.asynccontextmanager
async def attacked(url: str, tls: ssl.SSLContext) -> AsyncIterator[None]:
    """All that strangers and guests can do at once, each from addresses of its own."""
    attacks: list[tuple[Any, int]] = [
        (hold, 20),
        (partial(hold, sent=HELLO), 20),
        (partial(trickle, tls=tls), 25),
        (partial(hammer, sent=[GUESS], tls=tls), 6),
        (partial(hammer, sent=PAGES, tls=tls), 6),
        *((partial(gulp, sent=page, tls=tls), 10) for page in PAGES),
    ]
    assert sum(times for _, times in attacks) < MOST_CONNECTIONS
    async with contextlib.AsyncExitStack() as stack:
        for number, (attack, times) in enumerate(attacks, 3):
            sources = [f"127.0.{number}.{host}" for host in range(1, 6)]
            await stack.enter_async_context(flooded(attack, url, times, sources))
        yield


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """A task until the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("lists", "scrapes", "refused"),
    [(3, 2, 100), pytest.param(25, 22, 10_000, marks=pytest.mark.soak)],
    ids=["short", "long"],
)
async def test_everything_at_once_stays_below_the_limit(
    web_files: WebFiles, lists: int, scrapes: int, refused: int
) -> None:
    """The scraper and the probe are answered each time; the lists and the stream go on."""
    web_files.write(TLS + users(ALICE))
    tls, runtime, answered = web_files.client(), Restless(20_000), 0
    flags = ("--relist-period=2s", "--relist-max-duty=100%", "--relist-timeout=1m")
    async with limited(web_files, runtime.answers(), *flags) as exporter:
        url = exporter.url + "/"

        async def is_enough() -> bool:
            nonlocal answered
            scrape = await fetch(url + "metrics", tls=tls, login=ALICE)
            probe = await fetch(url + "livez", tls=tls, source="127.0.0.2")
            assert (scrape.status, probe.status) == (200, 200)
            answered += 1
            turned_away = sum(refusals_in(scrape.text).values())
            return answered >= scrapes and runtime.lists >= lists and turned_away >= refused

        async with beside(runtime.send()), attacked(url, tls):
            await until(is_enough, "it was enough", seconds=PATIENCE_SECONDS, every=1.0)
        seen = (await fetch(url + "metrics", tls=tls, login=ALICE)).text
        assert 'shadow_pleg_stream_state{state="streaming"} 1.0' in seen
        assert (await exporter.cost()).peak_mib < LIMIT_MIB
