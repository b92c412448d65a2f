"""A scripted day of one node: every verdict and every cause happens, at fixed times."""

import time

from exporter.model import facts
from exporter.model.events import EventType, Flawed, Inquiry, ListedState, Status
from exporter.model.labels import (
    Flaw,
    KubeletPods,
    Limit,
    Malformed,
    OomWitness,
    PodsEnd,
    StreamKind,
    StreamState,
)
from exporter.node.chronicle import Chronicle, Counting
from exporter.node.reporter import report
from exporter.node.state import RuntimeInfo
from tests.support.exposition import Measured
from tests.support.facts import (
    EPOCH_NS,
    READY,
    Differences,
    Shown,
    Whole,
    deleted,
    emptied,
    populated,
    said,
    wall_ns,
)
from tests.support.tape import POD

EPOCH = EPOCH_NS / 10**9
SANDBOX = READY.named("p1")._replace(pod=POD)
# Of its own: where others run that are not seen, a stray's processes may be theirs.
STRAYS = POD._replace(name="gone-9fd4b", uid="uid-strays")


class Day:
    """Hands facts to a chronicle to which a reporter listens, and counts as the loops do."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.node = measured.node
        self.chronicle = Chronicle(measured.ledger)
        self.chronicle.listen(
            Counting(self.node, time.time, lambda _: None, measured.histograms.exit_measured).hear
        )
        self.chronicle.listen(report)
        self._differences = Differences()
        self.shown: dict[str, ListedState] = {}
        self.chronicle.record(facts.ProfileChosen(0.0, "containerd", "2.1.9"))
        self.node.runtime = RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST)

    def subscribe(self, at: float) -> None:
        self.chronicle.record(facts.StreamUp(at, at))
        self.node.connections += 1
        self.node.stream.state = StreamState.STREAMING

    def lose_stream(self, at: float) -> None:
        self.chronicle.record(facts.StreamDown(at))
        self.node.stream.ends["unavailable"] += 1
        self.node.stream.state = StreamState.BACKOFF

    def discard(self, at: float) -> None:
        self.chronicle.record(facts.Discarded(at))
        self.node.discards += 1
        self.node.discards_unreconciled += 1

    def receive(
        self,
        what: EventType,
        container_id: str,
        at: float,
        made: float | None = None,
        ended: float | None = None,
    ) -> None:
        """One event comes; `ended`: when the container did, if its status says so."""
        event = said(what, container_id, at, made)
        event = event._replace(sandbox_id="p1", pod=POD, received_wall_ns=wall_ns(at))
        if ended is not None:
            event = event._replace(ended_ns=wall_ns(ended), exit_code=1)
        self.chronicle.record(event)
        self.node.stream_last_seen_wall = EPOCH + at
        self.measured.histograms.event_delivery.observe(1 / 256)

    def relist(self, at: float, **changed: ListedState) -> None:
        self.shown |= changed
        rest = [
            Shown(state).inside("p1").named(name)._replace(name="app", pod=POD)
            for name, state in self.shown.items()
        ]
        items = (SANDBOX, READY.named("p2")._replace(pod=STRAYS), *rest)
        relist = Whole(at, at + 0.02, items)
        self.chronicle.record(self._differences.fact(relist))
        self.node.listed = {item.id: item for item in items}
        self.node.relist_succeeded, self.node.relist_succeeded_wall = at, EPOCH + at
        self.node.discards_unreconciled = 0
        self.measured.histograms.relist_duration.observe(1 / 32)
        self.measured.histograms.relist_interval.observe(10.0)


def spend_day(measured: Measured) -> None:
    """The day, from the first subscription to a queue that overflows in the end."""
    day = Day(measured)
    day.subscribe(0)
    day.receive(EventType.CREATED, "announced", 0.5)
    day.relist(1)
    _lose_some(day)
    _be_odd(day)
    _haunt(day)
    _believe(day)
    _stand_still(day)
    _run_out_of_memory(day)
    day.relist(300, newest=ListedState.RUNNING)
    day.discard(301)
    day.node.relist_errors["deadline_exceeded"] += 1
    day.node.malformed[Malformed.UNKNOWN_STATE] += 2
    measured.histograms.loop_lag.observe(1 / 4096)


def _lose_some(day: Day) -> None:
    """Starts: announced, late or never; while the stream is down; dropped by this process."""
    day.receive(EventType.STARTED, "announced", 2)
    running = ListedState.RUNNING
    day.relist(10, announced=running, late=running, lost=running, failed=ListedState.EXITED)
    day.chronicle.record(facts.Inquired(10.0, "failed", Inquiry.NEVER_STARTED))
    day.receive(EventType.STARTED, "announced", 18)
    day.relist(20)
    day.receive(EventType.STARTED, "late", 21)
    day.lose_stream(50)
    day.relist(55, unheard=ListedState.RUNNING)
    day.subscribe(60)
    day.receive(EventType.STOPPED, "old", 61, made=59)
    day.relist(65)
    day.discard(70)
    day.relist(72, dropped=ListedState.RUNNING)
    day.relist(82)


def _be_odd(day: Day) -> None:
    """Announced twice, and untruly; flawed; an end without a beginning; an unexplained exit."""
    day.receive(EventType.STOPPED, "announced", 84)
    day.receive(EventType.STARTED, "hasty", 84.1)
    day.receive(EventType.CREATED, "hasty", 84.2)
    flawed = Flawed(tuple(flaw for flaw in Flaw if flaw is not Flaw.OUT_OF_ORDER), 2)
    day.chronicle.record(deleted("hasty", 84.3)._replace(flawed=flawed))
    day.relist(90)
    day.relist(100)
    for what in (EventType.CREATED, EventType.STOPPED, EventType.DELETED):
        day.receive(what, "brief", 101)
    day.relist(110, doubtful=ListedState.EXITED)
    del day.shown["doubtful"]
    day.receive(EventType.DELETED, "doubtful", 112)
    day.relist(120)


def _haunt(day: Day) -> None:
    """One is listed as running, and has ended; one runs, and is not listed; one is frozen."""
    day.chronicle.record(facts.CgroupsRead(120.5))
    day.chronicle.record(populated("ghost", 121, POD.uid))
    day.chronicle.record(populated("stray", 121, STRAYS.uid))
    day.receive(EventType.STARTED, "ghost", 122)
    day.chronicle.record(emptied("ghost", 124))
    for at in (125, 132, 139):
        day.chronicle.record(facts.CgroupsRead(at, frozen=("late",)))
        day.relist(at, ghost=ListedState.RUNNING)
    day.receive(EventType.STARTED, "slow", 140)
    day.relist(141, slow=ListedState.RUNNING)
    day.relist(143, slow=ListedState.EXITED)
    day.receive(EventType.STOPPED, "slow", 149, ended=142)


def _believe(day: Day) -> None:
    """The kubelet shows one exit late and otherwise, one never; a third runs on without its pod."""
    running, ended = ListedState.RUNNING, ListedState.EXITED
    names = ("stale", "wrong", "orphan")
    day.relist(150, **dict.fromkeys(names, running))
    shown = tuple(Status(each, running, "app") for each in names[:2])
    other = POD._replace(name="gone-5c6d7", uid="uid-2")
    day.chronicle.record(facts.Believed(151, POD, shown, ()))
    day.chronicle.record(facts.Believed(151, other, (Status("orphan", running, "app"),), ()))
    day.chronicle.record(facts.BeliefsShown(151))
    for name in ("lasts", "dead", "kept"):
        pod = POD._replace(name=name, uid=f"uid-{name}")
        runs = () if name == "kept" else (Status(name, running, "app"),)
        day.chronicle.record(facts.Believed(151, pod, runs, (), due=152))
        if runs:
            day.chronicle.record(populated(name, 151.5, pod.uid))
    day.relist(152.1, lasts=running, dead=running)
    day.chronicle.record(facts.Believed(152, other, (), ("orphan",), removed=True))
    for name in names[:2]:
        day.receive(EventType.STOPPED, name, 153, ended=152.5)
    day.chronicle.record(
        facts.Believed(154, POD, (Status("wrong", ended, "app", 137, "Error"),), ())
    )
    day.chronicle.record(emptied("dead", 154.5))
    day.relist(155, stale=ended, wrong=ended)
    day.relist(186)
    day.relist(190)
    day.relist(195)
    day.chronicle.record(facts.Believed(196, POD, (), (), asked=True))
    day.chronicle.record(facts.Believed(196, other, (), (), removed=True, asked=True))
    for name in ("lasts", "dead", "kept"):
        pod = POD._replace(name=name, uid=f"uid-{name}")
        day.chronicle.record(facts.Believed(196, pod, (), (), asked=True, due=152))
    day.node.pods.state, day.node.pods.ends[PodsEnd.LAGGED.value] = KubeletPods.WATCHING, 1


def _stand_still(day: Day) -> None:
    """Nothing comes for long; then another subscriber may have it."""
    day.relist(200, waits=ListedState.RUNNING)
    day.relist(240)
    day.chronicle.record(facts.ProfileChosen(241, "containerd", "1.7.24"))
    day.relist(242, taken=ListedState.RUNNING)
    day.relist(250)
    day.chronicle.record(facts.ProfileChosen(251, "containerd", "2.1.9"))


def _run_out_of_memory(day: Day) -> None:
    """A process of a container is killed, which runs on; and one of nobody who is known."""
    day.chronicle.record(facts.KillsCounted(260, 0))
    day.chronicle.record(facts.Killed(270, "lost", POD.uid, 1, 1, Limit.CONTAINER))
    day.chronicle.record(facts.KillsCounted(271, 2))
    day.node.oom.state = OomWitness.COUNTING
