"""No tight loop: however the runtime fails, at most one attempt a second reaches it."""

import asyncio
import itertools
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.typing import EventDict

from exporter.node.state import Node
from simulator.channel import StreamEnding
from simulator.service import Method
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing
from tests.support.runtimes import simulated
from tests.support.scripted_runtime import ScriptedServer

WATCHED = 50.0
SECOND = 1 - 1e-6
RARELY = 60.0
# Seconds of a real clock, for gRPC's own attempts to connect: a busy machine makes them fewer.
REALLY_WATCHED = 3.0
FOREVER = 1000


def refusing(method: Method) -> Callable[[ScriptedServer], None]:
    """Refuse every call of that method."""
    return lambda server: server.faults.refuse_next(FOREVER, method)


def garbling(server: ScriptedServer) -> None:
    """Answer every Version with what is no message."""
    for _ in range(FOREVER):
        server.faults.reply_next(Method.VERSION, b"\xff")


@dataclass(frozen=True, slots=True)
class Failing:
    """One way to fail: what the runtime does to calls, and how it ends each stream."""

    prepare: Callable[[ScriptedServer], None] = lambda _server: None
    end: StreamEnding | None = None


WAYS = {
    "Version refused": Failing(refusing(Method.VERSION)),
    "Version garbled": Failing(garbling),
    "Version hangs": Failing(lambda server: server.faults.hang(Method.VERSION)),
    "events refused": Failing(refusing(Method.GET_CONTAINER_EVENTS)),
    "stream broken off": Failing(end=StreamEnding.UNAVAILABLE),
    "stream ended": Failing(end=StreamEnding.CLEAN),
}


async def end_each(server: ScriptedServer, end: StreamEnding, node: Node) -> None:
    """End each stream once it is up."""
    for ended in itertools.count():
        await until(lambda n=ended: node.connections > n, "a stream", seconds=DEADLINE)  # type: ignore[misc] # mypy knows no defaults of lambdas
        server.disconnect(end)


async def attempts(way: Failing) -> list[float]:
    """When a runtime that fails this way was tried."""
    async with simulated() as server:
        way.prepare(server)
        calls = server.faults
        async with observing(server.socket) as observer:
            ending = way.end and asyncio.create_task(end_each(server, way.end, observer.node))
            await asyncio.sleep(WATCHED)
            if ending is not None:
                ending.cancel()
        events, versions = (calls.times(m) for m in (Method.GET_CONTAINER_EVENTS, Method.VERSION))
        # Each attempt asks for the version before the subscription and after it.
        assert not events or len(versions) <= 2 * len(events) + 1
        return events or versions


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", WAYS)
async def test_no_way_of_failing_brings_two_attempts_within_a_second(name: str) -> None:
    """Refused, garbled, hanging, broken off or ended: never a storm."""
    times = await attempts(WAYS[name])
    assert min((later - earlier for earlier, later in pairwise(times)), default=RARELY) >= SECOND
    assert len(times) >= 4


async def test_sockets_without_a_runtime_are_not_stormed(
    folder: Path, log: list[EventDict]
) -> None:
    """One that a dead runtime left behind, and one behind which somebody hangs up at once.

    Real sockets, as gRPC makes attempts of its own. A slow machine makes fewer, never more.
    """
    dead, broken = folder / "dead.sock", folder / "broken.sock"
    hung_up: list[float] = []

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hung_up.append(time.monotonic())
        writer.close()

    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(dead))
    began = time.monotonic()
    async with (
        await asyncio.start_unix_server(hang_up, broken),
        observing(dead, relist_period=RARELY),
        observing(broken, relist_period=RARELY),
    ):
        await until(lambda: len(hung_up) >= 2, "attempts", seconds=DEADLINE)
        end = began + REALLY_WATCHED
        await until(lambda: time.monotonic() >= end, "time passes", seconds=DEADLINE)
    watched = time.monotonic() - began
    failed = [line["error"] for line in log if line["event"] == "event stream backoff"]
    assert 1 <= sum(str(dead) in why for why in failed) <= watched + 1
    # The lists have a connection of their own.
    assert len(hung_up) <= 2 * (watched + 1)
