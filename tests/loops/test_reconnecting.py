"""A stream that was up and ends: counted with its reason, opened again, followed by a relist."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from structlog.typing import EventDict

from exporter.node.state import StreamState
from exporter.simulator.calls import Method
from exporter.simulator.channel import End
from exporter.simulator.options import Events, Options, Runtime
from exporter.simulator.server import SimulatedServer
from tests.support.observer import PATIENCE, observing
from tests.support.runtimes import calls_of, running_container, simulated
from tests.support.waiting import until

CRIO = Options(pods=0, churn=0, runtime=Runtime.CRIO)
CRIO_WITHOUT_EVENTS = Options(pods=0, churn=0, runtime=Runtime.CRIO, events=Events.DISABLED)
CONTAINERD_1 = Options(pods=0, churn=0, runtime=Runtime.CONTAINERD_1)
RARELY = 60.0

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(("end", "reason"), [(End.UNAVAILABLE, "unavailable"), (End.CLEAN, "eof")])
async def test_a_stream_that_ends_is_counted_and_opened_again(
    server: SimulatedServer, log: list[EventDict], end: End, reason: str
) -> None:
    """A clean end of a stream that was up is a loss like any other, not `disabled`."""
    async with observing(server.socket) as observer:
        await observer.connected()
        server.disconnect(end)
        await observer.reaches(StreamState.BACKOFF)
        await observer.connected(times=2)
        disconnects = await observer.samples("shadow_pleg_stream_disconnects_total")
        assert {why: n for why, n in disconnects.items() if n} == {(reason,): 1}
        assert observer.node.stream is StreamState.STREAMING
    lost = [line for line in log if line["event"] == "event stream lost"]
    assert [(line["reason"], line["runtime"]) for line in lost] == [(reason, "containerd 2.1.9")]


async def test_a_relist_follows_each_connection_at_once(server: SimulatedServer) -> None:
    """What happened while nobody listened is not left until the next period."""
    async with observing(server.socket, relist_period=RARELY) as observer:
        await observer.reaches(StreamState.STREAMING)
        lists = calls_of(server)
        await until(lambda: lists.count(Method.LIST_CONTAINERS) == 2, "the relist for the first")
        server.disconnect()
        await observer.reaches(StreamState.BACKOFF)
        assert lists.count(Method.LIST_CONTAINERS) == 2
        await observer.reaches(StreamState.STREAMING)
        reconnected = time.monotonic()
        await until(lambda: lists.count(Method.LIST_CONTAINERS) == 3, "the relist for the second")
        assert lists.times(Method.LIST_CONTAINERS)[-1] - reconnected < 1


async def test_a_restarted_runtime_is_found_again(server: SimulatedServer) -> None:
    """Its socket goes, another one comes in its place, and both witnesses are back."""
    async with observing(server.socket) as observer:
        await observer.connected()
        await server.go_down()
        await until(lambda: observer.node.relist_errors["unavailable"] > 0, "a relist failed")
        await observer.reaches(StreamState.BACKOFF)
        assert not server.socket.exists()
        await server.come_up()
        await observer.connected(times=2)
        assert await observer.losses() == {}


async def test_a_runtime_that_starts_later_is_waited_for(
    folder: Path, log: list[EventDict]
) -> None:
    """No socket is no reason to end: exporters start before runtimes."""
    path = folder / "cri.sock"
    async with observing(path) as observer:
        await observer.reaches(StreamState.BACKOFF)
        assert f"no runtime socket at unix://{path}" in observer.node.stream_note
        assert observer.not_ready
        assert not observer.not_alive
        async with simulated(at=path):
            await observer.connected()
            assert not observer.not_ready
    assert [line["log_level"] for line in log if line["event"] == "waiting for the runtime"] == [
        "warning"
    ]


async def test_a_runtime_replaced_on_the_same_path_is_followed(folder: Path) -> None:
    """The path is what counts: both witnesses follow it to another socket."""
    path = folder / "cri.sock"
    async with simulated(at=path) as old, observing(path) as observer:
        await observer.connected()
        await old.go_down()
        async with simulated(CRIO, at=path) as new:
            running_container(new)
            await observer.connected(times=2)
            assert new.runtime.channel.subscribers == 1
            assert observer.node.inventory.pods == 1
            assert observer.node.runtime is not None
            assert observer.node.runtime.name == "cri-o"


async def test_a_runtime_upgraded_underneath_is_subscribed_to(folder: Path) -> None:
    """Refused on containerd 1.7, streaming once it is 2.1: nobody restarts the observer."""
    path = folder / "cri.sock"
    async with simulated(CONTAINERD_1, at=path) as old, observing(path) as observer:
        await observer.reaches(StreamState.REFUSED)
        await old.go_down()
        async with simulated(at=path):
            await observer.connected()
            assert observer.node.runtime is not None
            assert observer.node.runtime.version == "2.1.9"


async def test_events_enabled_later_are_subscribed_to(folder: Path) -> None:
    """Disabled until CRI-O is restarted with `enable_pod_events`."""
    path = folder / "cri.sock"
    async with simulated(CRIO_WITHOUT_EVENTS, at=path) as old, observing(path) as observer:
        await observer.reaches(StreamState.DISABLED)
        await old.go_down()
        async with simulated(CRIO, at=path):
            await observer.connected()


async def test_a_state_that_is_tried_slowly_is_shown_until_the_answer_changes(
    log: list[EventDict],
) -> None:
    """Trying again is no news: neither a flicker to `connecting` nor a second warning."""
    async with simulated(CONTAINERD_1) as server, observing(server.socket) as observer:
        await observer.reaches(StreamState.REFUSED)
        server.faults.hang(Method.VERSION)
        await until(
            lambda: calls_of(server).count(Method.VERSION) == 2,
            "a second attempt",
            seconds=PATIENCE,
        )
        assert observer.node.stream is StreamState.REFUSED
        server.faults.resume()
        await until(
            lambda: calls_of(server).count(Method.VERSION) == 3, "a third attempt", seconds=PATIENCE
        )
    levels = [line["log_level"] for line in log if line["event"] == "event stream refused"]
    assert levels[:2] == ["warning", "debug"]
