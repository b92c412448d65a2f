"""containerd 2 while another of its subscribers does not read: the stream stands still for all."""

import signal
import time
from contextlib import AsyncExitStack

import pytest

from exporter.model.events import ANNOUNCES, Announcement
from exporter.model.findings import Cause, Verdict, Why
from testbed.churn import PLAIN, Churn, Step, Subscriber, more, received, subscriber
from testbed.containerd import Containerd
from testbed.cri_client import Pods
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing
from tests.support.tape import Tape

# Processes start slowly on a busy machine, and a stall of 70 s takes that long.
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("sound_log")]

WORKERS = 10
EXCUSED = {Cause.STALLED, Cause.STREAM_DOWN}


def causes(notes: Tape, lacking: set[Step]) -> set[Why | None]:
    """Why the announcements that did not come are missing."""
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
    """Nothing is silent; what a lease that ended meanwhile cost is counted as a stall.

    A subscription without a lease gets everything in the end, and so does one whose lease is at
    least twice as long as the stall, since it is renewed halfway.
    """
    socket = containerd_21.socket
    async with AsyncExitStack() as stack:
        # Its calls hang for as long as the stream stands still.
        calls = Pods(socket, cgroup_parent=f"/{containerd_21.home.name}", timeout=stall + DEADLINE)
        cri = await stack.enter_async_context(calls)
        recorder = await stack.enter_async_context(Subscriber(socket))
        await received(recorder, cri)
        frozen = await stack.enter_async_context(subscriber(PLAIN, str(socket)))
        watches = []
        for lease in leases:
            notes = Tape()
            observer = observing(socket, notes, stream_lease=lease, relist_period=1, missed_grace=1)
            watch = await stack.enter_async_context(observer)
            await watch.streaming()
            watches.append((lease, watch, notes))
        before = set(recorder.received)
        churn = Churn(cri, WORKERS)
        async with churn.going_on():
            await more(churn, 100)
            frozen.send_signal(signal.SIGSTOP)
            # However long a busy runtime takes to fill what it holds for that one.
            await until(
                lambda: time.monotonic() - recorder.last >= stall,
                "the stream stands still",
                seconds=stall + 2 * DEADLINE,
            )
            frozen.send_signal(signal.SIGCONT)
            await more(churn, 100)
        assert await recorder.lost(churn.led) == 0
        for lease, watch, notes in watches:
            seen = await watch.settled()
            events = (each for each in notes.facts if isinstance(each, Announcement))
            lacking = (
                recorder.received - before - {(it.container_id, it.type.name) for it in events}
            )
            assert seen.silent == 0, (lease, seen.missed)
            assert seen.value("shadow_pleg_stream_stalls_total") >= 1
            if not lease or lease >= 2 * stall:
                assert lacking == set(), lease
            assert causes(notes, lacking) <= EXCUSED, lease
