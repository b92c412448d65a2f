"""A subscription that is lost: opened again, and blamed for what was missed meanwhile."""

import time
from pathlib import Path

import pytest
from structlog.typing import EventDict

from exporter.model.labels import StreamState
from simulator.channel import StreamEnding
from simulator.options import Options
from simulator.service import Method
from testbed.waiting import until
from tests.support.observer import observing, patiently
from tests.support.runtimes import (
    CRIO,
    DISABLED,
    EXCLUSIVE,
    QUIET,
    running_container,
    simulated,
    unannounced,
)
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.virtual_time

RARELY = 60.0


@pytest.mark.parametrize("lease", [0.0, 60.0])
@pytest.mark.parametrize(
    ("end", "reason"), [(StreamEnding.UNAVAILABLE, "unavailable"), (StreamEnding.CLEAN, "eof")]
)
async def test_a_stream_that_ends_is_counted_and_opened_again(
    server: ScriptedServer, log: list[EventDict], end: StreamEnding, reason: str, lease: float
) -> None:
    async with observing(server.socket, stream_lease=lease) as observer:
        await observer.connected()
        server.disconnect(end)
        await observer.reaches(StreamState.BACKOFF)
        server.faults.hang(Method.VERSION)
        await observer.reaches(StreamState.CONNECTING)
        server.faults.resume()
        await observer.connected(times=2)
        seen = await observer.metrics()
        assert seen.counts("shadow_pleg_stream_disconnects_total") == {(reason,): 1}
        assert observer.node.stream.state is StreamState.STREAMING
    (lost,) = (line for line in log if line["event"] == "event stream backoff")
    assert (lost["log_level"], lost["reason"], lost["runtime"]) == (
        "warning",
        reason,
        "containerd 2.1.9",
    )


@pytest.mark.parametrize("renewed", [False, True])
async def test_what_the_filter_dropped_is_discarded_and_not_the_runtimes_loss(
    server: ScriptedServer, *, renewed: bool
) -> None:
    """Also where another subscription, which began after the loss, is there already."""
    async with observing(server.socket, stream_lease=4.0, missed_grace=1.0) as observer:
        await observer.connected()
        if renewed:
            await until(lambda: server.runtime.channel.subscribers == 2, "it is renewed")
        with unannounced(server):
            running_container(server)
        server.faults.overflow_oldest()
        await observer.judged()
        assert observer.node.discards == 1
        losses = observer.losses
        assert observer.node.stream.ends == ({} if renewed else {"overflow": 1})
    assert losses
    assert {key.split()[-1] for key in losses} <= {"discarded", "stream_down"}


async def test_a_relist_follows_each_connection_at_once(server: ScriptedServer) -> None:
    """And each loss: what happened meanwhile is not left until the next period."""
    async with observing(server.socket, relist_period=RARELY) as observer:
        await observer.reaches(StreamState.STREAMING)
        lists = server.faults
        await until(lambda: lists.count(Method.LIST_CONTAINERS) == 2, "the relist for the first")
        server.disconnect()
        await observer.reaches(StreamState.BACKOFF)
        await until(lambda: lists.count(Method.LIST_CONTAINERS) == 3, "the relist for the loss")
        await observer.reaches(StreamState.STREAMING)
        reconnected = time.monotonic()
        await until(lambda: lists.count(Method.LIST_CONTAINERS) == 4, "the relist for the second")
        assert lists.times(Method.LIST_CONTAINERS)[-1] - reconnected < 1


async def test_a_runtime_that_starts_later_is_waited_for(
    folder: Path, log: list[EventDict]
) -> None:
    """No socket is no reason to end: exporters start before runtimes."""
    path = folder / "cri.sock"
    async with observing(path) as observer:
        await patiently(lambda: observer.node.stream.state is StreamState.BACKOFF, "it has waited")
        assert f"no runtime socket at unix://{path}" in observer.node.stream.note
        assert observer.not_ready
        assert not observer.not_alive
        async with simulated(at=path):
            await observer.connected()
            assert not observer.not_ready
    said = [(line["log_level"], line["event"]) for line in log]
    assert said[0] == ("info", "waiting for the runtime")
    assert {"relist failed", "event stream backoff"} <= {text for _, text in said}


async def test_a_socket_that_comes_at_once_costs_one_line(
    folder: Path, log: list[EventDict]
) -> None:
    """Each start of a pod with a filter said four warnings and counted two failed relists."""
    path = folder / "cri.sock"
    async with observing(path) as observer:
        await patiently(lambda: bool(log), "it has looked")
        assert observer.node.stream.state is StreamState.CONNECTING
        async with simulated(at=path):
            await observer.connected()
            await observer.relisted()
            assert observer.node.relist_errors == {}
            said = [line["event"] for line in log if "runtime" in line["event"]]
            assert said == ["waiting for the runtime"]
            assert not [line for line in log if line["log_level"] == "warning"]


@pytest.mark.parametrize(
    ("before", "state", "after", "name"),
    [
        (QUIET, StreamState.STREAMING, CRIO, "cri-o"),
        (EXCLUSIVE, StreamState.REFUSED, QUIET, "containerd"),
        (DISABLED, StreamState.DISABLED, CRIO, "cri-o"),
    ],
    ids=["another runtime", "an upgrade", "events switched on"],
)
async def test_a_runtime_replaced_on_the_same_path_is_followed(
    folder: Path, before: Options, state: StreamState, after: Options, name: str
) -> None:
    path = folder / "cri.sock"
    async with simulated(before, at=path) as old, observing(path) as observer:
        await observer.reaches(state)
        times = observer.node.connections + 1
        await old.go_down()
        async with simulated(after, at=path) as new:
            running_container(new)
            await observer.connected(times=times)
            assert new.runtime.channel.subscribers == 1
            assert observer.node.inventory.pods == 1
            assert observer.node.runtime is not None
            assert observer.node.runtime.name == name


async def test_a_state_that_is_tried_slowly_is_shown_until_the_answer_changes(
    log: list[EventDict],
) -> None:
    """Trying again is no news: neither a flicker to `connecting` nor a second warning."""
    async with simulated(EXCLUSIVE) as server, observing(server.socket) as observer:
        await observer.reaches(StreamState.REFUSED)
        server.faults.hang(Method.VERSION)
        await patiently(lambda: server.faults.count(Method.VERSION) == 2, "a second attempt")
        assert observer.node.stream.state is StreamState.REFUSED
        server.faults.resume()
        await patiently(lambda: server.faults.count(Method.VERSION) == 3, "a third attempt")
    levels = [line["log_level"] for line in log if line["event"] == "event stream refused"]
    assert levels == ["warning"]
