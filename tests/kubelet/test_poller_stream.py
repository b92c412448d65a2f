"""An exclusive stream: used while the kubelet does not want it, and left in time."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from structlog.typing import EventDict

from exporter.kubelet.state import Gate
from exporter.node.state import StreamState
from exporter.pleg.events import EventType
from exporter.pleg.findings import Cause, Verdict
from exporter.settings.config import EventStream
from exporter.simulator.options import Options, Runtime
from exporter.simulator.service import Method
from tests.support import kubelet_server as server
from tests.support.kubelet_pages import STARTED, KubeletPage
from tests.support.kubelet_server import Answer, FakeKubelet, kubelet
from tests.support.observer import Observer, observing
from tests.support.runtimes import (
    introduction,
    running_container,
    short_folder,
    simulated,
    unannounced,
)
from tests.support.scripted_runtime import ScriptedServer
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

EXCLUSIVE = Options(pods=0, churn=0, runtime=Runtime.CONTAINERD_1)
GRACE = 5.0
TRUST = 4.0
OFTEN = 0.05
RESTARTED = KubeletPage(gate=True, started=STARTED + 100)
OFF_AGAIN = KubeletPage(gate=False, started=STARTED + 200)


@asynccontextmanager
async def watching(
    runtime: ScriptedServer,
    fake: FakeKubelet,
    **others: Any,  # noqa: ANN401 - settings
) -> AsyncIterator[Observer]:
    """A daemon that asks this kubelet."""
    quick = {"missed_grace": GRACE, "kubelet_metrics_period": OFTEN, **others}
    async with observing(runtime.socket, kubelet_metrics_url=fake.url, **quick) as observer:
        yield observer


@asynccontextmanager
async def taken(**others: Any) -> AsyncIterator[tuple[ScriptedServer, FakeKubelet, Observer]]:  # noqa: ANN401 - settings
    """A containerd 1.7 whose kubelet leaves the events to a daemon that has taken them."""
    async with (
        simulated(EXCLUSIVE) as runtime,
        kubelet() as fake,
        watching(runtime, fake, **others) as observer,
    ):
        await observer.reaches(StreamState.STREAMING)
        await observer.relisted()
        yield runtime, fake, observer


def heard(observer: Observer) -> int:
    """How many events have come."""
    return observer.node.received.total()


async def lost(observer: Observer) -> dict[str, float]:
    """What was missed or is a gap; that a pod's first steps are over at once is not of interest."""
    losses = await observer.losses()
    return {what: times for what, times in losses.items() if not what.startswith("unseen")}


async def first_event(runtime: ScriptedServer, observer: Observer) -> None:
    """From now on the stream owes its events."""
    before = heard(observer)
    running_container(runtime, "first")
    await until(lambda: heard(observer) > before, "an event has come")
    await observer.relisted()


async def test_it_is_taken_while_the_kubelet_leaves_it() -> None:
    """From its first event on, a loss is silent as on any stream."""
    async with simulated(EXCLUSIVE) as runtime, kubelet() as fake:
        with unannounced(runtime):
            (_, first), (_, app) = (running_container(runtime, f"web-{n}") for n in range(2))
        async with watching(runtime, fake) as observer:
            await observer.connected()
            runtime.runtime.exit(first)
            await until(lambda: heard(observer) == 1, "one event has come")
            await observer.relisted()
            runtime.runtime.outbox.drop_next(app, EventType.STOPPED)
            runtime.runtime.exit(app)
            await observer.found(Verdict.MISSED)
            assert await lost(observer) == {"missed ContainerDied container silent": 1}


