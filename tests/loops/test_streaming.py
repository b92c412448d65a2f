"""The subscription: each of its states, what leads to it and what it shows."""

import asyncio
import time
from dataclasses import dataclass
from itertools import product

import grpc
import pytest
from structlog.typing import EventDict

from exporter.cri.endpoint import Endpoint
from exporter.loops.retrying import Ending, Retrying
from exporter.model.findings import Verdict
from exporter.model.labels import StreamState
from simulator.channel import StreamEnding
from simulator.options import Options
from simulator.service import Method
from testbed.messages import introduction
from testbed.waiting import until
from tests.support.observer import observing, patiently
from tests.support.runtimes import DISABLED, QUIET, UNIMPLEMENTED, simulated
from tests.support.scripted_runtime import ScriptedServer

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


def pauses(*endings: Ending) -> list[float]:
    retrying = Retrying(Endpoint(None), asyncio.Event(), asyncio.Event())
    return [retrying.pause(each, time.monotonic()) for each in endings]


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


def test_what_may_heal_by_itself_is_tried_again_ever_later() -> None:
    failed = Ending(StreamState.BACKOFF, "")
    held = Ending(StreamState.BACKOFF, "", streamed=3600.0)
    rests = pauses(*[failed] * 10, held, failed)
    doubling = [(2, 3), (4, 6), (8, 12), (16, 24), (30, 45), (30, 45)]
    bounds = [*[(1, 1.5)] * 4, *doubling, (0, 1), (1, 1.5)]
    assert all(low <= rest <= high for rest, (low, high) in zip(rests, bounds, strict=True)), rests


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
