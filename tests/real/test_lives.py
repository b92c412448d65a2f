"""Pods that live and die on containerd 2, whose stream is complete: nothing is missed."""

import grpc
import pytest

from testbed.containerd import Containerd
from testbed.cri_client import CANNOT_START
from tests.support.harness import InProcess
from tests.support.real_lives import (
    accounted,
    announced,
    containers,
    live,
    sandboxes,
    together,
)


@pytest.mark.parametrize("pods", [8, pytest.param(24, marks=pytest.mark.soak)])
async def test_a_burst(containerd_21: Containerd, pods: int) -> None:
    """Pods at once: every event arrives, and each is seen by the relist or counted unseen."""
    async with InProcess(containerd_21.socket, "--relist-period=200ms", grace=1) as exporter:
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            await together(*(live(cri, f"job-{n}", containers=2) for n in range(pods)))
        seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts("shadow_pleg_event_gaps_total") == {}
    assert seen.counts("shadow_pleg_contradicted_events_total") == {}
    assert seen.counts("shadow_pleg_duplicate_events_total") == {}
    assert seen.counts("shadow_pleg_events_received_total") == announced(
        pods=pods, containers=2 * pods
    )
    lives = containers(2 * pods) | sandboxes(pods)
    assert accounted(seen, lives) == lives


async def test_a_container_that_cannot_start(containerd_21: Containerd) -> None:
    """It is listed EXITED, which containerd never announces: missed by design, not silently."""
    async with InProcess(containerd_21.socket, grace=1) as exporter, containerd_21.pods() as cri:
        await exporter.streaming()
        sandbox = await cri.run_pod("web")
        broken = await cri.create(sandbox, "broken", CANNOT_START)
        await exporter.relisted()
        with pytest.raises(grpc.aio.AioRpcError, match="no such file"):
            await cri.start(broken)
        seen = await exporter.settled()
        assert seen.missed == {("by_design", "ContainerDied", "container"): 1}
        await cri.remove(broken)
        seen = await exporter.settled()
    assert seen.missed == {("by_design", "ContainerDied", "container"): 1}
    assert seen.counts("shadow_pleg_event_gaps_total") == {}