@pytest.mark.parametrize(
    ("page", "answer", "why"),
    [
        (KubeletPage(gate=True), None, "of the kubelet, its gate EventedPLEG is on"),
        # It is not waited for longer than other calls.
        (KubeletPage(), server.hangs, "whether the kubelet wants them is not known"),
    ],
    ids=["on", "silent"],
)
async def test_it_is_refused_where_the_kubelet_may_want_it(
    page: KubeletPage, answer: Answer | None, why: str
) -> None:
    """The runtime is not asked for its stream, and the note says why."""
    async with simulated(EXCLUSIVE) as runtime, kubelet(page) as fake:
        fake.answer = answer
        async with watching(runtime, fake) as observer:
            note = f"relist only; {why}"
            await until(lambda: observer.node.stream_note.endswith(note), why)
            assert observer.node.stream is StreamState.REFUSED
            assert runtime.faults.count(Method.GET_CONTAINER_EVENTS) == 0


async def test_it_waits_until_the_kubelet_is_known_and_no_longer() -> None:
    """Refused streams are tried again after a minute; this one at once."""
    async with simulated(EXCLUSIVE) as runtime, kubelet() as fake:
        fake.answer = server.status(401)
        async with watching(runtime, fake) as observer:
            await observer.reaches(StreamState.REFUSED)
            assert runtime.faults.count(Method.GET_CONTAINER_EVENTS) == 0
            fake.answer = None
            await observer.reaches(StreamState.STREAMING, seconds=10)


async def test_at_the_start_it_waits_for_the_kubelets_first_word(log: list[EventDict]) -> None:
    """Nothing is refused, and no warning is logged, because both were asked at the same time."""
    async with simulated(EXCLUSIVE) as runtime, kubelet() as fake:
        fake.answer = server.slowly(0.3)
        async with watching(runtime, fake) as observer:
            await observer.reaches(StreamState.STREAMING)
    assert not [line for line in log if line["event"] == "event stream refused"]


async def test_it_is_left_when_the_gate_is_seen_on(log: list[EventDict]) -> None:
    """Within a reading's time, counted by a reason of its own, and nothing is called missed."""
    async with taken() as (runtime, fake, observer):
        await first_event(runtime, observer)
        _, app = running_container(runtime, "web-0")
        fake.page, turned = RESTARTED, time.monotonic()
        await observer.reaches(StreamState.REFUSED)
        assert time.monotonic() - turned < TRUST
        await until(lambda: runtime.runtime.channel.subscribers == 0, "it is gone")
        # The event is the kubelet's; the exporter cannot know of it.
        runtime.runtime.exit(app)
        await observer.judged()
        assert await lost(observer) == {}
        assert observer.node.disconnects == {"kubelet": 1}
        counted = await observer.samples("shadow_pleg_stream_disconnects_total")
        assert {reason for (reason,), value in counted.items() if value} == {"kubelet"}
    (line,) = (line for line in log if line["event"] == "event stream left")
    assert line["error"].endswith("relist only; of the kubelet, its gate EventedPLEG is on")


async def test_it_is_left_when_the_kubelet_is_gone() -> None:
    """What comes in its place may want the events; when it does not, they are taken again."""
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(simulated(EXCLUSIVE))
        async with kubelet() as first:
            observer = await stack.enter_async_context(watching(runtime, first))
            await observer.reaches(StreamState.STREAMING)
        await observer.reaches(StreamState.REFUSED)
        assert observer.node.stream_note.endswith("the kubelet may have been restarted")
        async with kubelet(OFF_AGAIN, port=first.port):
            await observer.connected(times=2)


async def test_it_is_left_when_the_kubelet_is_silent() -> None:
    """An answer is trusted for less than the grace."""
    async with taken() as (_, fake, observer):
        fake.answer, began = server.hangs, time.monotonic()
        await observer.reaches(StreamState.REFUSED)
        assert time.monotonic() - began < GRACE
        assert observer.node.stream_note.endswith("the kubelet has not answered for 4s")


