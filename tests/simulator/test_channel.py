"""To whom announcements go, and what becomes of them while nobody listens."""

from __future__ import annotations

import pytest

from exporter.cri import runtime_v1_pb2 as cri
from exporter.pleg.events import Lifecycle, ObjectKind
from exporter.simulator.channel import QUEUE
from exporter.simulator.options import Options, Runtime
from tests.support.plain_client import FENCE, connected, eventually, serving, subscribed
from tests.support.witness import Witness

pytestmark = pytest.mark.quick


def options(runtime: Runtime) -> Options:
    """That runtime, without churn or faults."""
    return Options(churn=0, runtime=runtime)


@pytest.mark.parametrize("runtime", [Runtime.CONTAINERD_2, Runtime.CRIO])
async def test_every_subscriber_gets_every_announcement(runtime: Runtime) -> None:
    """Broadcast."""
    async with (
        serving(options(runtime)) as server,
        subscribed(server) as one,
        subscribed(server) as two,
    ):
        server.runtime.run_pod("web")
        server.announce_raw(FENCE)
        first, second = await one.until("fence"), await two.until("fence")
    assert first == second
    assert [event.type for event in first][-1:] == ["STARTED"]


async def test_subscribers_of_a_shared_channel_split_the_announcements() -> None:
    """On containerd 1.7 each goes to one of them, in turn."""
    async with serving(options(Runtime.CONTAINERD_1)) as server:
        runtime = server.runtime
        pod = runtime.run_pod("web")
        async with subscribed(server) as one, subscribed(server) as two:
            server.announce_raw(FENCE)
            await one.until("fence")
            containers = {runtime.create(pod, str(n)) for n in range(4)}
            events = [await stream.read() for stream in (two, one, two, one)]
    assert {event.id for event in events if event} == containers


async def test_what_nobody_heard_is_kept_for_the_first_to_come() -> None:
    """All of the imitated runtimes do so before their first subscriber ever."""
    for runtime in Runtime:
        async with serving(options(runtime)) as server:
            container = server.runtime.create(server.runtime.run_pod("web"), "app")
            server.announce_raw(FENCE)
            async with subscribed(server) as stream:
                kept = await stream.until("fence")
            assert kept[-1].id == container


async def test_an_unwatched_crio_forgets_after_its_first_subscriber() -> None:
    """Only the first ever finds something kept."""
    async with serving(options(Runtime.CRIO)) as server:
        async with subscribed(server):
            pass
        await eventually(lambda: server.runtime.channel.subscribers == 0)
        server.runtime.run_pod("web")
        async with subscribed(server) as stream:
            server.announce_raw(FENCE)
            assert await stream.until("fence") == []


async def test_containerd_loses_the_announcement_after_its_last_client_left() -> None:
    """It notices the departure only then; what follows is kept."""
    async with serving(options(Runtime.CONTAINERD_2)) as server:
        runtime = server.runtime
        pod = runtime.run_pod("web")
        async with subscribed(server):
            pass
        await eventually(lambda: runtime.channel.subscribers == 0)
        lost, kept = runtime.create(pod, "lost"), runtime.create(pod, "kept")
        server.announce_raw(FENCE)
        async with subscribed(server) as stream:
            ids = [event.id for event in await stream.until("fence")]
    assert kept in ids
    assert lost not in ids


def test_containerd_keeps_announcements_for_five_minutes() -> None:
    """An older one is gone, a younger one is replayed."""
    witness = Witness(options(Runtime.CONTAINERD_2))
    witness.runtime.run_pod("old")
    witness.clock.now += 301
    witness.runtime.run_pod("young")
    witness.subscribe()
    witness.read()
    named = {finding.container_id for finding in witness.findings}
    young = witness.runtime.sandboxes()[1].id
    assert named == {young}


async def test_a_full_queue_loses_and_counts() -> None:
    """A subscriber that does not read does not stop the runtime here."""
    witness = Witness(options(Runtime.CONTAINERD_2))
    witness.subscribe()
    witness.relist()
    pod = witness.runtime.run_pod("web")
    for n in range(QUEUE):
        witness.runtime.create(pod, str(n))
    assert witness.runtime.channel.overflowed == 2
    witness.settle()
    created = witness.runtime.truth.summary().row(Lifecycle.CHANGED, ObjectKind.CONTAINER)
    assert created.missed == 2


async def test_malformed_announcements_and_lists_go_out_as_they_are() -> None:
    """Empty ids, unknown enums, no status, foolish times, huge lists."""
    odd = cri.ContainerEventResponse(container_event_type=77, created_at=-1)  # type: ignore[arg-type]
    async with serving() as server, connected(server) as client, subscribed(server) as stream:
        server.announce_raw(odd.SerializeToString())
        event = await stream.read()
        assert event is not None
        assert (event.id, event.type, event.ready) == ("", "77", None)
        server.faults.containers.append(cri.Container(id="", state=9))  # type: ignore[arg-type]
        server.faults.sandboxes.append(cri.PodSandbox(id="x" * 20_000_000))
        assert await client.containers() == {"": "9"}
        assert len(next(iter(await client.sandboxes()))) == 20_000_000
