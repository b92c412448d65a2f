"""To whom announcements go, and what becomes of them while there is no subscriber."""

import asyncio
from collections.abc import Iterable

import pytest

from exporter.pleg.events import EventType, Lifecycle, ObjectKind
from simulator.channel import QUEUE, StreamEnding
from simulator.options import Options, Runtime
from simulator.runtime import SimulatedRuntime
from testbed.waiting import until
from tests.support.cri_clients import subscribed
from tests.support.runtimes import simulated, unannounced

pytestmark = pytest.mark.virtual_time


def quiet(runtime: Runtime) -> Options:
    """That runtime, without churn or faults."""
    return Options(churn=0, runtime=runtime)


@pytest.mark.parametrize("runtime", [Runtime.CONTAINERD_2, Runtime.CRIO])
async def test_every_subscriber_gets_every_announcement(runtime: Runtime) -> None:
    """Broadcast."""
    async with (
        simulated(quiet(runtime)) as server,
        subscribed(server) as one,
        subscribed(server) as two,
    ):
        server.runtime.run_pod("web")
        first = await one.rest()
        assert first == await two.rest()
    assert first[-1].type is EventType.STARTED


async def test_subscribers_of_a_shared_channel_split_the_announcements() -> None:
    """On containerd 1.7 each goes to one of them, in turn."""
    async with simulated(quiet(Runtime.CONTAINERD_1)) as server:
        runtime = server.runtime
        with unannounced(server):
            pod = runtime.run_pod("web")
        async with subscribed(server) as one, subscribed(server) as two:
            containers = [runtime.create(pod, str(n)) for n in range(4)]
            heard = [[event.id for event in await stream.read(2)] for stream in (one, two)]
    assert heard == [containers[::2], containers[1::2]]


@pytest.mark.parametrize("runtime", Runtime)
async def test_what_precedes_the_first_subscriber_is_kept_for_it(runtime: Runtime) -> None:
    """All of the imitated runtimes do so."""
    async with simulated(quiet(runtime)) as server:
        container = server.runtime.create(server.runtime.run_pod("web"), "app")
        async with subscribed(server) as stream:
            assert (await stream.rest())[-1].id == container
    assert not server.runtime.losses


async def test_an_unwatched_crio_forgets_after_its_first_subscriber() -> None:
    """Only the first ever finds something kept."""
    async with simulated(quiet(Runtime.CRIO)) as server:
        async with subscribed(server):
            pass
        await until(lambda: server.runtime.channel.subscribers == 0, "it has left")
        server.runtime.run_pod("web")
        async with subscribed(server) as stream:
            assert await stream.rest() == []
        assert server.runtime.losses == {(Lifecycle.STARTED, ObjectKind.SANDBOX): 1}


async def test_containerd_loses_the_announcement_after_its_last_client_left() -> None:
    """It notices the departure only then; what follows is kept."""
    async with simulated(quiet(Runtime.CONTAINERD_2)) as server:
        runtime = server.runtime
        pod = runtime.run_pod("web")
        async with subscribed(server) as stream:
            await stream.rest()
        await until(lambda: runtime.channel.subscribers == 0, "it has left")
        runtime.create(pod, "lost")
        kept = runtime.create(pod, "kept")
        async with subscribed(server) as stream:
            assert [event.id for event in await stream.rest()] == [kept]
        assert runtime.losses == {(Lifecycle.CHANGED, ObjectKind.CONTAINER): 1}


async def test_containerd_keeps_announcements_for_five_minutes() -> None:
    """An older one is lost, a younger one is sent."""
    async with simulated(quiet(Runtime.CONTAINERD_2)) as server:
        server.runtime.run_pod("old")
        await asyncio.sleep(301)
        young = server.runtime.run_pod("young")
        async with subscribed(server) as stream:
            assert {event.id for event in await stream.rest()} == {young}
        assert server.runtime.losses.total() == 2


def created(runtime: SimulatedRuntime, names: Iterable[object]) -> None:
    """Create containers, each of which is announced once."""
    pod = runtime.run_pod("web")
    for name in names:
        runtime.create(pod, str(name))


async def test_a_full_queue_loses_and_counts() -> None:
    """A subscriber that does not read does not stop the runtime here."""
    runtime = SimulatedRuntime(quiet(Runtime.CONTAINERD_2))
    runtime.channel.subscribe(0)
    created(runtime, range(QUEUE))
    assert runtime.losses == {(Lifecycle.CHANGED, ObjectKind.CONTAINER): 2}


@pytest.mark.parametrize(
    ("streams", "lost"), [(1, 3), (2, 0)], ids=["its only stream", "one of two streams"]
)
async def test_what_a_stream_did_not_send_is_lost_unless_another_one_has_it(
    streams: int, lost: int
) -> None:
    """A client that leaves takes along what it has not read."""
    runtime = SimulatedRuntime(quiet(Runtime.CONTAINERD_2))
    leaving, *_ = [runtime.channel.subscribe(0) for _ in range(streams)]
    created(runtime, ["one"])
    runtime.channel.leave(leaving)
    assert runtime.losses.total() == lost


@pytest.mark.parametrize("runtime", Runtime)
async def test_what_a_runtime_that_dies_had_not_sent_is_lost(runtime: Runtime) -> None:
    """In a stream's queue, delayed, or kept; and what happens while it is down."""
    queued, delayed, kept = (
        SimulatedRuntime(Options(churn=0, runtime=runtime, delay=delay)) for delay in (0, 1, 0)
    )
    queued.channel.subscribe(0)
    for each in (queued, delayed, kept):
        created(each, ["one", "two"])
        assert not each.losses
        each.go_down()
        each.channel.end_all(StreamEnding.UNAVAILABLE)
        assert each.losses[Lifecycle.CHANGED, ObjectKind.CONTAINER] == 2
        created(each, ["three"])
        assert each.losses[Lifecycle.CHANGED, ObjectKind.CONTAINER] == 3
