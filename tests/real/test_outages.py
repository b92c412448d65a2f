"""Runtime or exporter go away and come back, a lease is renewed, or the stream stands still."""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest

from exporter.model.events import ANNOUNCES, Announcement
from exporter.model.findings import Cause, Verdict, Why
from testbed.churn import Churn, Step, Subscriber, more, plain_subscriber, received
from testbed.containerd import Containerd, why_not
from testbed.fixtures import unavailable
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing
from tests.support.real_lives import (
    accounted,
    announced,
    begin,
    containers,
    finish,
    live,
    sandboxes,
)
from tests.support.tape import Tape

pytestmark = pytest.mark.usefixtures("sound_log")

AT_ONCE = 3
VERDICTS = "shadow_pleg_verdicts_total"


async def test_a_death_while_the_runtime_is_down(containerd_21: Containerd) -> None:
    """It shows in the next relist only: missed because the stream was down, not silently."""
    async with observing(containerd_21.socket) as exporter:
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            sandbox, (app,) = await begin(cri, "web")
        await exporter.settled()
        await containerd_21.stop()
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
    assert seen.counts(VERDICTS, verdict="gap") == {}
    assert seen.value("shadow_pleg_stream_connections_total") == 2
    assert seen.counts("shadow_pleg_stream_disconnects_total") == {("unavailable",): 1}


async def test_a_crash_under_churn_is_an_outage_and_no_silent_loss(
    containerd_21: Containerd,
) -> None:
    async with observing(containerd_21.socket, missed_grace=1) as exporter:
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            pods = [await begin(cri, f"web-{n}") for n in range(4)]
            # The runtime has announced these, or is about to.
            await asyncio.gather(*(cri.stop(container) for _, (container,) in pods))
        await containerd_21.kill()
        await containerd_21.start()
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            await asyncio.gather(*(finish(cri, *pod) for pod in pods))
        seen = await exporter.settled()
    assert seen.silent == 0
    assert seen.counts(VERDICTS, verdict="gap") == {}


async def test_a_late_start_misses_nothing(containerd_21: Containerd) -> None:
    """A first subscriber gets what containerd has held for it, as backlog: no misses, no gaps."""
    async with containerd_21.pods() as cri:
        await asyncio.gather(live(cri, "gone"), live(cri, "gone-too"))
        sandbox, ids = await begin(cri, "stays")
        async with observing(containerd_21.socket) as exporter:
            await exporter.streaming()
            seen = await exporter.settled()
            assert seen.value("shadow_pleg_events_received_total") == 20
            assert seen.value(VERDICTS, verdict="backlog") == 20
            assert seen.counts(VERDICTS, verdict="unseen") == {}
            assert seen.value("shadow_pleg_event_delivery_seconds_count") == 0
            await finish(cri, sandbox, ids)
            seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts(VERDICTS, verdict="gap") == {}
    assert seen.counts(VERDICTS, verdict="contradicted") == {}
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
            await asyncio.gather(*(live(cri, f"job-{lived + n}") for n in range(AT_ONCE)))
            lived += AT_ONCE
        seen = await exporter.settled()
    assert seen.missed == {}
    assert seen.counts(VERDICTS, verdict="gap") == {}
    assert seen.counts(VERDICTS, verdict="duplicate") == {}
    assert seen.counts(VERDICTS, verdict="backlog") == {}
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


EXCUSED = {Cause.STALLED, Cause.STREAM_DOWN}
STALLS = "shadow_pleg_stream_stalls_total"


def causes(notes: Tape, lacking: set[Step]) -> set[Why | None]:
    names = {lifecycle: event.name for event, lifecycle in ANNOUNCES.items()}
    return {
        each.cause
        for each in notes.findings
        if (each.container_id, names[each.event]) in lacking
        and each.verdict is not Verdict.WITNESSED
    }


@pytest.mark.parametrize(
    ("stall", "leases"),
    [
        (8.0, (0.0, 4.0, 30.0)),
        pytest.param(20.0, (0.0, 20.0, 60.0), marks=pytest.mark.soak),
        pytest.param(70.0, (0.0, 20.0, 60.0), marks=pytest.mark.soak),
    ],
)
async def test_a_stall_is_never_the_runtimes_loss(
    containerd_21: Containerd, stall: float, leases: tuple[float, ...]
) -> None:
    """Nothing is silent; what a lease that ended meanwhile cost is counted as a stall."""
    socket = containerd_21.socket
    async with AsyncExitStack() as stack:
        cri = await stack.enter_async_context(containerd_21.pods())
        recorder = await stack.enter_async_context(Subscriber(socket))
        await received(recorder, cri)
        frozen = await stack.enter_async_context(plain_subscriber(socket))
        watches = []
        for lease in leases:
            notes = Tape()
            observer = observing(socket, notes, stream_lease=lease, relist_period=1, missed_grace=1)
            watch = await stack.enter_async_context(observer)
            await watch.streaming()
            watches.append((lease, watch, notes))
        before = set(recorder.received)
        churn = Churn(cri, workers=10)
        async with churn.going_on():
            await more(churn, 100)
            frozen.send_signal(signal.SIGSTOP)

            async def is_seen() -> bool:
                stalls = [await watch.value(STALLS) for _, watch, _ in watches]
                return time.monotonic() - recorder.last >= stall and all(stalls)

            limit = stall + 2 * DEADLINE
            await until(is_seen, "the stream stands still, and all see it", seconds=limit, every=1)
            frozen.send_signal(signal.SIGCONT)
            await more(churn, 100)
        assert await recorder.lost(churn.led) == set()
        for lease, watch, notes in watches:
            seen = await watch.settled()
            events = (each for each in notes.facts if isinstance(each, Announcement))
            lacking = (
                recorder.received - before - {(it.container_id, it.type.name) for it in events}
            )
            assert seen.silent == 0, (lease, seen.missed)
            if not lease or lease >= 2 * stall:
                assert lacking == set(), lease
            assert causes(notes, lacking) <= EXCUSED, lease


class Failing(Containerd):
    """Its handler `crun` is a runc that neither starts nor deletes until `healed` exists."""

    def _handler(self, name: str) -> Path:
        if name != "crun":
            return super()._handler(name)
        binary = super()._handler("runc")
        script = self.home / "fails"
        script.write_text(
            f'#!/bin/sh\n[ -e {self.home}/healed ] || case " $* " in *" start "*|*" delete "*)'
            f' echo "device or resource busy" >&2; exit 1;; esac\nexec {binary} "$@"\n'
        )
        script.chmod(0o755)
        return script


async def test_a_sandbox_that_can_neither_start_nor_be_cleaned_up_is_no_loss() -> None:
    """As in containerd#11826: it is listed NOTREADY, and only its removal is announced."""
    if reason := why_not("2.1"):
        unavailable(reason)
    async with (
        Failing("2.1") as runtime,
        observing(runtime.socket, missed_grace=1) as exporter,
        runtime.pods() as cri,
    ):
        await exporter.streaming()
        with pytest.raises(grpc.aio.AioRpcError, match="resource busy"):
            await cri.run_pod("fails", handler="crun")
        await live(cri, "next")
        await exporter.settled()
        (failed,) = await cri.sandboxes()
        (runtime.home / "healed").touch()
        for method in ("StopPodSandbox", "RemovePodSandbox"):
            await cri.call(method, {1: failed})
        await live(cri, "last")
        seen = await exporter.settled()
    assert seen.missed == {("by_design", "ContainerDied", "sandbox"): 1}
    assert seen.counts(VERDICTS, verdict="gap") == {}
