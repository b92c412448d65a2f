"""What the recordings do not show: who is sent what, and how a node changes by itself."""

import asyncio
import contextlib
import stat
import time

import pytest

from exporter.errors import CriUnavailableError
from exporter.model.events import Lifecycle, ObjectKind
from simulator.channel import QUEUE, Subscriber
from simulator.options import Options, Runtime
from simulator.runtime import SimulatedRuntime
from testbed.waiting import until
from tests.support.runtimes import PATIENT, client_of, simulated


def quiet(runtime: Runtime) -> Options:
    return Options(churn=0, runtime=runtime)


def heard(stream: Subscriber) -> list[str]:
    return [notice.container_id for notice in stream.unsent()]


@pytest.mark.quick
def test_subscribers_of_a_shared_channel_split_the_announcements() -> None:
    """On containerd 1.7 each goes to one of them, in turn."""
    runtime = SimulatedRuntime(quiet(Runtime.CONTAINERD_1))
    runtime.up = False
    pod = runtime.run_pod("web")
    runtime.up = True
    streams = [runtime.channel.subscribe(0) for _ in range(2)]
    containers = [runtime.create(pod, str(n)) for n in range(4)]
    assert list(map(heard, streams)) == [containers[::2], containers[1::2]]


@pytest.mark.quick
def test_an_unwatched_crio_forgets_after_its_first_subscriber() -> None:
    """Only the first ever finds something kept."""
    runtime = SimulatedRuntime(quiet(Runtime.CRIO))
    runtime.channel.leave(runtime.channel.subscribe(0))
    runtime.run_pod("web")
    assert heard(runtime.channel.subscribe(0)) == []
    assert runtime.losses == {(Lifecycle.STARTED, ObjectKind.SANDBOX): 1}


@pytest.mark.virtual_time
async def test_containerd_loses_the_announcement_after_its_last_client_left() -> None:
    """It notices the departure only then; what follows is kept, for five minutes."""
    runtime = SimulatedRuntime(quiet(Runtime.CONTAINERD_2))
    pod = runtime.run_pod("web")
    stream = runtime.channel.subscribe(time.time_ns())
    assert set(heard(stream)) == {pod}
    runtime.channel.leave(stream)
    runtime.create(pod, "lost")
    runtime.create(pod, "old")
    await asyncio.sleep(301)
    kept = runtime.create(pod, "kept")
    assert heard(runtime.channel.subscribe(time.time_ns())) == [kept]
    assert runtime.losses == {(Lifecycle.CHANGED, ObjectKind.CONTAINER): 2}


async def test_each_announcement_that_no_subscriber_gets_is_counted() -> None:
    full, left, dead = (SimulatedRuntime(quiet(Runtime.CONTAINERD_2)) for _ in range(3))
    stream = [each.channel.subscribe(0) for each in (full, left, dead)][1]
    for runtime, count in ((full, QUEUE), (left, 1), (dead, 1)):
        pod = runtime.run_pod("web")
        for number in range(count):
            runtime.create(pod, str(number))
    left.channel.leave(stream)
    dead.go_down()
    dead.run_pod("more")
    assert [each.losses.total() for each in (full, left, dead)] == [2, 3, 2]


@pytest.mark.parametrize(
    ("runtime", "end"),
    [
        (Runtime.CONTAINERD_2, pytest.raises(CriUnavailableError)),
        (Runtime.CRIO, contextlib.nullcontext()),
    ],
)
async def test_a_restart_ends_streams_its_own_way(
    runtime: Runtime, end: contextlib.AbstractContextManager[object]
) -> None:
    """CRI-O ends them cleanly, containerd with UNAVAILABLE; the socket comes and goes."""
    async with simulated(quiet(runtime)) as server, client_of(server.socket) as client:
        stream = client.subscribe(1, None)
        await until(lambda: server.runtime.channel.subscribers > 0, "it is subscribed")
        await server.go_down()
        with end:
            await stream.read(lambda _: False)
        assert not server.socket.exists()
        with pytest.raises(CriUnavailableError):
            await client.version(PATIENT)
        await server.come_up()
        assert stat.S_ISSOCK(server.socket.stat().st_mode)
