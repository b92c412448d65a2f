"""Containers whose start fails, as in a crash loop of a bad command: none of them is a loss."""

import grpc.aio
import pytest

from exporter.pleg.events import Inquiry, ListedState
from exporter.pleg.facts import Fact, Inquired, Relist
from exporter.pleg.findings import Outcome
from testbed.containerd import Containerd
from testbed.cri_client import CANNOT_START
from tests.support.harness import InProcess

# Processes start slowly on a busy machine, ten times as slowly as on a quiet one.
pytestmark = pytest.mark.timeout(120)

STARTS = 30
ATTEMPTS = 6


async def test_a_failed_start_that_is_removed_at_once_is_never_silent(
    containerd_21: Containerd,
) -> None:
    """Each is removed as soon as a relist has listed it EXITED: it may be too late to ask."""
    async with (
        InProcess(containerd_21.socket, "--relist-period=20ms", grace=0.2) as exporter,
        containerd_21.pods() as cri,
    ):
        await exporter.streaming()
        sandbox = await cri.run_pod("web")
        for attempt in range(STARTS):
            container = await cri.create(sandbox, f"app-{attempt}", CANNOT_START)
            with pytest.raises(grpc.aio.AioRpcError):
                await cri.start(container)
            await exporter.relisted()
            await cri.remove(container)
        seen = await exporter.settled()
    assert seen.silent == 0
    undecided = seen.value("shadow_pleg_undecided_events_total")
    by_design = seen.value("kube_pod_missed_events_total", cause="by_design")
    witnessed = seen.value(
        "shadow_pleg_lifecycle_events_total", event="ContainerDied", object="container"
    )
    assert undecided + by_design == witnessed >= STARTS / 2


class Order(list[str]):
    """A listener: containers in the order in which they were known to have failed, or listed so."""

    def took(self, fact: Fact, _outcome: Outcome) -> None:
        """Note what the fact says of exited containers."""
        match fact:
            case Inquired(container_id=container_id, answer=Inquiry.NEVER_STARTED):
                self.append(f"{container_id} failed")
            case Relist(changed=changed):
                exited = [item.id for item in changed if item.state is ListedState.EXITED]
                self += [f"{container_id} listed" for container_id in exited]


async def test_the_next_attempts_event_tells_that_the_last_start_failed(
    containerd_21: Containerd,
) -> None:
    """As in a crash loop: the answer is there before a relist can raise the question.

    Not always: a relist may come between the failure and the next attempt.
    """
    order = Order()
    watch = InProcess(containerd_21.socket, "--relist-period=500ms", listeners=[order])
    async with watch as exporter, containerd_21.pods() as cri:
        await exporter.streaming()
        sandbox = await cri.run_pod("web")
        failed = []
        for attempt in range(ATTEMPTS):
            container = await cri.create(sandbox, f"app-{attempt}", CANNOT_START)
            with pytest.raises(grpc.aio.AioRpcError):
                await cri.start(container)
            await cri.create(sandbox, f"app-{attempt}-again", CANNOT_START)
            failed.append(container)
            await exporter.relisted()
            await cri.remove(container)
        seen = await exporter.settled()
    assert seen.silent == 0
    in_time = [
        each for each in failed if order.index(f"{each} failed") < order.index(f"{each} listed")
    ]
    assert len(in_time) >= ATTEMPTS / 2
