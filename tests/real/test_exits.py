"""How late a real runtime tells of an exit; and starts that fail, which are no loss."""

import os
import signal
import time
from operator import attrgetter
from typing import Any

import grpc.aio
import pytest

from exporter.model.events import Announcement, EventType, ListedState
from exporter.model.facts import Relist, learnt
from exporter.model.findings import Verdict
from exporter.settings.config import EventStream, Watch
from testbed.containerd import Containerd
from testbed.cri_client import CANNOT_START
from testbed.waiting import until
from tests.support.observer import observing
from tests.support.real_lives import begin, finish
from tests.support.tape import Tape

# Processes start slowly on a busy machine.
pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("sound_log")]

PATIENCE = 60
# Longer than anything that happens by itself, shorter than containerd waits for a clean-up.
HELD_SECONDS = 3.0
# How far a measured delay may be from the truth.
WITHIN = 1.0
STARTS = 30


@pytest.mark.parametrize("witness", Watch)
async def test_a_clean_up_that_takes_long_shows_in_both_delays(
    containerd_unified: Containerd, witness: Watch
) -> None:
    """List and stream are late together; the kernel, or else `finished_at`, tells since when."""
    containerd, tape = containerd_unified, Tape()
    kernel: dict[str, Any] = {"kernel_witness": witness, "cgroup_root": containerd.cgroups}

    def measured() -> dict[Verdict, float]:
        mine = (each for each in tape.findings if each.container_id == app)
        return {each.verdict: each.seconds for each in mine if each.seconds is not None}

    async with (
        containerd.pods() as cri,
        observing(containerd.socket, tape, event_stream=EventStream.ALWAYS, **kernel) as exporter,
    ):
        sandbox, (app,) = await begin(cri, "web")
        await exporter.settled()
        containerd.held.touch()
        ended = time.monotonic()
        os.kill(containerd.init_of(app), signal.SIGKILL)
        over = ended + HELD_SECONDS
        await until(lambda: time.monotonic() > over, "the clean-up takes", seconds=PATIENCE)
        containerd.held.unlink()
        both = {Verdict.EXIT_ANNOUNCED, Verdict.EXIT_LISTED}
        await until(lambda: both <= measured().keys(), "both have said", seconds=PATIENCE)
        relists = (each for each in tape.facts if isinstance(each, Relist))
        shown = [
            each.completed
            for each in relists
            if (app, ListedState.EXITED) in map(attrgetter("id", "state"), each.changed)
        ]
        events = (each for each in tape.facts if isinstance(each, Announcement))
        told = [
            learnt(each)
            for each in events
            if (each.container_id, each.type) == (app, EventType.STOPPED)
        ]
        # What was measured is what a clock shows that began as the process ended.
        for verdict, at in ((Verdict.EXIT_LISTED, shown[-1]), (Verdict.EXIT_ANNOUNCED, told[-1])):
            assert at - ended >= HELD_SECONDS
            assert abs(measured()[verdict] - (at - ended)) < WITHIN
        assert Verdict.SLOW in measured()
        await finish(cri, sandbox, [app])


async def test_a_failed_start_that_is_removed_at_once_is_never_silent(
    containerd_21: Containerd,
) -> None:
    """Each is removed as soon as a relist has listed it EXITED: it may be too late to ask."""
    async with (
        observing(containerd_21.socket, relist_period=0.02, missed_grace=0.2) as exporter,
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
