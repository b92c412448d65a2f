"""Attempts after failures: never two in a second, and at once when the runtime is back."""

import asyncio
import itertools
import socket
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.typing import EventDict

from exporter.cri.endpoint import Endpoint
from exporter.loops.retrying import Ending, Retrying
from exporter.model.labels import StreamState
from exporter.node.state import Node
from simulator.channel import StreamEnding
from simulator.service import Method
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing, patiently, tasks
from tests.support.runtimes import ScriptedServer, simulated

FOREVER = 10_000


def pauses(*endings: Ending) -> list[float]:
    retrying = Retrying(Endpoint(None), asyncio.Event(), asyncio.Event())
    return [retrying.pause(each, time.monotonic()) for each in endings]


@pytest.mark.quick
def test_what_an_operator_must_change_is_tried_again_every_minute() -> None:
    minute = pytest.approx(75, abs=15)
    for state in (StreamState.UNSUPPORTED, StreamState.REFUSED):
        assert pauses(*[Ending(state, "")] * 3) == [minute] * 3
    first, *others = pauses(*[Ending(StreamState.DISABLED, "")] * 3)
    assert 1 <= first < 2
    assert others == [minute] * 2
    # CRI-O that restarts twice ends streams, refuses calls and ends streams at once again.
    *_, again = pauses(Ending(StreamState.BACKOFF, ""), Ending(StreamState.DISABLED, ""))
    assert 1 <= again < 2


@pytest.mark.quick
def test_what_may_heal_by_itself_is_tried_again_ever_later() -> None:
    failed = Ending(StreamState.BACKOFF, "")
    held = Ending(StreamState.BACKOFF, "", streamed=3600.0)
    rests = pauses(*[failed] * 10, held, failed)
    doubling = [(2, 3), (4, 6), (8, 12), (16, 24), (30, 45), (30, 45)]
    bounds = [*[(1, 1.5)] * 4, *doubling, (0, 1), (1, 1.5)]
    assert all(low <= rest <= high for rest, (low, high) in zip(rests, bounds, strict=True)), rests


WATCHED = 50.0
SECOND = 1 - 1e-6
RARELY = 60.0
# Seconds of a real clock, for gRPC's own attempts to connect: a busy machine makes them fewer.
REALLY_WATCHED = 3.0


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


# --- a runtime that was away or hung and is back: both witnesses are within a second of it

LISTS = (Method.LIST_POD_SANDBOX, Method.LIST_CONTAINERS)
HUNG = (Method.VERSION, Method.GET_CONTAINER_EVENTS, *LISTS)
SHIPPED = {"relist_period": 10.0, "relist_max_duty": 0.01, "relist_timeout": 30.0}
# By when a stream that was opened at once is known not to be disabled.
SEEN = 0.25


@pytest.mark.virtual_time
@pytest.mark.parametrize("period", [10.0, 60.0])
@pytest.mark.parametrize("outage", [0.2, 1.1, 5.0, 5.7, 12.0, 12.4, 30.0, 30.6, 600.0])
async def test_relist_and_stream_are_back_within_a_second_of_a_new_socket(
    folder: Path, outage: float, period: float
) -> None:
    """However long it was away, and though attempts alone would come ever later."""
    path = folder / "cri.sock"
    async with observing(path, relist_period=period) as observer:
        async with simulated(at=path):
            await observer.connected()
            await asyncio.sleep(60)
        await asyncio.sleep(outage)
        async with simulated(at=path) as server:
            back = time.monotonic()
            await patiently(lambda: observer.node.connections == 2, "it is subscribed")
            subscribed = time.monotonic() - back
            await patiently(lambda: (observer.node.relist_succeeded or 0) > back, "a relist")
            assert server.faults.times(LISTS[0])[0] - back < 1
    assert subscribed < 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("outage", [5.0, 12.0, 30.0, 120.0])
async def test_relist_and_stream_are_back_soon_where_the_socket_stays(
    server: ScriptedServer, outage: float
) -> None:
    """As that of `filter` does: it refuses calls while the runtime behind it is away."""
    async with observing(server.socket, relist_period=10.0) as observer:
        await observer.connected()
        await asyncio.sleep(60)
        server.faults.refuse_next(FOREVER)
        server.disconnect()
        gone = time.monotonic()
        await asyncio.sleep(outage)
        refused = [
            [at for at in server.faults.times(method) if at > gone]
            for method in (Method.VERSION, LISTS[0])
        ]
        server.faults.relent()
        back = time.monotonic()
        await patiently(lambda: observer.node.connections == 2, "it is subscribed")
        assert time.monotonic() - back < 1 + SEEN + 0.05
        relisted = next(at for at in server.faults.times(LISTS[0]) if at > back)
        assert relisted - back < 1.05
    for times in refused:
        assert min(later - earlier for earlier, later in pairwise(times)) > 0.99


@pytest.mark.virtual_time
@pytest.mark.parametrize("lease", [0.0, 20.0, 60.0])
@pytest.mark.parametrize("hang", [45.0, 77.0, 100.0, 300.0, 900.0])
async def test_a_hang_is_over_when_the_runtime_answers_anything(
    server: ScriptedServer, hang: float, lease: float
) -> None:
    """The failed relists have stretched the pause to minutes; the end of the hang ends it."""
    async with observing(server.socket, stream_lease=lease, **SHIPPED) as observer:
        await observer.connected()
        await asyncio.sleep(100)
        server.faults.hang(*HUNG)
        await asyncio.sleep(hang)
        assert observer.node.relist_note
        assert server.faults.most_in_flight[LISTS[0]] == 1
        server.faults.resume()
        back = time.monotonic()
        await patiently(lambda: not observer.node.relist_note, "a relist works")
        assert time.monotonic() - back < 1.05
        await observer.reaches(StreamState.STREAMING)
        assert time.monotonic() - back < 2


@pytest.mark.virtual_time
async def test_a_new_subscription_brings_a_relist_after_failed_ones(server: ScriptedServer) -> None:
    """Though relists that fail slowly have stretched the pause: the runtime answers again."""
    async with observing(server.socket, stream_lease=0.0, **SHIPPED) as observer:
        await observer.connected()
        server.faults.hang(*LISTS)
        await patiently(lambda: observer.node.relist_period > 100, "stretched")
        failures = observer.node.relist_errors.total()
        await patiently(lambda: observer.node.relist_errors.total() > failures, "another")
        await asyncio.sleep(5)
        server.faults.resume()
        server.disconnect()
        back = time.monotonic()
        await patiently(lambda: not observer.node.relist_note, "a relist works")
        assert time.monotonic() - back < 1


@pytest.mark.virtual_time
async def test_lists_that_hang_alone_are_asked_for_no_more_often(server: ScriptedServer) -> None:
    """A runtime that answers `Version` and not its lists is slow; one early relist shows that."""
    async with observing(server.socket, stream_lease=0.0, **SHIPPED) as observer:
        await observer.connected()
        server.faults.hang(*LISTS)
        began = time.monotonic()
        await asyncio.sleep(1800)
        tried = [at for at in server.faults.times(LISTS[0]) if at > began]
    # Two to find out, one early, and then one in each 150 s and its timeout.
    assert len(tried) <= 3 + 1800 / (0.9 * 150 + 30) + 1
