"""A complete log of facts, and the questions that the oracle asks of it.

Here: what was shown, said, answered and proven, and by when: a moment is the
number of a relist, and "by then" is before that relist was handed over. Not
here: verdicts (`oracle`). Nothing is shared with the ledger but the vocabulary.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf

from exporter.pleg.events import (
    Announcement,
    Inquiry,
    Lifecycle,
    Listed,
    ListedState,
    ObjectKind,
    Relist,
)
from exporter.pleg.facts import (
    CgroupChanged,
    CgroupsLost,
    CgroupsRead,
    Discarded,
    Fact,
    Inquired,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUnproven,
    StreamUp,
    learnt,
)
from exporter.pleg.findings import Cause
from exporter.pleg.profiles import Profile, StreamKind

CHANGED, STARTED, DIED, REMOVED = Lifecycle
REACHED = {ListedState.CREATED: 0, ListedState.RUNNING: 1, ListedState.EXITED: 2}
RAN = (ListedState.RUNNING, ListedState.EXITED)
GONE = (None, ListedState.EXITED)
LASTS = 2.0
SETTLES = 0.5
_EXCUSES = (StreamUp, StreamUnproven, StreamDown, Discarded)


def first(candidates: Iterable[int]) -> float:
    """The smallest of them, or never."""
    return min(candidates, default=inf)


def emitted(old: ListedState | None, new: ListedState | None) -> tuple[Lifecycle, ...]:
    """Generic PLEG, by rule instead of by table."""
    unknown = {ListedState.CREATED, ListedState.UNKNOWN}
    if old is new or {old, new} <= unknown:
        return ()
    if new is None:
        return (REMOVED,) if old is ListedState.EXITED else (DIED, REMOVED)
    if new in unknown:
        return (CHANGED,)
    return (STARTED,) if new is ListedState.RUNNING else (DIED,)


@dataclass(frozen=True)
class Seen:
    """One relist and its place in the log."""

    place: int
    relist: Relist

    @cached_property
    def states(self) -> dict[str, ListedState]:
        """What it showed."""
        return {item.id: item.state for item in self.relist.items}


@dataclass(frozen=True)
class Heard:
    """One announcement and its place in the log. `early`: from before our time."""

    place: int
    event: Announcement
    backlog: bool
    early: bool

    @cached_property
    def step(self) -> Lifecycle:
        """What it announces: the two enums count alike."""
        return Lifecycle(self.event.type.value)

    @cached_property
    def made(self) -> float:
        """When the runtime made it; when it came, if it has no time."""
        event = self.event
        timed = event.created_at_ns > 0 and event.received_wall_ns
        age = (event.received_wall_ns - event.created_at_ns) / 1e9 if timed else 0.0
        return event.received - max(0.0, age)


@dataclass(frozen=True)
class Watch:
    """One subscription, until the next one begins; `fresh`: a new connection, not a renewal."""

    place: int
    at: float
    fresh: bool


@dataclass(frozen=True)
class Proof:
    """Relist `at` emits `event`; the change itself was found by relist `found`.

    Or `ahead`: the kernel alone proved it, by the fact at `place`, before relist `at` was judged.
    It happened later than `since`; the grace begins at `proven`; it was told at `told`.
    """

    event: Lifecycle
    at: int
    found: int
    old: ListedState | None
    new: ListedState | None
    place: int
    since: float
    proven: float
    told: float
    ahead: bool = False


@dataclass(frozen=True)
class Sight:
    """One stretch of processes in a container's cgroup, until `void`: a place in the log.

    `old`: the first read showed it. `began`, `ended`: places and times; each happened later than
    `after` or `ended_after`. `lasted`: where and when it was known that they last.
    """

    old: bool
    began: tuple[int, float]
    after: float
    ended: tuple[int, float] | None
    ended_after: float
    lasted: tuple[int, float] | None
    void: float


class Log:
    """The complete log, with the questions that concern no single container."""

    def __init__(self, facts: Sequence[Fact], profile: Profile, grace: float) -> None:
        self.facts = list(enumerate(facts))
        self.profile = profile
        self.grace = grace
        self.seen = [Seen(place, f) for place, f in self.facts if isinstance(f, Relist)]
        self.is_shared = profile.stream is StreamKind.EXCLUSIVE
        self.refused = any(isinstance(f, StreamRefused) for f in facts)
        self.heard = [self._heard(p, f) for p, f in self.facts if isinstance(f, Announcement)]
        self.watches = [
            Watch(place, fact.at, isinstance(fact, StreamUp))
            for place, fact in self.facts
            if isinstance(fact, StreamUp | StreamUnproven)
        ]
        # What the kernel proves before each relist, by id and event: kept for the same reason.
        self.kernel: dict[tuple[str, Lifecycle, int], list[tuple[Proof, float]]] = {}
        self.changes = [(p, f) for p, f in self.facts if isinstance(f, CgroupChanged)]
        self.reads = [(p, f) for p, f in self.facts if isinstance(f, CgroupsRead)]
        self.blinded = [p for p, f in self.facts if isinstance(f, CgroupsLost)]

    def _heard(self, place: int, event: Announcement) -> Heard:
        began = 0
        for _, fact in self.facts[:place]:
            began = fact.began_ns if isinstance(fact, StreamAsked | StreamUp) else began
        baseline = self.seen[0] if self.seen and self.seen[0].place < place else None
        early = baseline is None or 0 < event.created_at_ns < baseline.relist.requested_wall_ns
        return Heard(place, event, 0 < event.created_at_ns < began, early)

    @cached_property
    def lives(self) -> dict[str, LoggedLife]:
        """By id."""
        return {object_id: LoggedLife(self, object_id) for object_id in self.ids()}

    def ids(self) -> set[str]:
        """Everything that either witness named."""
        listed = {item.id for seen in self.seen for item in seen.relist.items}
        return listed | {heard.event.container_id for heard in self.heard}

    def requested_after(self, at: float) -> Iterator[int]:
        """Relists requested later than `at`."""
        later = bisect_right(self.seen, at, key=lambda seen: seen.relist.requested)
        return iter(range(later, len(self.seen)))

    def settling(self, proof: Proof) -> float:
        """The relist that ends the wait for the announcement of a proof."""
        return first(n for n in self.requested_after(proof.proven + self.grace) if n >= proof.at)

    def moment(self, place: float) -> int:
        """The relist before which that place is, or at which."""
        return bisect_left(self.seen, place, key=lambda seen: seen.place)

    def learnt(self, place: int) -> float:
        """When the fact at that place was learnt."""
        return learnt(self.facts[place][1])

    def last_read(self, place: int) -> float | None:
        """When the last read of all cgroups before that place began, if nothing voids it."""
        blind = max((p for p in self.blinded if p < place), default=-1)
        begun = [read.requested for p, read in self.reads if blind < p < place]
        return begun[-1] if begun else None

    def reached(self, place: float) -> float:
        """When the youngest event that came before that place was made."""
        return max((h.made for h in self.heard if h.place < place), default=-inf)

    def first_of(self, watch: Watch) -> Heard | None:
        """The first event of that watch."""
        next_one = min((w.place for w in self.watches if w.place > watch.place), default=inf)
        mine = (h for h in self.heard if watch.place < h.place < next_one)
        return next((h for h in mine if h.event.received > watch.at), None)

    def watch_at(self, place: float) -> Watch | None:
        """The watch at that place."""
        return next((w for w in reversed(self.watches) if w.place < place), None)

    def begun(self, proof: Proof) -> int:
        """Where in the log it was proven first: by the kernel, or by the list that lacked it."""
        found = self.seen[proof.found].place if proof.found >= 0 else proof.place
        return min(found, proof.place)

    def may_come(self, life: LoggedLife, proof: Proof, place: float) -> bool:
        """Whether no event had come by then that was made after the grace.

        The runtime may make it only once it has sent what comes before it.
        """
        before = (h for h in life.firsts if h.step < proof.event and h.place < place)
        vanished = 0 <= proof.found < proof.at
        due = [proof.proven, *(h.event.received for h in before if not vanished)]
        return self.reached(place) <= max(due) + self.grace

    def befell(self, life: LoggedLife, proof: Proof, by: float) -> list[Fact]:
        """What happened after the proof, before that place, while its announcement could come."""
        begun = self.begun(proof)
        return [
            fact
            for place, fact in self.facts
            if begun < place < by and isinstance(fact, _EXCUSES)
            if learnt(fact) <= proof.told or self.may_come(life, proof, place)
        ]

    def excuse(self, life: LoggedLife, proof: Proof, by: float) -> Cause:
        """Why the announcement was missed, by what befell the watch before that place."""
        begun = self.begun(proof)
        after = self.befell(life, proof, by)
        past = [fact for place, fact in self.facts if place < begun]
        watch = self.watch_at(begun)
        event = None if 0 <= proof.found < proof.at else proof.event
        unserved = not self.serves(life, event, begun, proof.since)
        opened = unserved and watch is not None and watch.fresh and self._opened(watch, begun)
        if (
            any(rose >= proof.since for _, rose in _outages(past))
            or any(isinstance(fact, StreamDown) for fact in after)
            or opened
            or any(begun < place < by for place in self._openings(proof))
        ):
            return Cause.STREAM_DOWN
        losses = [f.at for f in past if isinstance(f, Discarded)]
        if any(at >= proof.since for at in losses) or any(isinstance(f, Discarded) for f in after):
            return Cause.DISCARDED
        ended = any(isinstance(fact, StreamUp | StreamUnproven) for fact in after)
        return Cause.STALLED if unserved or ended else Cause.SILENT

    def _openings(self, proof: Proof) -> Iterator[int]:
        """Where the first events came of new connections that were there before the proof."""
        fresh = (w for w in self.watches if w.fresh and w.at < proof.proven)
        return (one.place for watch in fresh if (one := self.first_of(watch)) is not None)

    def _opened(self, watch: Watch, place: float) -> bool:
        one = self.first_of(watch)
        return one is not None and one.place <= place

    def serves(self, life: LoggedLife, event: Lifecycle | None, place: int, since: float) -> bool:
        """Whether an event of that life made after `since` had to come over the watch there."""
        watch = self.watch_at(place)
        one = self.first_of(watch) if watch is not None else None
        if one is None or one.place > place:
            return False
        earlier = (h for h in life.firsts if event is None or h.step < event)
        after = (h for h in earlier if h.place <= place and h.event.received >= one.event.received)
        return one.event.received + SETTLES <= since or next(after, None) is not None

    def interruption(self, life: LoggedLife, heard: Heard) -> Cause | None:
        """Whether the watch was interrupted since the relist before that announcement."""
        before = [seen for seen in self.seen if seen.place < heard.place]
        if not before:
            return Cause.STREAM_DOWN
        since = before[-1].relist.requested
        past = [fact for place, fact in self.facts if place < heard.place]
        if any(rose >= since for _, rose in _outages(past)):
            return Cause.STREAM_DOWN
        if any(fact.at >= since for fact in past if isinstance(fact, Discarded)):
            return Cause.DISCARDED
        if self.serves(life, heard.step, heard.place, since):
            return None
        watch = self.watch_at(heard.place)
        return Cause.STREAM_DOWN if watch is not None and watch.fresh else Cause.STALLED


def _outages(facts: Iterable[Fact]) -> Iterator[tuple[float, float]]:
    fell: float | None = -inf
    for fact in facts:
        if isinstance(fact, StreamDown):
            fell = fact.at if fell is None else fell
        elif isinstance(fact, StreamUp) and fell is not None:
            yield fell, fact.at
            fell = None
    if fell is not None:
        yield fell, inf


@dataclass(frozen=True)
class Doubt:
    """Relist `found` lacks it; relist `end` ends that doubt. `proves`: it is gone."""

    found: int
    end: float
    proves: bool


class LoggedLife:
    """One id: its column of the lists, its announcements, its answers."""

    def __init__(self, log: Log, object_id: str) -> None:
        self.log = log
        self.id = object_id
        self.states = [seen.states.get(object_id) for seen in log.seen]
        self.heard = [h for h in log.heard if h.event.container_id == object_id]
        # The first of each step.
        self.firsts = list({h.step: h for h in reversed(self.heard)}.values())
        # Kept because it is asked for often: whether a step is missing after a relist.
        self.gaps: dict[tuple[Lifecycle, int], bool] = {}
        self.answers = [
            (p, f.answer)
            for p, f in log.facts
            if isinstance(f, Inquired) and f.container_id == object_id
        ]

    def place(self, relist: float) -> float:
        """Where in the log that relist is; "never" is at its end."""
        return inf if relist == inf else self.log.seen[int(relist)].place

    def before(self, relist: float) -> list[Heard]:
        """The first announcement of each step, if handed over before that relist."""
        place = self.place(relist)
        return [h for h in self.firsts if h.place < place]

    def _named(self, relist: float) -> Iterator[Listed | Announcement]:
        """Whatever told who it is by then, the lists first: they know best."""
        for seen in self.log.seen[: int(min(relist, len(self.log.seen))) + 1][::-1]:
            yield from (item for item in seen.relist.items if item.id == self.id)
        yield from (h.event for h in self.heard if h.place < self.place(relist))

    def is_sandbox(self, relist: float) -> bool:
        """Whether it is known by then that it is one."""
        kinds = (named.kind for named in self._named(relist))
        return next(filter(None, kinds), None) is ObjectKind.SANDBOX

    def home(self, relist: float) -> LoggedLife:
        """The sandbox that it is known by then to be in."""
        homes = (named.sandbox_id for named in self._named(relist))
        home = next(filter(None, homes), "")
        return self.log.lives.get(home) or LoggedLife(self.log, home)

    def said(self, step: Lifecycle, relist: float = inf) -> bool:
        """Whether the stream announced that step before that relist was handed over."""
        return any(h.step is step for h in self.before(relist))

    def answered(self, answer: Inquiry, relist: float) -> bool:
        """Whether an inquiry said so by then."""
        end = self.place(relist)
        return any(told is answer and place < end for place, told in self.answers)

    def shown(self, relist: float, *states: ListedState) -> bool:
        """Whether a list up to that one showed it, in one of those states if any are given."""
        upto = self.states[: int(relist) + 1] if relist != inf else self.states
        return any(s is not None and (not states or s in states) for s in upto)

    def exit_listed(self, relist: float) -> bool:
        """Whether a list showed that it had exited since the baseline."""
        changes = pairwise(self.states[: int(relist) + 1])
        return any(old is not new is ListedState.EXITED for old, new in changes)

    def first_shown(self, relist: float) -> ListedState | None:
        """The first state that a list showed by then."""
        upto = self.states[: int(relist) + 1]
        return next((s for s in upto if s is not None), None)

    def behind(self, step: Lifecycle, relist: int) -> bool:
        """Whether that list shows it before the step: UNKNOWN might be."""
        state = self.states[relist]
        return state is not None and REACHED.get(state, -1) < step

    def ran(self, relist: float) -> bool:
        """Whether it is known by then that it ran."""
        return (
            self.shown(relist, ListedState.RUNNING)
            or self.said(STARTED, relist)
            or self.answered(Inquiry.STARTED, relist)
        )

    def floor(self, relist: float) -> int:
        """The last step that was taken before our time, or told as backlog."""
        marks = [int(h.step) for h in self.before(relist) if h.backlog or h.early]
        if self.states and self.states[0] is not None:
            marks.append(REACHED.get(self.states[0], 2))
        return max(marks, default=-1)

    @cached_property
    def doubt(self) -> Doubt | None:
        """A list lacked what only the stream had named."""
        opening = self.heard[0] if self.heard else None
        if opening is None or opening.early or self.log.refused:
            return None
        found = first(self.log.requested_after(opening.event.received))
        if found == inf:
            return None
        ends = (n for n, s in enumerate(self.states) if s is not None or self.said(REMOVED, n))
        end = first(ends)
        proven = self.log.seen[int(found)].relist.completed
        over = first(self.log.requested_after(proven + self.log.grace))
        return Doubt(int(found), min(over, end), over < end) if found < end else None

    def is_history(self, step: Lifecycle) -> bool:
        """Whether the baseline showed it taken, or may have: the time is unknown."""
        first_shown = self.states[0] if self.states else None
        return first_shown is not None and step <= REACHED.get(first_shown, 2)

    @cached_property
    def proofs(self) -> list[Proof]:
        """Everything the relist emits about it, in order."""
        changes = pairwise(self.states)
        listed = [
            self._proof(event, n, n, old, new)
            for n, (old, new) in enumerate(changes, start=1)
            for event in emitted(old, new)
        ]
        return sorted([*self._vanished(), *listed], key=lambda proof: proof.at)

    def _vanished(self) -> list[Proof]:
        doubt = self.doubt
        if doubt is None or not doubt.proves:
            return []
        end = int(doubt.end)
        last = max(h.step for h in self.before(end))
        state = [ListedState.CREATED, *RAN][last]
        return [self._proof(e, end, doubt.found, state, None) for e in emitted(state, None)]

    def _proof(
        self,
        event: Lifecycle,
        at: int,
        found: int,
        old: ListedState | None,
        new: ListedState | None,
    ) -> Proof:
        place, since = self.log.seen[at].place, self.log.seen[found - 1].relist.requested
        proven = self.log.seen[found].relist.completed
        return Proof(event, at, found, old, new, place, since, proven, proven)

    # --- what the kernel shows ----------------------------------------------------

    @cached_property
    def sights(self) -> list[Sight]:
        """Every stretch of processes in its cgroup."""
        own = [(p, f) for p, f in self.log.changes if f.container_id == self.id]
        turns = sorted([*own, *((p, None) for p in self.log.blinded)], key=lambda turn: turn[0])
        sights: list[Sight] = []
        has = False
        for n, (place, fact) in enumerate(turns):
            if fact is None or fact.populated == has:
                has = has and fact is not None
                continue
            has = fact.populated
            if has:
                sights.append(self._sight(place, fact, turns[n + 1 :]))
        return sights

    def _sight(
        self,
        place: int,
        fact: CgroupChanged,
        then: Sequence[tuple[int, CgroupChanged | None]],
    ) -> Sight:
        """The stretch that begins there, given the changes and losses that follow."""
        blind: float = next((p for p, f in then if f is None), inf)
        after = self.log.last_read(place)
        end = next(((p, f) for p, f in then if f and not f.populated and p < blind), None)
        void = blind
        if end is not None:
            over = end[1].at + self.log.grace
            later = (s for s in self.log.seen if s.place > end[0] and s.relist.requested > over)
            without = (s.place + 1 for s in later if s.states.get(self.id) in GONE)
            again = (p for p, f in then if f and f.populated and p > end[0])
            void = min(blind, next(without, inf), next(again, inf))
        until = end[0] if end else void
        reads = ((p, r.requested) for p, r in self.log.reads if place < p < until)
        lasted = next((each for each in reads if each[1] > fact.at + LASTS), None)
        if lasted is None and end and end[1].at_wall_ns and end[1].at > fact.at + LASTS:
            lasted = end[0], end[1].at
        return Sight(
            old=after is None,
            began=(place, fact.at),
            after=-inf if after is None else after,
            ended=(end[0], end[1].at) if end else None,
            ended_after=_or_never(self.log.last_read(end[0])) if end else -inf,
            lasted=lasted,
            void=void,
        )


def _or_never(at: float | None) -> float:
    return -inf if at is None else at
