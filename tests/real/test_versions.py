"""Runtimes whose stream is shared or missing: the relist counts, the stream is left alone."""

import pytest

from tests.support.harness import InProcess
from tests.support.real.containerd import Containerd
from tests.support.real_lives import announced, containers, live, live_slowly, sandboxes, together

# Processes start slowly on a busy machine, ten times as slowly as on a quiet one.
pytestmark = pytest.mark.timeout(120)

ALWAYS = "--event-stream=always"


async def test_a_shared_stream_is_refused(containerd_17: Containerd) -> None:
    """On containerd 1.7 the kubelet's events are not taken: relist only, and nothing is missed."""
    async with InProcess(containerd_17.socket) as exporter, containerd_17.pods() as cri:
        await exporter.shows(lambda seen: seen.stream == "refused", "it refuses")
        await exporter.relisted()
        await together(*(live_slowly(cri, f"web-{n}", exporter.relisted) for n in range(2)))
        seen = await exporter.settled()
        assert seen.stream == "refused"
        (line,) = (line for line in exporter.log.splitlines() if "event stream refused" in line)
    assert "containerd#7318" in line
    assert ALWAYS in line
    assert seen.missed == {}
    assert seen.counts("shadow_pleg_lifecycle_events_total") == containers(2) | sandboxes(2)
    assert seen.value("shadow_pleg_events_received_total") == 0
    assert seen.value("shadow_pleg_stream_connections_total") == 0
    assert seen.labels("shadow_pleg_runtime_info")["stream"] == "exclusive"


async def test_a_shared_stream_taken_on_demand(containerd_17: Containerd) -> None:
    """As its only subscriber one gets everything; a sandbox's DELETED comes without its status."""
    async with InProcess(containerd_17.socket, ALWAYS, grace=1) as exporter:
        await exporter.streaming()
        async with containerd_17.pods() as cri:
            slow = (live_slowly(cri, f"slow-{n}", exporter.relisted) for n in range(2))
            fast = (live(cri, f"fast-{n}", containers=2) for n in range(4))
            await together(*slow, *fast)
        seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts("shadow_pleg_event_gaps_total") == {}
    assert seen.counts("shadow_pleg_duplicate_events_total") == {}
    received = seen.counts("shadow_pleg_events_received_total")
    # That sandboxes are announced when created is not to be relied on.
    unreliable = ("CREATED", "sandbox")
    assert received | {unreliable: 6} == announced(pods=6, containers=10)
    assert seen.value("shadow_pleg_events_without_status_total") == 6


async def test_a_runtime_without_a_stream(containerd_16: Containerd) -> None:
    """On containerd 1.6 the state is unsupported, the relist counts, and nothing is owed."""
    async with InProcess(containerd_16.socket) as exporter, containerd_16.pods() as cri:
        await exporter.shows(lambda seen: seen.stream == "unsupported", "it finds none")
        await exporter.relisted()
        await together(*(live_slowly(cri, f"web-{n}", exporter.relisted) for n in range(2)))
        seen = await exporter.settled()
    assert seen.stream == "unsupported"
    assert seen.counts("shadow_pleg_lifecycle_events_total") == containers(2) | sandboxes(2)
    assert seen.missed == {}
    assert seen.labels("shadow_pleg_runtime_info")["stream"] == "none"
