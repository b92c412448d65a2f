"""The exporter itself starts late, ends, or is killed: it counts only what it can vouch for."""

import signal

import pytest

from testbed.containerd import Containerd
from tests.support.harness import Exporter, InProcess
from tests.support.real_lives import begin, finish, live, together

# Processes start slowly on a busy machine, ten times as slowly as on a quiet one.
pytestmark = pytest.mark.timeout(120)


async def test_killed_and_started_again(containerd_21: Containerd) -> None:
    """What lives already is the baseline and emits nothing; how it ends is counted right."""
    async with Exporter(containerd_21.socket) as exporter, containerd_21.pods() as cri:
        await exporter.streaming()
        pods = [await begin(cri, f"web-{n}") for n in range(3)]
        await exporter.settled()
        assert await exporter.end(signal.SIGKILL) == -signal.SIGKILL
        await exporter.start()
        await exporter.streaming()
        seen = await exporter.settled()
        assert seen.counts("shadow_pleg_lifecycle_events_total") == {}
        assert seen.value("shadow_pleg_pods") == 3
        await together(*(finish(cri, *pod) for pod in pods))
        seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts("shadow_pleg_event_gaps_total") == {}
    kinds = ("container", "sandbox")
    ends = {(event, kind): 3 for event in ("ContainerDied", "ContainerRemoved") for kind in kinds}
    assert seen.counts("shadow_pleg_lifecycle_events_total") == ends
    ends = {(event, kind): 3 for event in ("STOPPED", "DELETED") for kind in kinds}
    assert seen.counts("shadow_pleg_events_received_total") == ends


async def test_a_late_start_misses_nothing(containerd_21: Containerd) -> None:
    """A first subscriber gets what containerd has held for it, as backlog: no misses, no gaps."""
    async with containerd_21.pods() as cri:
        await together(live(cri, "gone"), live(cri, "gone-too"))
        sandbox, ids = await begin(cri, "stays")
        async with InProcess(containerd_21.socket) as exporter:
            await exporter.streaming()
            seen = await exporter.settled()
            assert seen.value("shadow_pleg_events_received_total") == 20
            assert seen.value("shadow_pleg_backlog_events_total") == 20
            assert seen.counts("shadow_pleg_unseen_events_total") == {}
            assert seen.value("shadow_pleg_event_delivery_seconds_count") == 0
            await finish(cri, sandbox, ids)
            seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts("shadow_pleg_event_gaps_total") == {}
    assert seen.counts("shadow_pleg_contradicted_events_total") == {}
    assert seen.value("shadow_pleg_lifecycle_events_total") == 4
