"""No tight loop: however the runtime fails, at most one attempt a second reaches it."""

import asyncio
import itertools
import socket
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.typing import EventDict

from exporter.node.state import Node
from simulator.channel import StreamEnding
from simulator.service import Method
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing, tasks
from tests.support.scripted_runtime import ScriptedServer

WATCHED = 50.0
SECOND = 1 - 1e-6
RARELY = 60.0
# Seconds of a real clock, for gRPC's own attempts to connect: a busy machine makes them fewer.
REALLY_WATCHED = 3.0
FOREVER = 1000


def refusing(method: Method) -> Callable[[ScriptedServer], None]:
    return lambda server: server.faults.refuse_next(FOREVER, method)


def garbling(server: ScriptedServer) -> None:
    for _ in range(FOREVER):
        server.faults.reply_next(Method.VERSION, b"\xff")


# What the runtime does to calls, or how it ends each stream.
WAYS: dict[str, Callable[[ScriptedServer], None] | StreamEnding] = {
    "Version refused": refusing(Method.VERSION),
    "Version garbled": garbling,
    "Version hangs": lambda server: server.faults.hang(Method.VERSION),
    "events refused": refusing(Method.GET_CONTAINER_EVENTS),
    "stream broken off": StreamEnding.UNAVAILABLE,
    "stream ended": StreamEnding.CLEAN,
}


async def end_each(server: ScriptedServer, end: StreamEnding, node: Node) -> None:
    for ended in itertools.count():
        await until(lambda n=ended: node.connections > n, "a stream", seconds=DEADLINE)  # type: ignore[misc] # mypy knows no defaults of lambdas
        server.disconnect(end)


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", WAYS)
async def test_no_way_of_failing_brings_two_attempts_within_a_second(
    server: ScriptedServer, name: str
) -> None:
    way, calls = WAYS[name], server.faults
    if not isinstance(way, StreamEnding):
        way(server)
    async with observing(server.socket) as observer:
        ends = [end_each(server, way, observer.node)] if isinstance(way, StreamEnding) else []
        async with tasks(*ends):
            await asyncio.sleep(WATCHED)
    events, versions = (calls.times(m) for m in (Method.GET_CONTAINER_EVENTS, Method.VERSION))
    # Each attempt asks for the version before the subscription and after it.
    assert not events or len(versions) <= 2 * len(events) + 1
    times = events or versions
    assert min((later - earlier for earlier, later in pairwise(times)), default=RARELY) >= SECOND
    assert len(times) >= 4


async def test_sockets_without_a_runtime_are_not_stormed(
    folder: Path, log: list[EventDict]
) -> None:
    """One that a dead runtime left behind, and one behind which somebody hangs up at once."""
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
    failed = [line["note"] for line in log if line["event"] == "event stream backoff"]
    assert 1 <= sum(str(dead) in why for why in failed) <= watched + 1
    assert len(hung_up) <= 2 * (watched + 1)
