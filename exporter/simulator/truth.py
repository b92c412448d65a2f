"""The runtime's own truth: what it lost, and how much of that an observer can prove.

It records all lives and their totals. The runtime reports what happened, the channel what arrived,
the server which lists it showed. It assumes a single observer that lists sandboxes, then
containers, and reads what the stream sends. Everything the observer may count is already here when
its relist is answered; the observer follows after its grace period and a relist. Blind spots: an
announcement that is written while the client is disconnecting counts as arrived; one delayed for
longer than the observer's grace period is missed and late there, but merely in transit here. What a
runtime kept while there was no subscriber arrives as backlog, which closes gaps that are younger
than the observer's grace period: around a disconnect the sum of gaps may differ by those. What is
created between the observer's request for a stream and its arrival is news to the observer, but
backlog here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exporter.pleg.events import Lifecycle, ListedState, ObjectKind
from exporter.simulator.life import Arrival, Fate, Life
from exporter.simulator.manners import Manners
from exporter.simulator.records import ContainerRecord, Notice

# Two relists after the one that no longer showed it, nothing can change a verdict.
_FINAL_AFTER: Final = 2
# Without relists, lives pile up; a day of the default churn fits.
_MOST_LIVES: Final = 200_000


@dataclass(frozen=True, slots=True)
class Row:
    """Totals of one lifecycle event of one kind of object.

    `happened` since the observer's first relist. `lost`: never arrived, though this runtime
    announces it; it is `missed` (a relist proves it), a gap (a later announcement does) or
    unprovable. `missed` also includes what the runtime did not announce and no longer explains.
    `by_design`: proven, and never announced.
    """

    event: Lifecycle
    object: ObjectKind
    happened: int
    missed: int
    by_design: int
    gaps: int
    unprovable: int
    under_way: int
    witnessed: int
    unseen: int
    duplicates: int

    @property
    def lost(self) -> int:
        """Everything that the observer should have received but did not."""
        return self.missed + self.gaps + self.unprovable


@dataclass(frozen=True, slots=True)
class Summary:
    """The truth as of now. `relists`: complete ones answered, the baseline included."""

    rows: tuple[Row, ...]
    relists: int

    def row(self, event: Lifecycle, kind: ObjectKind) -> Row:
        """The totals of one event of one kind of object."""
        return next(row for row in self.rows if row.event is event and row.object is kind)


_Key = tuple[str, Lifecycle, ObjectKind]


class Truth:
    """Records all lives. Times are wall clock nanoseconds."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._lives: dict[str, Life] = {}
        self._closed: Counter[_Key] = Counter()
        self._baseline_ns: int | None = None
        self.relists = 0

    @property
    def open_lives(self) -> int:
        """Number of lives recorded individually, not only in the totals."""
        return len(self._lives)

    def born(self, life_id: str, kind: ObjectKind) -> None:
        """A sandbox or container was created."""
        self._lives[life_id] = Life(life_id, kind)
        if len(self._lives) > _MOST_LIVES:
            del self._lives[next(iter(self._lives))]

    def happened(self, life_id: str, event: Lifecycle, *, announced: bool) -> None:
        """It took a step; `announced`: False if this runtime never announces that."""
        life = self._lives.get(life_id)
        if life is None:
            return
        life.happened.add(event)
        if not announced:
            life.silent.add(event)
        if event is Lifecycle.REMOVED and self._baseline_ns is None:
            del self._lives[life_id]

    def deleted_below(self, life_id: str) -> None:
        """It was deleted behind the CRI."""
        life = self._lives.get(life_id)
        if life is not None:
            life.deleted_below = True

    def offered(self, notice: Notice) -> None:
        """One more copy of an announcement is in transit."""
        life = self._lives.get(notice.container_id)
        if life is not None:
            life.under_way[notice.type.announces] += 1

    def lost(self, notice: Notice) -> None:
        """One copy of an announcement in transit will not arrive."""
        life = self._lives.get(notice.container_id)
        if life is not None:
            life.under_way[notice.type.announces] -= 1

    def arrived(self, notice: Notice, stream: int, began_ns: int, now_ns: int) -> None:
        """One copy arrived over that stream, whose subscription began at `began_ns`."""
        self.lost(notice)
        life = self._lives.get(notice.container_id)
        if life is None:
            return
        event = notice.type.announces
        first = life.arrived.get(event)
        if first is not None:
            life.doubled[event] += first.stream == stream
            return
        if not life.named_at_ns and not life.listed:
            baseline = self._baseline_ns
            life.early = baseline is None or notice.created_at_ns < baseline
        life.named_at_ns = life.named_at_ns or now_ns
        old = notice.created_at_ns < began_ns
        if old or life.early:
            life.floor = max(life.floor, event)
        life.arrived[event] = Arrival(now_ns, stream, old, notice.sandbox is not None)

    def answered(self, record: ContainerRecord, *, found: bool) -> None:
        """ContainerStatus described a container, or reported that it is `deleted_below`."""
        life = self._lives.get(record.id)
        if life is None:
            return
        if not found:
            life.told_below = True
        elif record.started_at_ns:
            life.told_ran = True
        elif record.state is ListedState.EXITED:
            life.told_ran = life.told_ran or False

    def shown(self, states: Mapping[str, ListedState], requested_ns: int) -> None:
        """A complete relist, requested at `requested_ns`, was answered with these states."""
        baseline = self._baseline_ns is None
        if baseline:
            self._baseline_ns = requested_ns
        self.relists += 1
        for life in list(self._lives.values()):
            state = states.get(life.id)
            if baseline:
                life.before = frozenset(life.happened)
            life.show(state, baseline=baseline)
            named = 0 < life.named_at_ns < requested_ns
            if named and not life.listed and not life.early:
                life.vanished = True
            life.judge(requested_ns, self._manners)
            self._close(life)

    def summary(self) -> Summary:
        """The totals as of now."""
        counts = self._closed.copy()
        for life in self._lives.values():
            self._count(life, counts)
        rows = tuple(_row(counts, event, kind) for kind in ObjectKind for event in Lifecycle)
        return Summary(rows, self.relists)

    def _close(self, life: Life) -> None:
        """Add a life to the totals and forget it, once nothing can change its fates."""
        if Lifecycle.REMOVED not in life.happened or life.state is not None:
            return
        life.relists_since_removed += 1
        if life.relists_since_removed > _FINAL_AFTER and not any(life.under_way.values()):
            self._count(life, self._closed)
            del self._lives[life.id]

    def _count(self, life: Life, counts: Counter[_Key]) -> None:
        kind = life.shown_kind
        for event in Lifecycle:
            counts[life.fate(event, self._manners).name, event, kind] += 1
            counts["happened", event, kind] += event in life.happened - life.before
            counts["witnessed", event, kind] += life.witnessed[event]
            counts["witnessed", event, kind] += event in life.vanish_events()
            counts["unseen", event, kind] += life.unseen(event)
            counts["duplicates", event, kind] += life.doubled[event]


def _row(counts: Counter[_Key], event: Lifecycle, kind: ObjectKind) -> Row:
    return Row(
        event=event,
        object=kind,
        happened=counts["happened", event, kind],
        missed=counts[Fate.MISSED.name, event, kind],
        by_design=counts[Fate.BY_DESIGN.name, event, kind],
        gaps=counts[Fate.GAP.name, event, kind],
        unprovable=counts[Fate.UNPROVABLE.name, event, kind],
        under_way=counts[Fate.UNDER_WAY.name, event, kind],
        witnessed=counts["witnessed", event, kind],
        unseen=counts["unseen", event, kind],
        duplicates=counts["duplicates", event, kind],
    )
