"""containerd 2 while another of its subscribers does not read: the stream stands still for all."""

import signal
import time
from contextlib import AsyncExitStack
from functools import partial

import pytest

from exporter.model.events import ANNOUNCES, Announcement
from exporter.model.facts import Fact
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from testbed.churn import PLAIN, Churn, Step, Subscriber, more, received, subscriber
from testbed.containerd import Containerd
from testbed.cri_client import Pods
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing

# Processes start slowly on a busy machine, and a stall of 70 s takes that long.
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("sound_log")]

WORKERS = 10
EXCUSED = {Cause.STALLED, Cause.STREAM_DOWN}


class Notes:
    """A listener: what was announced, and what was found."""

    def __init__(self) -> None:
        self.announced: set[Step] = set()
        self.findings: list[Finding] = []

    def took(self, fact: Fact, outcome: Outcome) -> None:
        """Keep both."""
        if isinstance(fact, Announcement):
            self.announced.add((fact.container_id, fact.type.name))
        self.findings += outcome.findings

    def judged(self, lacking: set[Step]) -> set[tuple[Verdict, Cause | None]]:
        """How the announcements that did not come were judged."""
        names = {lifecycle: event.name for event, lifecycle in ANNOUNCES.items()}
        return {
            (each.verdict, each.cause)
            for each in self.findings
            if (each.container_id, names[each.event]) in lacking
            and each.verdict is not Verdict.WITNESSED
        }


def _deaf_for(subscriber: Subscriber, seconds: float) -> bool:
    return time.monotonic() - subscriber.last >= seconds


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
            notes = Notes()
            observer = observing(socket, notes, stream_lease=lease, relist_period=1, missed_grace=1)
            watch = await stack.enter_async_context(observer)
            await watch.streaming()
            watches.append((lease, watch, notes))
        before = set(recorder.heard)
        churn = Churn(cri, WORKERS)
        async with churn.going_on():
            await more(churn, 100)
            frozen.send_signal(signal.SIGSTOP)
            # However long a busy runtime takes to fill what it holds for that one.
            stands = partial(_deaf_for, recorder, stall)
            await until(stands, "the stream stands still", seconds=stall + 2 * DEADLINE)
            frozen.send_signal(signal.SIGCONT)
            await more(churn, 100)
        assert await recorder.lost(churn.led) == 0
        for lease, watch, notes in watches:
            seen = await watch.settled()
            lacking = recorder.heard - before - notes.announced
            assert seen.silent == 0, (lease, seen.missed)
            assert seen.value("shadow_pleg_stream_stalls_total") >= 1
            if not lease or lease >= 2 * stall:
                assert lacking == set(), lease
            assert {cause for _, cause in notes.judged(lacking)} <= EXCUSED, lease