async def test_an_event_lost_by_leaving_is_not_the_runtimes_loss() -> None:
    """It went to the abandoned stream: `stream_down`, and the next loss is silent again."""
    async with taken() as (runtime, fake, observer):
        await first_event(runtime, observer)
        _, app = running_container(runtime, "web-0")
        await observer.relisted()
        fake.page = KubeletPage(started=STARTED + 100)
        await observer.connected(times=2)
        await until(lambda: runtime.runtime.channel.subscribers == 1, "the first is gone")
        runtime.runtime.exit(app)
        await observer.found(Verdict.MISSED)
        assert await lost(observer) == {"missed ContainerDied container stream_down": 1}
        await first_event(runtime, observer)
        _, app = running_container(runtime, "web-1")
        await observer.relisted()
        runtime.runtime.outbox.drop_next(app, EventType.STOPPED)
        runtime.runtime.exit(app)
        await observer.found(Verdict.MISSED, times=2)
        assert observer.node.tally.total(Verdict.MISSED, Cause.SILENT) == 1


async def test_it_is_asked_more_often_while_a_stream_depends_on_it() -> None:
    """Whatever the period is; and only then."""
    async with taken(kubelet_metrics_period=60.0) as (_, fake, observer):
        asked = len(fake.requests)
        await until(lambda: len(fake.requests) > asked + 3, "it is asked again")
        times = [at for at, _ in fake.requests[asked:]]
        assert (times[-1] - times[0]) / (len(times) - 1) < TRUST
        fake.page = RESTARTED
        await observer.reaches(StreamState.REFUSED)
        asked = len(fake.requests)
        await observer.relisted(time.monotonic() + 3 * TRUST)
        assert len(fake.requests) <= asked + 1


async def test_nothing_depends_on_the_kubelet_once_the_runtime_is_another() -> None:
    """After an upgrade to containerd 2 it is asked as rarely as anywhere, and holds nothing up."""
    async with AsyncExitStack() as stack:
        path = stack.enter_context(short_folder()) / "cri.sock"
        old = await stack.enter_async_context(simulated(EXCLUSIVE, at=path))
        fake = await stack.enter_async_context(kubelet())
        slowly = watching(old, fake, kubelet_metrics_period=60.0)
        observer = await stack.enter_async_context(slowly)
        await observer.connected()
        known = observer.node.kubelet
        assert known is not None
        assert known.watched
        await old.go_down()
        await stack.enter_async_context(simulated(at=path))
        await observer.connected(times=2)
        assert not known.watched
        fake.page = RESTARTED
        asked = len(fake.requests)
        await observer.relisted(time.monotonic() + 2 * TRUST)
        assert len(fake.requests) <= asked + 1
        assert observer.node.stream is StreamState.STREAMING


@pytest.mark.parametrize(("name", "version"), [("cri-o", "1.30.0"), ("hyperspace", "9.1")])
async def test_a_kubelet_cannot_speak_for_a_runtime_that_crashes_or_is_unknown(
    name: str, version: str
) -> None:
    """What leaves it alone is not what makes it safe."""
    async with simulated(EXCLUSIVE) as runtime, kubelet() as fake:
        runtime.faults.reply_next(Method.VERSION, introduction(name, version))
        async with watching(runtime, fake) as observer:
            await observer.reaches(StreamState.REFUSED)
            known = observer.node.kubelet
            assert known is not None
            await until(lambda: known.gate(time.monotonic()) is Gate.OFF, "the gate is off")
            await observer.judged()
            assert observer.node.stream is StreamState.REFUSED
            assert "--event-stream=always" in observer.node.stream_note
            assert not known.watched
            assert runtime.faults.count(Method.GET_CONTAINER_EVENTS) == 0


@pytest.mark.parametrize("wish", [EventStream.ALWAYS, EventStream.NEVER])
async def test_a_wish_is_not_the_kubelets_to_grant(wish: EventStream) -> None:
    """`always` subscribes and `never` does not, whatever the kubelet wants."""
    always = wish is EventStream.ALWAYS
    async with (
        simulated(EXCLUSIVE) as runtime,
        kubelet(KubeletPage(gate=always)) as fake,
        watching(runtime, fake, event_stream=wish) as observer,
    ):
        await observer.reaches(StreamState.STREAMING if always else StreamState.REFUSED)
        await observer.judged()
        assert runtime.faults.count(Method.GET_CONTAINER_EVENTS) == always
