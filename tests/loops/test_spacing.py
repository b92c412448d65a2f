"""No tight loop: however the runtime fails, at most one attempt a second reaches it.

All the ways of failing run beside each other for the same few seconds, each
with a runtime of its own: once as they are, and once with a backoff that never
grows, where nothing but the spacing is left between two attempts.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from structlog.typing import EventDict

from exporter.config import EventStream
from exporter.pleg.backoff import Backoff
from exporter.simulator.calls import Method
from exporter.simulator.channel import End
from exporter.simulator.options import Events, Options, Runtime
from exporter.simulator.server import SimulatedServer
from tests.grounds.waiting import until
from tests.loops.observer import DEADLINE, observing
from tests.loops.runtimes import QUIET, calls_of, introduction, simulated

WATCHED = 6.0
# What is sent a second apart may arrive a little less than that apart.
UNEVEN = 0.5
RARELY = 60.0
FOREVER = 1000


def refusing(method: Method, code: grpc.StatusCode) -> Callable[[SimulatedServer], None]:
    """Refuse every call of that method."""
    return lambda server: server.faults.refuse_next(FOREVER, method, code=code)


def saying(answer: bytes) -> Callable[[SimulatedServer], None]:
    """Answer every Version with these bytes."""

    def prepare(server: SimulatedServer) -> None:
        for _ in range(FOREVER):
            server.faults.reply_next(Method.VERSION, answer)

    return prepare


Tried = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Failing:
    """One way to fail: the runtime, what it does to calls, and how it ends each stream.

    `held`: whether a stream ends only once it is up. `slowly`: whether it is tried slowly.
    """

    options: Options = QUIET
    prepare: Callable[[SimulatedServer], None] = lambda _server: None
    end: End | None = None
    held: bool = True
    event_stream: EventStream = EventStream.AUTO
    slowly: bool = False


WAYS = {
    "Version refused": Failing(prepare=refusing(Method.VERSION, grpc.StatusCode.UNAVAILABLE)),
    "Version broken": Failing(prepare=refusing(Method.VERSION, grpc.StatusCode.INTERNAL)),
    "Version garbled": Failing(prepare=saying(b"\xff")),
    "Version hangs": Failing(prepare=lambda server: server.faults.hang(Method.VERSION)),
    "events refused": Failing(
        prepare=refusing(Method.GET_CONTAINER_EVENTS, grpc.StatusCode.UNAVAILABLE)
    ),
    "stream broken off when asked for": Failing(end=End.UNAVAILABLE, held=False),
    "stream broken off": Failing(end=End.UNAVAILABLE),
    "stream ended": Failing(end=End.CLEAN),
    "disabled": Failing(options=Options(pods=0, churn=0, events=Events.DISABLED), slowly=True),
    "unsupported": Failing(
        options=Options(pods=0, churn=0, events=Events.UNIMPLEMENTED), slowly=True
    ),
    "exclusive": Failing(
        options=Options(pods=0, churn=0, runtime=Runtime.CONTAINERD_1), slowly=True
    ),
    "unknown": Failing(prepare=saying(introduction("hyperspace", "9.1")), slowly=True),
    "never": Failing(event_stream=EventStream.NEVER, slowly=True),
}


async def end_each(server: SimulatedServer, end: End, streams: Callable[[], int]) -> None:
    """End the stream each time that their number has grown."""
    for number in itertools.count(1):
        await until(functools.partial(reached, streams, number), "a stream", seconds=DEADLINE)
        server.disconnect(end)


def reached(counter: Callable[[], int], number: int) -> bool:
    """Whether it has counted so far."""
    return counter() >= number


async def watched() -> None:
    """Let the observation last."""
    end = time.monotonic() + WATCHED
    await until(lambda: time.monotonic() >= end, "time passes", seconds=2 * WATCHED)


async def attempts(way: Failing, begun: list[Failing]) -> list[float]:
    """When a runtime that fails this way was tried."""
    async with simulated(way.options) as server:
        way.prepare(server)
        channel, calls = server.runtime.channel, calls_of(server)
        async with observing(server.socket, event_stream=way.event_stream) as observer:
            node = observer.node
            begun.append(way)
            if way.end is None:
                await watched()
            else:
                streams = (lambda: node.connections) if way.held else lambda: channel.subscriptions
                ending = asyncio.create_task(end_each(server, way.end, streams))
                await watched()
                ending.cancel()
        events, versions = (calls.times(m) for m in (Method.GET_CONTAINER_EVENTS, Method.VERSION))
        # Each attempt asks for the version before the subscription and after it.
        assert not events or len(versions) <= 2 * len(events) + 1
        return events or versions


async def all_ways(begun: list[Failing]) -> Tried:
    """When each runtime was tried; `begun`: those that are observed by now."""
    async with asyncio.TaskGroup() as together:
        tasks = {name: together.create_task(attempts(way, begun)) for name, way in WAYS.items()}
    return {name: task.result() for name, task in tasks.items()}


def too_many(times: list[float]) -> bool:
    """Whether these were more than one a second."""
    return len(times) - 1 > times[-1] - times[0] + UNEVEN


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging call must not be what spaces the attempts; a busy machine has half a second."""
    monkeypatch.setattr("exporter.loops.streaming.ANSWER_TIMEOUT", 0.5)
    monkeypatch.setattr("exporter.loops.lease.ANSWER_TIMEOUT", 0.5)
    monkeypatch.setattr("exporter.loops.lease._SETTLE", 0.5)


