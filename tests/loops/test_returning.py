"""A runtime that was away or hung and is back: both witnesses are within a second of it."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from exporter.model.labels import StreamState
from simulator.service import Method
from tests.support.observer import observing, patiently
from tests.support.runtimes import simulated
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.virtual_time

LISTS = (Method.LIST_POD_SANDBOX, Method.LIST_CONTAINERS)
HUNG = (Method.VERSION, Method.GET_CONTAINER_EVENTS, *LISTS)
FOREVER = 10_000
SHIPPED = {"relist_period": 10.0, "relist_max_duty": 0.01, "relist_timeout": 30.0}
# By when a stream that was opened at once is known not to be disabled.
SEEN = 0.25


@pytest.mark.parametrize("period", [5.0, 10.0, 60.0])
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
