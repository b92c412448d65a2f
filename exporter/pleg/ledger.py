"""The ledger: takes facts from all sources, returns findings.

All decisions about missed events start here; `settle` reaches the verdicts that need time, `owed`
applies the runtime's profile. A verdict is about one identity (container id, lifecycle event):
order, duplicates and delays within the grace period do not change it.

Facts must be passed in the order in which they were learnt, and all announcements received before a
relist must be passed before it. No input from a runtime raises. Blind spots: neither relist nor
stream sees a container that begins and ends unannounced between two relists; an announcement that
arrives more than `RETENTION` after its container disappeared is taken for a new container's.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final

from exporter.model import facts
from exporter.model.events import (
    ANNOUNCES,
    EVENTS,
    Announcement,
    Inquiry,
    Lifecycle,
    ListedState,
    ObjectKind,
)
from exporter.model.findings import NOTHING, Finding, Outcome, Untimed, Verdict
from exporter.pleg.belief import Beliefs
from exporter.pleg.clock import WallClock
from exporter.pleg.entry import Entry
from exporter.pleg.exits import Exits
from exporter.pleg.kernel import Kernel
from exporter.pleg.memory import UNLISTED, Memory
from exporter.pleg.oom import Oom
from exporter.pleg.owed import start_in_doubt
from exporter.pleg.relist import Listing
from exporter.pleg.settle import Settlement
from exporter.pleg.steps import Excuse, Step
from exporter.pleg.trust import UNREAD, StreamTrust
from exporter.pleg.twins import Twins
from exporter.runtimes.known import profile_of
from exporter.runtimes.runtime import Profile

_CONTAINER: Final = ObjectKind.CONTAINER
_DIED: Final = Lifecycle.DIED
_EXITED: Final = ListedState.EXITED


class Ledger:
    """Pairs what the relist proves with what the stream announces.

    `grace`: seconds. `profile`: the runtime's profile; each `ProfileChosen` replaces it.
    """

    def __init__(self, profile: Profile, grace: float) -> None:
        self.profile = profile
        self._grace = grace
        self._trust = StreamTrust()
        self._clock = WallClock()
        self._memory = Memory()
        self._open: dict[str, Entry] = {}
        # Number of objects that the last relist listed.
        self._listed = 0
        self._previous: float | None = None
        self.stalls = 0
        # When a stall was last found; a younger event ends it.
        self._stalled_at: float | None = None
        self.kernel = Kernel(grace, self._memory, self._trust, self._open, profile.sets_up_early)
        self.beliefs = Beliefs(self._memory, self.kernel)
        self._oom = Oom(grace, self._memory, self.kernel)
        self._twins = Twins(grace, self._memory, self.kernel)
        self.exits = Exits(grace, self._trust, self._clock, self.kernel, self.beliefs)

    @property
    def unresolved(self) -> int:
        """Number of events proven, not yet announced and not yet judged."""
        return sum(entry.waiting for entry in self._open.values())

    @property
    def live(self) -> int:
        """Number of containers and sandboxes that are listed, or about which a verdict is due."""
        return len(self._memory.live)

    @property
    def remembered(self) -> int:
        """Number of containers and sandboxes held, including removed ones."""
        return len(self._memory)

    def number(self, verdict: Verdict) -> int:
        """How many contradictions with that verdict stand now: ghosts, twins, stale statuses..."""
        each = (
            self._twins.standings,
            self.kernel.cgroups,
            self.kernel.dead,
            self.kernel.frozen,
            self.beliefs.shown,
            self.beliefs.dropped,
            self.beliefs.ending,
        )
        return [its.verdict for them in each for its in them.values()].count(verdict)

    def known(self, container_id: str) -> Entry | None:
        """The entry of that container, if any; read-only."""
        return self._memory.peek(container_id)

    def judge(self, fact: facts.Fact) -> Outcome:
        """Take one fact of any type. The first relist is the baseline and proves nothing."""
        return self._TAKES[type(fact)](self, fact)

    def _relisted(self, relist: facts.Relist) -> Outcome:
        findings: list[Finding] = []
        absent = Listing(
            relist=relist,
            previous=self._previous,
            memory=self._memory,
            trust=self._trust,
            findings=findings,
            still_open=self._open,
            exits=self.exits,
            twins=self._twins,
        ).prove()
        self._twins.judge(relist.requested, findings)
        self.kernel.judge(relist.requested, findings)
        self.beliefs.judge(relist.requested)
        findings += self._oom.judge(relist.requested)
        doubts = self._settle(relist, findings)
        self._memory.retire(absent, self._open, relist.completed)
        self._trust.excused = False
        self._listed = relist.listed
        self._previous = relist.requested
        self._trust.relisted(relist.requested)
        return Outcome(tuple(findings), doubts)

    def _profile_chosen(self, fact: facts.ProfileChosen) -> Outcome:
        self.profile = profile_of(fact.name, fact.version)
        self.kernel.sets_up_early = self.profile.sets_up_early
        return NOTHING

    def _clock_set(self, fact: facts.ClockSet) -> Outcome:
        self._clock.was_set(fact)
        # What was overdue by the old clock may still come by the new one.
        self._trust.excused = False
        return NOTHING

    def _stream_asked(self, fact: facts.StreamAsked) -> Outcome:
        self._trust.asked = fact.at
        return NOTHING

    def _stream_up(self, fact: facts.StreamUp) -> Outcome:
        self._trust.judging = True
        self._trust.down_until = min(self._trust.down_until, fact.at)
        self._trust.asked = fact.asked
        self._trust.begin(fact.at, new_connection=True, at_once=self.profile.serves_at_once)
        return NOTHING

    def _stream_unproven(self, fact: facts.StreamUnproven) -> Outcome:
        # The old watch has ended: no younger event can come over it any more.
        self._excuse(Excuse.UNSERVED)
        self._trust.begin(fact.at, new_connection=False)
        return NOTHING

    def _excuse(self, excuse: Excuse) -> None:
        """Excuse all steps whose announcement may still come: this may keep it from coming."""
        for step in self._waiting(self._trust.reached):
            step.excuse = max(step.excuse, excuse)

    def _stream_down(self, _fact: facts.StreamDown) -> Outcome:
        self._trust.judging = True
        self._trust.down_until = math.inf
        self._excuse(Excuse.DOWN)
        return NOTHING

    def _stream_refused(self, _fact: facts.StreamRefused) -> Outcome:
        """Keep counting what the relist shows, but judge nothing."""
        self._trust.judging = False
        self._trust.down_until = math.inf
        for entry in self._memory.live.values():
            if entry.has_steps:
                entry.close_without_verdict()
        return NOTHING

    def _discarded(self, fact: facts.Discarded) -> Outcome:
        # For a merged run of discards, the first one marks the waiting steps; remember the last.
        self._trust.discarded_at = fact.at if fact.until is None else fact.until
        if not self._trust.excused:
            self._trust.excused = True
            self._excuse(Excuse.DISCARDED)
        return NOTHING

    def _unread(self, fact: facts.Unread) -> Outcome:
        if len(self._trust.unread) >= UNREAD:
            return self._discarded(facts.Discarded(fact.at))
        self._trust.unread.add(fact.container_id)
        entry = self._memory.peek(fact.container_id)
        for step in entry.steps if entry is not None else ():
            step.excuse = max(step.excuse, Excuse.DISCARDED)
            step.gap_excuse = max(step.gap_excuse, Excuse.DISCARDED)
        return NOTHING

    def _inquired(self, fact: facts.Inquired) -> Outcome:
        entry = self._memory.live.get(fact.container_id)
        if entry is None:
            return NOTHING
        match fact.answer:
            case Inquiry.STARTED:
                entry.ran = True
            case Inquiry.NEVER_STARTED:
                if entry.ran is None:
                    entry.ran = False
            case _:
                entry.deleted_below = True
        # The answer may explain a gap that nothing else would re-examine.
        self._open[entry.id] = entry
        return NOTHING

    def _cgroup_changed(self, fact: facts.CgroupChanged) -> Outcome:
        taken = self.kernel.changed(fact)
        self._oom.changed(fact)
        entry = self._memory.live.get(fact.container_id)
        if entry is None or entry.exit is None:
            return taken
        return taken._replace(findings=taken.findings + self.exits.changed(entry))

    def _killed(self, fact: facts.Killed) -> Outcome:
        self._oom.killed(fact)
        return NOTHING

    def _kills_counted(self, fact: facts.KillsCounted) -> Outcome:
        self._oom.counted(fact)
        return NOTHING

    def _announced(self, event: Announcement) -> Outcome:
        entry, made = self._memory.recall(event.container_id), self._clock.made(event)
        if entry is None:
            if len(self._memory.live) >= self._listed + UNLISTED:
                return self._overflown(event)
            entry = Entry(event.container_id)
            entry.before_baseline = made < self._trust.horizon
            self._memory.admit(entry)
        lifecycle = ANNOUNCES[event.type]
        backlog = made < self._trust.asked
        first = self._trust.receive(event.container_id, event.received, made)
        if first and self._trust.new_connection:
            self._excuse_since_it_began()
        if entry.kind is None or entry.pod is None:
            entry.describe_announced(event)
        self._open[entry.id] = entry
        step = entry.steps[lifecycle]
        copy = step.announced is not None and step.repeats(event)
        findings = [entry.finding(Verdict.BACKLOG, lifecycle)] if backlog else []
        untimed: Untimed | None = None
        if step.announced is None:
            if lifecycle is _DIED:
                measured, untimed = self.exits.announced(entry, event, backlog=backlog)
                findings += measured
                self._oom.announced(entry, event.received)
            verdict = self._trust.announce(entry, event, self._previous, made)
        else:
            verdict = None if copy else Verdict.DUPLICATE
        if verdict is not None:
            cause = step.missed if verdict is Verdict.LATE else None
            findings.append(entry.finding(verdict, lifecycle, cause))
        if (event.flawed is not None or lifecycle < entry.latest) and not copy:
            again = verdict is Verdict.DUPLICATE
            findings += entry.flaws(event, again=again, clear=self._clock.clear)
        if entry.id in self.kernel.cgroups:
            findings += self.kernel.weigh(self.kernel.cgroups[entry.id])
        doubted = entry.state is _EXITED and start_in_doubt(entry, self.profile)
        doubts = (entry.id,) if doubted else ()
        kind = entry.kind or _CONTAINER
        is_timed = event.created_at_ns and not backlog and made >= self._clock.clear
        delay = event.received - made if is_timed else None
        return Outcome(tuple(findings), doubts, kind, copy and not backlog, delay, untimed)

    def _excuse_since_it_began(self) -> None:
        """Excuse what was proven before the first event: only from then on is a connection up."""
        for step in self._waiting(-math.inf):
            if (step.proven or 0.0) > self._trust.began:
                step.excuse = Excuse.DOWN

    def _overflown(self, event: Announcement) -> Outcome:
        """Reject the event: the stream names more unknown containers than the limit allows."""
        self._discarded(facts.Discarded(event.received))
        blank = Entry(event.container_id, event.kind)
        return Outcome((blank.finding(Verdict.OVERFLOW, ANNOUNCES[event.type]),))

    def _waiting(self, at: float) -> list[Step]:
        """Steps whose grace was not over at `at`; it does not end while the lists are behind."""
        grace, clear = self._grace, self._clock.clear
        return [
            step
            for entry in self._open.values()
            for event, step in zip(EVENTS, entry.steps, strict=True)
            if step.waits
            if max(entry.due(event), clear) + grace >= at
            or (step.kernel_first and entry.behind(event))
        ]

    def _settle(self, relist: facts.Relist, findings: list[Finding]) -> tuple[str, ...]:
        """Judge all open entries; returns the ids of containers whose start is in doubt."""
        doubts: list[str] = []
        trust, clear = self._trust, self._clock.clear
        settlement = Settlement(self.profile, self._grace, relist.requested, findings, trust, clear)
        for entry in list(self._open.values()):
            if settlement.settle(entry, self._memory.peek(entry.sandbox_id)):
                if start_in_doubt(entry, self.profile):
                    doubts.append(entry.id)
            else:
                del self._open[entry.id]
        if settlement.stalled:
            is_new = self._stalled_at is None or trust.reached > self._stalled_at
            if is_new:
                self.stalls += 1
            self._stalled_at = relist.requested
        return tuple(doubts)

    # Covers every type in `Fact`.
    _TAKES: ClassVar[dict[type, Callable[["Ledger", Any], Outcome]]] = {
        Announcement: _announced,
        facts.Relist: _relisted,
        facts.ProfileChosen: _profile_chosen,
        facts.ClockSet: _clock_set,
        facts.StreamAsked: _stream_asked,
        facts.StreamUp: _stream_up,
        facts.StreamUnproven: _stream_unproven,
        facts.StreamDown: _stream_down,
        facts.StreamRefused: _stream_refused,
        facts.Discarded: _discarded,
        facts.Unread: _unread,
        facts.Inquired: _inquired,
        facts.CgroupChanged: _cgroup_changed,
        facts.CgroupsRead: lambda ledger, fact: ledger.kernel.was_read(fact),
        facts.CgroupsLost: lambda ledger, fact: ledger.kernel.lost(fact),
        facts.Killed: _killed,
        facts.KillsCounted: _kills_counted,
        facts.Believed: lambda ledger, fact: ledger.exits.believed(fact),
        facts.BeliefsShown: lambda ledger, fact: ledger.beliefs.all_shown(fact),
        facts.BeliefsLost: lambda ledger, fact: ledger.beliefs.lost(fact),
    }
