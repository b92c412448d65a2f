"""Each state of the stream: what leads to it, what it says, and what a scrape shows."""

from __future__ import annotations

import asyncio
import time
from itertools import product

import grpc
import pytest
from structlog.typing import EventDict

from exporter.errors import ConfigError
from exporter.loops.streaming import Ending
from exporter.node.state import StreamState
from exporter.settings.config import EventStream
from exporter.simulator.calls import Method
from exporter.simulator.channel import End
from exporter.simulator.options import Events, Options, Runtime
from exporter.simulator.server import SimulatedServer
from tests.support.observer import PATIENCE, Observer, observing
from tests.support.parts import parts
from tests.support.runtimes import calls_of, introduction, simulated
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

EXCLUSIVE = Options(pods=0, churn=0, runtime=Runtime.CONTAINERD_1)
DISABLED = Options(pods=0, churn=0, runtime=Runtime.CRIO, events=Events.DISABLED)
UNIMPLEMENTED = Options(pods=0, churn=0, events=Events.UNIMPLEMENTED)


async def shown_state(observer: Observer) -> str:
    """The one state of the stream that a scrape shows as 1."""
    states = await observer.samples("shadow_pleg_stream_state")
    assert len(states) == len(StreamState)
    (state,) = [label for (label,), value in states.items() if value == 1]
    assert sum(states.values()) == 1
    return state


async def test_it_connects_until_the_runtime_has_answered(server: SimulatedServer) -> None:
    """While Version hangs it is `connecting`; once that is answered, `streaming`."""
    server.faults.hang(Method.VERSION)
    async with observing(server.socket) as observer:
        await until(lambda: calls_of(server).count(Method.VERSION) == 1, "Version was asked")
        assert await shown_state(observer) == "connecting"
        server.faults.resume()
        await observer.reaches(StreamState.STREAMING)
        assert await shown_state(observer) == "streaming"
        assert await observer.value("shadow_pleg_stream_connections_total") == 1
        assert observer.node.stream_note == ""


async def test_a_stream_that_ends_at_once_is_disabled() -> None:
    """CRI-O without `enable_pod_events`: a state of its own, with what to do about it."""
    async with simulated(DISABLED) as server, observing(server.socket) as observer:
        await observer.reaches(StreamState.DISABLED)
        assert await shown_state(observer) == "disabled"
        assert "enable_pod_events = true" in observer.node.stream_note
        assert await observer.value("shadow_pleg_stream_connections_total") == 0


async def test_a_disabled_stream_is_tried_a_second_time_soon() -> None:
    """It may have been a runtime that was going down."""
    async with simulated(DISABLED) as server, observing(server.socket) as observer:
        calls = calls_of(server)
        await until(
            lambda: calls.count(Method.GET_CONTAINER_EVENTS) == 2,
            "a second attempt",
            seconds=PATIENCE,
        )
        assert calls.gaps(Method.GET_CONTAINER_EVENTS)[0] < 10
        assert await shown_state(observer) == "disabled"


async def test_a_disabled_stream_is_tried_again_soon_after_other_failures_too() -> None:
    """CRI-O that restarts twice ends streams, refuses calls and ends streams at once again."""
    async with simulated(DISABLED) as server:
        server.faults.refuse_next(1, Method.VERSION)
        async with observing(server.socket) as observer:
            await observer.reaches(StreamState.DISABLED)
            calls = calls_of(server)
            await until(
                lambda: calls.count(Method.GET_CONTAINER_EVENTS) == 2,
                "a second attempt",
                seconds=PATIENCE,
            )


async def pauses(*endings: Ending) -> list[float]:
    """How long it rests after attempts that end so, one after another."""
    async with parts() as those:
        return [those.streaming._pause(each, time.monotonic()) for each in endings]  # noqa: SLF001 - the pause is the question


async def test_what_an_operator_must_change_is_tried_again_every_minute() -> None:
    """With some jitter; a stream that was disabled is first looked at once more."""
    minute = pytest.approx(75, abs=15)
    for state in (StreamState.UNSUPPORTED, StreamState.REFUSED):
        assert await pauses(*[Ending(state, "")] * 3) == [minute] * 3
    first, *others = await pauses(*[Ending(StreamState.DISABLED, "")] * 3)
    assert 1 <= first < 2
    assert others == [minute] * 2


