"""The leased subscription: no number shows that it is renewed."""

import time

import pytest

from testbed.containerd import Containerd
from tests.support.harness import InProcess, Metrics
from tests.support.real_lives import accounted, announced, containers, live, sandboxes, together

# Processes start slowly on a busy machine, ten times as slowly as on a quiet one.
pytestmark = pytest.mark.timeout(120)

AT_ONCE = 3


async def churn(containerd: Containerd, lease: str, seconds: float) -> tuple[Metrics, int]:
    """Let pods live and die for some time; the numbers afterwards, and how many pods it were."""
    lived = 0
    async with InProcess(containerd.socket, f"--stream-lease={lease}", grace=1) as exporter:
        await exporter.streaming()
        async with containerd.pods() as cri:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                await together(*(live(cri, f"job-{lived + n}") for n in range(AT_ONCE)))
                lived += AT_ONCE
        return await exporter.settled(), lived


@pytest.mark.parametrize(
    # A process that stands still for half a lease has to subscribe again: here the machine is busy.
    ("lease", "seconds"),
    [("4s", 8.0), pytest.param("1s", 12.0, marks=pytest.mark.soak)],
)
async def test_renewals_lose_and_double_nothing(
    containerd_21: Containerd, lease: str, seconds: float
) -> None:
    """Through all renewals, in `make soak` of the shortest lease, it stays one connection.

    Every life is complete.
    """
    seen, lived = await churn(containerd_21, lease, seconds)
    assert seen.missed == {}
    assert seen.counts("shadow_pleg_event_gaps_total") == {}
    assert seen.counts("shadow_pleg_duplicate_events_total") == {}
    assert seen.counts("shadow_pleg_backlog_events_total") == {}
    assert seen.value("shadow_pleg_stream_connections_total") == 1
    assert seen.counts("shadow_pleg_stream_disconnects_total") == {}
    assert seen.stream == "streaming"
    lives = containers(lived) | sandboxes(lived)
    assert accounted(seen, lives) == lives
    # The copies that two overlapping subscriptions bring count once.
    received = seen.counts("shadow_pleg_events_received_total")
    assert received == announced(pods=lived, containers=lived)
    assert seen.value("shadow_pleg_event_delivery_seconds_count") == 8 * lived