async def all_ways_twice(monkeypatch: pytest.MonkeyPatch) -> tuple[Tried, Tried]:
    """As they are, and with a backoff that never grows."""
    begun: list[Failing] = []
    async with asyncio.TaskGroup() as together:
        as_it_is = together.create_task(all_ways(begun))
        await until(lambda: len(begun) == len(WAYS), "all are observed", seconds=DEADLINE)
        never_grows = functools.partial(Backoff, healthy=0.0)
        monkeypatch.setattr("exporter.loops.streaming.Backoff", never_grows)
        spaced_only = together.create_task(all_ways([]))
    return as_it_is.result(), spaced_only.result()


async def without_a_runtime(dead: Path, broken: Path) -> list[float]:
    """When a socket that hangs up at once was tried, beside one behind which nobody is."""
    hung_up: list[float] = []

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hung_up.append(time.monotonic())
        writer.close()

    async with (
        await asyncio.start_unix_server(hang_up, broken),
        observing(dead, relist_period=RARELY),
        observing(broken, relist_period=RARELY),
    ):
        await watched()
    return hung_up


async def test_no_way_of_failing_brings_two_attempts_within_a_second(
    folder: Path, monkeypatch: pytest.MonkeyPatch, log: list[EventDict]
) -> None:
    """Refused, garbled, hanging, broken off, ended, switched off or unwanted: never a storm.

    Nor where a dead runtime left its socket behind, or a broken one hangs up at once.
    """
    dead, broken = folder / "dead.sock", folder / "broken.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(dead))
    async with asyncio.TaskGroup() as together:
        hung_up = together.create_task(without_a_runtime(dead, broken))
        tried = together.create_task(all_ways_twice(monkeypatch))
    as_it_is, spaced_only = tried.result()
    for times in (as_it_is, spaced_only):
        assert [name for name, each in times.items() if too_many(each)] == []
    slowly = {name for name, each in as_it_is.items() if len(each) <= 2}
    assert slowly >= {name for name, way in WAYS.items() if way.slowly}
    eagerly = {name for name, each in spaced_only.items() if len(each) >= 4}
    assert eagerly >= {name for name, way in WAYS.items() if not way.slowly}
    failed = [line["why"] for line in log if line["event"] == "event stream backoff"]
    assert 2 <= sum(str(dead) in why for why in failed) <= WATCHED + 1
    # The lists have a connection of their own.
    assert 2 <= len(hung_up.result()) <= 2 * (WATCHED + 1)