async def test_what_may_heal_by_itself_is_tried_again_ever_later() -> None:
    """A lost stream that had held for long is no failure yet."""
    failed = Ending(StreamState.BACKOFF, "")
    held = Ending(StreamState.BACKOFF, "", streamed=3600.0)
    rests = await pauses(*[failed] * 7, held, failed)
    bounds = [(1, 1.5), (2, 3), (4, 6), (8, 12), (16, 24), (30, 45), (30, 45), (0, 1), (1, 1.5)]
    assert all(low <= rest <= high for rest, (low, high) in zip(rests, bounds, strict=True)), rests


async def test_a_runtime_without_the_call_is_unsupported() -> None:
    """UNIMPLEMENTED is no error to be retried every second."""
    async with simulated(UNIMPLEMENTED) as server, observing(server.socket) as observer:
        await observer.reaches(StreamState.UNSUPPORTED)
        assert await shown_state(observer) == "unsupported"
        assert "unimplemented" in observer.node.stream_note


async def test_a_runtime_known_to_have_no_events_is_not_asked_for_them(
    server: SimulatedServer,
) -> None:
    """So containerd 1.6 is `unsupported` by its profile alone."""
    server.faults.reply_next(Method.VERSION, introduction("containerd", "1.6.20"))
    async with observing(server.socket) as observer:
        await observer.reaches(StreamState.UNSUPPORTED)
        assert observer.node.stream_note == (
            "containerd before 1.7 has no GetContainerEvents: relist only"
        )
        assert calls_of(server).count(Method.GET_CONTAINER_EVENTS) == 0


async def test_a_runtime_with_one_channel_for_all_is_refused() -> None:
    """On containerd 1.7 a second subscriber would take events from the kubelet."""
    async with simulated(EXCLUSIVE) as server, observing(server.socket) as observer:
        await observer.reaches(StreamState.REFUSED)
        await observer.relisted()
        assert await shown_state(observer) == "refused"
        assert "takes events from the kubelet" in observer.node.stream_note
        assert "--event-stream=always" in observer.node.stream_note
        assert calls_of(server).count(Method.GET_CONTAINER_EVENTS) == 0


async def test_always_subscribes_where_auto_would_not() -> None:
    """The operator knows better: no kubelet reads events on this node."""
    async with (
        simulated(EXCLUSIVE) as server,
        observing(server.socket, event_stream=EventStream.ALWAYS) as observer,
    ):
        await observer.reaches(StreamState.STREAMING)
        ((labels, _),) = (await observer.samples("shadow_pleg_runtime_info")).items()
        assert set(labels) == {"containerd", "1.7.24", "v1", "exclusive"}


async def test_never_refuses_every_runtime(server: SimulatedServer) -> None:
    """Relist only, by choice, even where subscribing is safe."""
    async with observing(server.socket, event_stream=EventStream.NEVER) as observer:
        await observer.reaches(StreamState.REFUSED)
        await observer.relisted()
        assert observer.node.stream_note == "--event-stream=never: relist only"
        assert calls_of(server).count(Method.GET_CONTAINER_EVENTS) == 0


async def test_a_refused_stream_owes_nothing() -> None:
    """Where nobody subscribes on purpose, what the relist sees is counted and not judged."""
    async with simulated(EXCLUSIVE) as server, observing(server.socket) as observer:
        await observer.reaches(StreamState.REFUSED)
        await observer.relisted()
        server.runtime.run_pod("web-0")
        await observer.judged()
        assert await observer.losses() == {}
        assert await observer.witnessed() == {"witnessed ContainerStarted sandbox": 1}


@pytest.mark.parametrize("options", [DISABLED, UNIMPLEMENTED], ids=["disabled", "unsupported"])
async def test_a_stream_that_does_not_exist_owes_nothing(options: Options) -> None:
    """What nobody sends cannot be missed; only that the relist saw it is counted."""
    async with simulated(options) as server, observing(server.socket) as observer:
        attempts = 2 if options is DISABLED else 1
        calls = calls_of(server)
        await until(lambda: calls.count(Method.GET_CONTAINER_EVENTS) == attempts, "it is settled")
        await observer.relisted()
        server.runtime.run_pod("web-0")
        await observer.judged()
        assert await observer.losses() == {}
        assert await observer.witnessed() == {"witnessed ContainerStarted sandbox": 1}


async def test_a_short_stream_that_brought_something_was_one(server: SimulatedServer) -> None:
    """A runtime that goes down as soon as we have come is not `disabled`."""
    server.runtime.run_pod("web-0")
    async with observing(server.socket) as observer:
        await until(lambda: observer.node.received.total() == 2, "what was kept has come")
        server.disconnect(End.CLEAN)
        await observer.reaches(StreamState.BACKOFF)
        assert observer.node.disconnects == {"eof": 1}
        assert observer.node.connections == 1


