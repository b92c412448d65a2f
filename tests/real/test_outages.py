"""Runtime or exporter go away and come back, or a lease is renewed: what is then counted."""

import os
import signal
import time

import pytest

from testbed.containerd import Containerd
from tests.support.harness import Exporter
from tests.support.observer import observing
from tests.support.real_lives import (
    accounted,
    announced,
    begin,
    containers,
    finish,
    live,
    sandboxes,
    together,
)

# Processes start slowly on a busy machine, ten times as slowly as on a quiet one.
pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("sound_log")]

AT_ONCE = 3
GAPS = "shadow_pleg_event_gaps_total"


async def test_a_death_while_the_runtime_is_down(containerd_21: Containerd) -> None:
    """It shows in the next relist only: missed because the stream was down, not silently."""
    async with observing(containerd_21.socket) as exporter:
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            sandbox, (app,) = await begin(cri, "web")
        await exporter.settled()
        await containerd_21.stop()
        # Its shim notes it even while containerd is down.
        os.kill(containerd_21.init_of(app), signal.SIGKILL)
        await containerd_21.start()
        await exporter.streaming()
        seen = await exporter.settled()
        assert seen.missed == {("stream_down", "ContainerDied", "container"): 1}
        async with containerd_21.pods() as cri:
            await finish(cri, sandbox, [app])
            await live(cri, "next")
        seen = await exporter.settled()
    assert seen.missed == {("stream_down", "ContainerDied", "container"): 1}
    assert seen.counts(GAPS) == {}
    assert seen.value("shadow_pleg_stream_connections_total") == 2
    assert seen.counts("shadow_pleg_stream_disconnects_total") == {("unavailable",): 1}


async def test_a_crash_under_churn_is_an_outage_and_no_silent_loss(
    containerd_21: Containerd,
) -> None:
    """What was under way when the runtime was killed is missed because of that, never silently."""
    async with observing(containerd_21.socket, missed_grace=1) as exporter:
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            pods = [await begin(cri, f"web-{n}") for n in range(4)]
            # The runtime has announced these, or is about to.
            await together(*(cri.stop(container) for _, (container,) in pods))
        await containerd_21.kill()
        await containerd_21.start()
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            await together(*(finish(cri, *pod) for pod in pods))
        seen = await exporter.settled()
    assert seen.silent == 0
    assert seen.counts(GAPS) == {}


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
    assert seen.counts(GAPS) == {}
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
        async with observing(containerd_21.socket) as exporter:
            await exporter.streaming()
            seen = await exporter.settled()
            assert seen.value("shadow_pleg_events_received_total") == 20
            assert seen.value("shadow_pleg_backlog_events_total") == 20
            assert seen.counts("shadow_pleg_unseen_events_total") == {}
            assert seen.value("shadow_pleg_event_delivery_seconds_count") == 0
            await finish(cri, sandbox, ids)
            seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts(GAPS) == {}
    assert seen.counts("shadow_pleg_contradicted_events_total") == {}
    assert seen.value("shadow_pleg_lifecycle_events_total") == 4


@pytest.mark.parametrize(
    # A process that stands still for half a lease has to subscribe again: here the machine is busy.
    ("lease", "seconds"),
    [(4.0, 8.0), pytest.param(1.0, 12.0, marks=pytest.mark.soak)],
)
async def test_renewals_lose_and_double_nothing(
    containerd_21: Containerd, lease: float, seconds: float
) -> None:
    """Through all renewals, in `make soak` of the shortest lease, it stays one connection.

    Every life is complete.
    """
    lived, over = 0, time.monotonic() + seconds
    observed = observing(containerd_21.socket, stream_lease=lease, missed_grace=1)
    async with observed as exporter, containerd_21.pods() as cri:
        await exporter.streaming()
        while time.monotonic() < over:
            await together(*(live(cri, f"job-{lived + n}") for n in range(AT_ONCE)))
            lived += AT_ONCE
        seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts(GAPS) == {}
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
    assert seen.counts("shadow_pleg_flawed_events_total") == {}
    assert seen.value("shadow_pleg_event_delivery_seconds_count") == 8 * lived
