"""One container's life as an observer could know it, and what it must conclude.

What was shown and what arrived for one id, and the fate of each of its announcements. It knows the
rules of the observer (a shadow relist that proves, a stream that announces) but shares no code with
it except PLEG's table. Blind spots, the same as the observer's: on CRI-O the loss of a DELETED
shortly before the sandbox's removal, or of a STOPPED when a READY sandbox is removed in one go,
counts as a loss here and as by design there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from exporter.pleg.events import Lifecycle, ListedState, ObjectKind
from exporter.pleg.relist import transition
from exporter.simulator.manners import Manners


class Fate(Enum):
    """The fate of one step's announcement.

    `MISSED` and `BY_DESIGN`: a relist proves the step, nothing announces it. `GAP`: only a later
    announcement reveals it. `UNPROVABLE`: lost, and nothing can reveal it. `NONE`: it did not
    happen, or is not owed.
    """

    ARRIVED = "arrived"
    UNDER_WAY = "under way"
    MISSED = "missed"
    BY_DESIGN = "by design"
    GAP = "gap"
    UNPROVABLE = "unprovable"
    NONE = "none"


_REACHED: Final = {
    ListedState.CREATED: Lifecycle.CHANGED,
    ListedState.RUNNING: Lifecycle.STARTED,
    ListedState.EXITED: Lifecycle.DIED,
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """The first copy of an announcement that arrived. `old`: from before that stream."""

    at_ns: int
    stream: int
    old: bool
    with_status: bool


@dataclass(slots=True)
class Life:
    """What is known of one id.

    `happened`, `silent`: steps taken, and those of them that are never announced. `before`: steps
    taken before the observer's first relist. `floor`: the step below which the observer looks for
    no gaps. `state`, `proven`: as the lists showed it; `first`: how it was first listed;
    `vanished`: named by the stream, and missing in a later list. `judged`: gaps that a relist has
    confirmed; later announcements do not close them. `told_ran`, `told_below`: the answers of
    ContainerStatus.
    """

    id: str
    kind: ObjectKind
    happened: set[Lifecycle] = field(default_factory=set)
    silent: set[Lifecycle] = field(default_factory=set)
    before: frozenset[Lifecycle] = frozenset()
    under_way: Counter[Lifecycle] = field(default_factory=Counter)
    arrived: dict[Lifecycle, Arrival] = field(default_factory=dict)
    doubled: Counter[Lifecycle] = field(default_factory=Counter)
    named_at_ns: int = 0
    early: bool = False
    floor: int = -1
    state: ListedState | None = None
    listed: bool = False
    first: ListedState | None = None
    exit_shown: bool = False
    run_shown: bool = False
    proven: set[Lifecycle] = field(default_factory=set)
    witnessed: Counter[Lifecycle] = field(default_factory=Counter)
    vanished: bool = False
    told_ran: bool | None = None
    deleted_below: bool = False
    told_below: bool = False
    judged: set[Lifecycle] = field(default_factory=set)
    relists_since_removed: int = 0

    @property
    def shown_kind(self) -> ObjectKind:
        """The kind that the observer assumes: a container, unless it was told otherwise."""
        told = self.listed or any(arrival.with_status for arrival in self.arrived.values())
        return self.kind if told else ObjectKind.CONTAINER

    def show(self, state: ListedState | None, *, baseline: bool) -> None:
        """A complete relist showed it in `state`; None: did not show it."""
        old, self.state = self.state, state
        if old is state:
            return
        self.first = self.first if self.listed else state
        self.listed = True
        self.run_shown |= state is ListedState.RUNNING
        if baseline:
            self.floor = max(self.floor, _REACHED[state] if state else -1)
            return
        self.exit_shown |= state is ListedState.EXITED
        events = transition(old, state)
        self.proven.update(events)
        self.witnessed.update(events)

    def judge(self, requested_ns: int, manners: Manners) -> None:
        """A relist was requested at that time: gaps that were open by then are final."""
        last = max((arrival.at_ns for arrival in self.arrived.values()), default=requested_ns)
        if last < requested_ns:
            gaps = (event for event in Lifecycle if self.fate(event, manners) is Fate.GAP)
            self.judged.update(gaps)

    def vanish_events(self) -> tuple[Lifecycle, ...]:
        """What is proven if no list shows a container that the stream named."""
        if not self.vanished or Lifecycle.REMOVED in self.arrived:
            return ()
        last = max(self.arrived)
        if last is Lifecycle.DIED:
            return (Lifecycle.REMOVED,)
        return (Lifecycle.DIED, Lifecycle.REMOVED)

    def unseen(self, event: Lifecycle) -> bool:
        """Whether it was announced as news, but no relist proved it."""
        arrival = self.arrived.get(event)
        return arrival is not None and not arrival.old and event not in self.proven

    def fate(self, event: Lifecycle, manners: Manners) -> Fate:
        """What the observer must conclude about that step once it has settled."""
        if event in self.judged:
            return Fate.GAP
        if event in self.arrived:
            return Fate.ARRIVED
        if self.under_way[event]:
            return Fate.UNDER_WAY
        if event in self.proven or event in self.vanish_events():
            if self._owed(event):
                return Fate.BY_DESIGN if self._by_design(event, manners) else Fate.MISSED
        elif event in self.happened and self._gap(event, manners):
            return Fate.GAP
        lost = event in self.happened and event not in self.silent and event not in self.before
        return Fate.UNPROVABLE if lost else Fate.NONE

    def _ran(self) -> bool | None:
        """Whether it ran, as far as the observer was told; None: unknown."""
        if self.run_shown or Lifecycle.STARTED in self.arrived:
            return True
        return self.told_ran

    def _owed(self, event: Lifecycle) -> bool:
        if event is not Lifecycle.DIED or self.shown_kind is ObjectKind.SANDBOX:
            return True
        return self._ran() is True or self.exit_shown

    def _by_design(self, event: Lifecycle, manners: Manners) -> bool:
        """Whether it is never announced, or is indistinguishable from what never is."""
        if self.kind is ObjectKind.SANDBOX:
            failed = self.first is ListedState.EXITED and self._ran() is None
            like_failed = manners.keeps_failed_pod and event is Lifecycle.DIED and failed
            return like_failed or event in self.silent
        if event is Lifecycle.DIED:
            return self._ran() is False
        if self.deleted_below:
            return self.told_below
        return event in self.silent

    def _gap(self, event: Lifecycle, manners: Manners) -> bool:
        later = any(step > event and not a.old for step, a in self.arrived.items())
        if not later or event <= self.floor:
            return False
        sandbox = self.shown_kind is ObjectKind.SANDBOX
        if event is Lifecycle.CHANGED:
            return not sandbox or manners.sandbox_created == 1.0
        ran = self._ran()
        if ran is not None:
            return ran
        tells = sandbox or not manners.stops_never_started
        return event is Lifecycle.STARTED and Lifecycle.DIED in self.arrived and tells