async def test_an_unknown_runtime_is_refused_and_named(server: SimulatedServer) -> None:
    """What is not in the table is not known to be safe."""
    server.faults.reply_next(Method.VERSION, introduction("hyperspace", "9.1"))
    async with observing(server.socket) as observer:
        await observer.reaches(StreamState.REFUSED)
        assert observer.node.stream_note.startswith(
            "the runtime hyperspace 9.1 is not known here:"
            " a second subscriber might take events from the kubelet: relist only"
        )


async def test_an_error_leads_to_backoff_and_the_next_attempt_to_the_stream(
    log: list[EventDict],
) -> None:
    """Whichever call fails, however: it says why, waits, and tries again."""
    codes = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.ABORTED)
    methods = (Method.VERSION, Method.GET_CONTAINER_EVENTS)
    async with asyncio.TaskGroup() as together:
        for method, code in product(methods, codes):
            together.create_task(recovers_from(method, code))
    lines = [line for line in log if line["event"] == "event stream backoff"]
    assert len(lines) == len(codes) * len(methods)
    assert {line["log_level"] for line in lines} == {"warning"}
    assert {line["reason"] for line in lines} == {code.name.lower() for code in codes}


async def recovers_from(method: Method, code: grpc.StatusCode) -> None:
    """One failed call, then a stream."""
    async with simulated() as server:
        server.faults.refuse_next(1, method, code=code, details="on purpose")
        async with observing(server.socket) as observer:
            await observer.reaches(StreamState.BACKOFF)
            assert await shown_state(observer) == "backoff"
            assert f"{method.value}: {code.name.lower()}: on purpose" in observer.node.stream_note
            await observer.reaches(StreamState.STREAMING)


async def test_an_answer_that_is_no_message_leads_to_backoff(server: SimulatedServer) -> None:
    """What cannot be read is the runtime's error, not ours."""
    server.faults.reply_next(Method.VERSION, b"\xff\xff")
    async with observing(server.socket) as observer:
        await observer.reaches(StreamState.BACKOFF)
        assert observer.node.stream_note == "Version: the answer is no protobuf message"
        await observer.reaches(StreamState.STREAMING)


@pytest.mark.parametrize("served", [0, 1], ids=["as_introduction", "after_the_subscription"])
async def test_a_version_that_hangs_leads_to_backoff(server: SimulatedServer, served: int) -> None:
    """No answer within the deadline is an answer; the watch does not wait for ever."""
    calls_of(server).hang_after(served, Method.VERSION)
    async with observing(server.socket) as observer:
        await observer.reaches(StreamState.BACKOFF)
        assert "Version: deadline_exceeded" in observer.node.stream_note
        assert calls_of(server).count(Method.GET_CONTAINER_EVENTS) == served
        server.faults.resume()
        await observer.reaches(StreamState.STREAMING)


async def test_what_speaks_grpc_and_no_cri_ends_the_daemon(server: SimulatedServer) -> None:
    """A wrong socket heals by no waiting: the message names the flag."""
    server.faults.refuse_next(1, Method.VERSION, code=grpc.StatusCode.UNIMPLEMENTED)
    with pytest.raises(ExceptionGroup) as caught:
        async with observing(server.socket) as observer:
            await observer.reaches(StreamState.STREAMING)
    (error,) = caught.value.exceptions
    assert isinstance(error, ConfigError)
    assert "speaks gRPC but not CRI v1" in str(error)


async def test_a_runtime_met_before_may_lose_its_calls_for_a_while(
    server: SimulatedServer,
) -> None:
    """One that restarts may answer UNIMPLEMENTED until its plugins are loaded."""
    server.faults.refuse_next(1, Method.GET_CONTAINER_EVENTS)
    async with observing(server.socket) as observer:
        await observer.reaches(StreamState.BACKOFF)
        server.faults.refuse_next(1, Method.VERSION, code=grpc.StatusCode.UNIMPLEMENTED)
        await until(
            lambda: "unimplemented" in observer.node.stream_note, "it was told so", seconds=PATIENCE
        )
        assert observer.node.stream is StreamState.BACKOFF
        await observer.reaches(StreamState.STREAMING)


async def test_the_subscription_ends_with_the_watch(server: SimulatedServer) -> None:
    """Nothing is left open at the runtime."""
    async with observing(server.socket) as observer:
        await observer.reaches(StreamState.STREAMING)
        assert server.runtime.channel.subscribers == 1
    await until(lambda: server.runtime.channel.subscribers == 0, "no subscriber is left")
