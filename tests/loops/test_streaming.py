"""The subscription: each of its states, what leads to it and what it shows; how it is lost."""

import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import grpc
import pytest
from structlog.typing import EventDict

from exporter.model.findings import Verdict
from exporter.model.labels import StreamState
from simulator.channel import StreamEnding
from simulator.options import Options
from simulator.service import Method
from testbed.messages import introduction
from testbed.waiting import until
from tests.support.observer import observing, patiently
from tests.support.runtimes import (
    CRIO,
    DISABLED,
    EXCLUSIVE,
    QUIET,
    UNIMPLEMENTED,
    ScriptedServer,
    running_container,
    simulated,
    unannounced,
)

pytestmark = pytest.mark.virtual_time

EVENTS = Method.GET_CONTAINER_EVENTS


@dataclass(frozen=True, slots=True)
class Unstreamed:
    """A runtime without a usable stream: the state, parts of its note, how often it is tried."""

    state: StreamState
    notes: tuple[str, ...]
    options: Options = QUIET
    version: tuple[str, str] | None = None
    tries: int = 0


UNSTREAMED = {
    # A runtime that was going down ends one stream, too: it is tried again before it is believed.
    "switched off": Unstreamed(
        StreamState.DISABLED, ("enable_pod_events = true",), DISABLED, tries=2
    ),
    "no such call": Unstreamed(StreamState.UNSUPPORTED, ("unimplemented",), UNIMPLEMENTED, tries=1),
    "known to have none": Unstreamed(
        StreamState.UNSUPPORTED,
        ("containerd before 1.7 has no GetContainerEvents: relist only",),
        version=("containerd", "1.6.20"),
    ),
    "unknown": Unstreamed(
        StreamState.REFUSED,
        ("hyperspace 9.1 is not known here: a second subscriber might take events from",),
        version=("hyperspace", "9.1"),
    ),
}


@pytest.mark.parametrize("name", UNSTREAMED)
async def test_a_runtime_without_a_stream_has_a_state_and_owes_nothing(name: str) -> None:
    """The note says why and what to do; what the relist sees is counted and not judged."""
    case = UNSTREAMED[name]
    async with simulated(case.options) as server:
        if case.version:
            server.faults.reply_next(Method.VERSION, introduction(*case.version))
        async with observing(server.socket) as observer:
            calls = server.faults
            await observer.reaches(case.state)
            await patiently(lambda: calls.count(EVENTS) == case.tries, "tried")
            await observer.relisted()
            server.runtime.run_pod("web-0")
            await observer.judged()
            assert observer.losses == {}
            assert observer.tallied(Verdict.WITNESSED) == {"witnessed ContainerStarted sandbox": 1}
            assert (await observer.metrics()).stream == case.state.value
            assert all(each in observer.node.stream.note for each in case.notes)
            assert await observer.value("shadow_pleg_stream_connections_total") == 0
            assert calls.count(EVENTS) == case.tries


async def test_a_short_stream_that_brought_something_was_one(server: ScriptedServer) -> None:
    server.runtime.run_pod("web-0")
    async with observing(server.socket) as observer:
        await until(lambda: observer.node.received.total() == 2, "the backlog has come")
        server.disconnect(StreamEnding.CLEAN)
        await observer.reaches(StreamState.BACKOFF)
        assert observer.node.stream.ends == {"eof": 1}
        assert observer.node.connections == 1


CODES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.ABORTED)


@pytest.mark.parametrize(("method", "code"), list(product((Method.VERSION, EVENTS), CODES)))
async def test_an_error_leads_to_backoff_and_the_next_attempt_to_the_stream(
    server: ScriptedServer, log: list[EventDict], method: Method, code: grpc.StatusCode
) -> None:
    reason = code.name.lower()
    server.faults.refuse_next(1, method, code=code, details="on purpose")
    async with observing(server.socket) as observer:
        await observer.reaches(StreamState.BACKOFF)
        assert f"{method.value}: {reason}: on purpose" in observer.node.stream.note
        await observer.reaches(StreamState.STREAMING)
    (line,) = (line for line in log if line["event"] == "event stream backoff")
    assert (line["log_level"], line["reason"]) == ("warning", reason)


async def test_a_runtime_met_before_may_lose_its_calls_for_a_while(server: ScriptedServer) -> None:
    """One that restarts may answer UNIMPLEMENTED until its plugins are loaded."""
    server.faults.refuse_next(1, Method.GET_CONTAINER_EVENTS)
    async with observing(server.socket) as observer:
        await observer.reaches(StreamState.BACKOFF)
        server.faults.refuse_next(1, Method.VERSION, code=grpc.StatusCode.UNIMPLEMENTED)
        await patiently(lambda: "unimplemented" in observer.node.stream.note, "it learnt that")
        assert observer.node.stream.state is StreamState.BACKOFF
        await observer.reaches(StreamState.STREAMING)


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
