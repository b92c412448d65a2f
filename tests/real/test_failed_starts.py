"""Containers whose start fails, as in a crash loop of a bad command: none of them is a loss."""

import grpc.aio
import pytest

from testbed.containerd import Containerd
from testbed.cri_client import CANNOT_START
from tests.support.harness import InProcess

# Processes start slowly on a busy machine, ten times as slowly as on a quiet one.
pytestmark = pytest.mark.timeout(120)

STARTS = 30


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
