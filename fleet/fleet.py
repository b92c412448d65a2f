"""The figures of a fleet over a period, from which a report is made."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Final

from exporter.model.findings import Cause
from exporter.runtimes.known import KNOWN_ISSUES
from exporter.runtimes.runtime import KnownIssue
from fleet import bound
from fleet.queries import SEVERAL, UNKNOWN
from fleet.reliance import affected
from fleet.request import Span
from promql.series import EXIT

# Between two relists of a kubelet whose gate is off.
RELIST_SECONDS: Final = 1.0
# Reasons to look at a node that have a number; others have a share of the time.
NUMBERS: Final = ("lost", "ends", "unwatched")
# Numbers by cause and event.
Counts = Counter[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Losses:
    """Of some transitions: how many were judged, and what became of them.

    `judged`: those whose loss would have been counted. `silent`, `undelivered`: lost for good, with
    proof that the runtime lost them, or without. `undecided`: they may not have been owed.
    """

    witnessed: int
    judged: int
    silent: int
    undelivered: int
    undecided: int = 0

    @property
    def lost(self) -> int:
        """The `k` of the statistics: a kubelet would not have had them either."""
        return self.silent + self.undelivered

    @property
    def doubtful(self) -> int:
        """What may have been lost: lost, or undecided."""
        return self.lost + self.undecided

    @property
    def trials(self) -> int:
        """The `n` of the statistics, never smaller than the number of losses."""
        return max(self.judged, self.doubtful)

    @property
    def ratio(self) -> float | None:
        """Share of what was judged that was lost; None if nothing was judged."""
        return self.lost / self.trials if self.trials else None

    @property
    def upper(self) -> float:
        """95 % upper bound of the share that may have been lost; 1 if nothing was judged."""
        return bound.upper(self.doubtful, self.trials)

    @property
    def lower(self) -> float:
        """95 % lower bound of the share that was lost."""
        return bound.lower(self.lost, self.trials)


def quantile(buckets: Counter[float], share: float) -> float | None:
    """Seconds within which that share was, as histogram_quantile() has it; None without any.

    Evenly spread within a bucket; what is beyond the last bound is counted as that bound.
    """
    rank, low, below = share * buckets[math.inf], 0.0, 0.0
    if not rank:
        return None
    for edge, number in sorted(buckets.items()):
        if number >= rank:
            inside = (rank - below) / (number - below)
            return low if math.isinf(edge) else low + (edge - low) * inside
        low, below = edge, number
    return None


@dataclass(frozen=True, slots=True)
class Kubelets:
    """Nodes by the kubelet's version, at the end of the window.

    `polling`: how many relists a node's had in the window, and their seconds; None if not known.
    """

    versions: Counter[str] = field(default_factory=Counter)
    polling: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that run the same version of a runtime, or all of them.

    `witnessed`, by event: transitions that relist or kernel proved; `judged`, of exits and of all
    else (""): those whose loss would have been counted, so without misses with an excuse. `counts`:
    numbers by the names of Queries.counts; its `kernel` is that of nodes on which the kernel was a
    witness: elsewhere neither ghosts nor strays are found. `held`, `gated`, by condition: nodes on
    which it held, and those of them whose kubelet's gate is on; `lasted`: the sum of the shares of
    their time. `announced`, `listed`: exits by the seconds within which. `kubelets`: nodes by the
    kubelet's version. `listened`: node-slices in which subscriptions were up. `polled`: the seconds
    within which kubelets that relist every second show half of the exits.
    """

    name: str
    version: str
    stream: str
    nodes: int
    witnessed: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    missed: Counts = field(default_factory=Counter)
    late: Counts = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    gated: Counter[str] = field(default_factory=Counter)
    lasted: Counter[str] = field(default_factory=Counter)
    announced: Counter[float] = field(default_factory=Counter)
    listed: Counter[float] = field(default_factory=Counter)
    kubelets: Counter[str] = field(default_factory=Counter)
    listened: float = 0.0
    polled: float = RELIST_SECONDS

    @property
    def label(self) -> str:
        """The runtime in words."""
        if self.name == SEVERAL:
            return "changed in the window"
        return "unknown runtime" if self.name == UNKNOWN else f"{self.name} {self.version}".strip()

    def share_of(self, condition: str) -> float:
        """For what share of the time it held, of the nodes on which it did."""
        return min(1.0, self.lasted[condition] / self.held[condition])

    def of(self, cause: Cause) -> int:
        """Misses of one cause."""
        return sum(number for (of, _), number in self.missed.items() if of == cause.value)

    def lost(self, cause: Cause, event: str | None = None) -> int:
        """Missed minus late of one cause: what never came; of one event, or of all."""
        # Counter's difference keeps what is above 0.
        never = self.missed - self.late
        return sum(
            number
            for (of, which), number in never.items()
            if of == cause.value and event in (None, which)
        )

    @property
    def final_loss(self) -> int:
        """What never came, for any cause; without what is never announced by design."""
        return sum(self.lost(cause) for cause in Cause if cause is not Cause.BY_DESIGN)

    @property
    def exits(self) -> Losses:
        """What every kubelet acts on."""
        return self._losses(self.witnessed[EXIT], self.judged[EXIT], EXIT)

    @property
    def others(self) -> Losses:
        """All events but the exits."""
        exits, every = self.exits, self.every
        return Losses(
            every.witnessed - exits.witnessed,
            every.judged - exits.judged,
            every.silent - exits.silent,
            every.undelivered - exits.undelivered,
        )

    @property
    def every(self) -> Losses:
        """All events together."""
        return self._losses(self.witnessed.total(), self.judged.total())

    def _losses(self, witnessed: int, judged: int, event: str | None = None) -> Losses:
        silent, stalled = (self.lost(each, event) for each in (Cause.SILENT, Cause.STALLED))
        return Losses(witnessed, judged, silent, stalled, self.counts["undecided"])


def summed(groups: Iterable[Group]) -> Group:
    """All of them as one."""
    every = tuple(groups)
    total: dict[str, Counter[str]] = {}
    for name in (each.name for each in fields(Group) if each.default_factory is Counter):
        total[name] = Counter()
        for group in every:
            # Unlike +, this keeps zeros: empty buckets are the bounds of others.
            total[name].update(getattr(group, name))
    return Group(
        *("fleet", "", ""),
        nodes=sum(each.nodes for each in every),
        listened=sum(each.listened for each in every),
        polled=max((each.polled for each in every), default=RELIST_SECONDS),
        **total,  # type: ignore[arg-type] # the fields that are counters
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A node to look at, and why.

    `what`: `lost`, `ends` (its stream ended often enough for a kubelet to give up), a condition or
    `listened` (`number` is a share of the time it was seen), or `unwatched` (no runtime).
    """

    node: str
    runtime: str
    what: str
    number: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which nodes were watched, and for how long; times are in node-slices.

    A node-slice is one node in one slice of the window. `together`: slices in which as many nodes
    streamed at once as a verdict needs. `kubelets` and the fields after it are None if Prometheus
    knows no kubelet of these nodes. `first` is the unix time at which any node was first seen.
    """

    nodes: int
    nodes_now: int
    lived: float
    streaming: float
    together: int
    first: float
    kubelets: int | None
    unwatched: int | None
    kubelet_present: int | None
    kubelet_streaming: float | None

    @property
    def watched(self) -> float | None:
        """Share of the nodes with a kubelet that were seen; None if unknown."""
        if not self.kubelets or self.unwatched is None:
            return None
        return 1 - self.unwatched / self.kubelets

    @property
    def listening(self) -> float:
        """Share of the time during which the subscriptions were up.

        Relative to the time of the nodes' kubelets or, if none are known, to the time between the
        first and the last sight of each node.
        """
        if self.kubelet_present and self.kubelet_streaming is not None:
            return min(1.0, self.kubelet_streaming / self.kubelet_present)
        return min(1.0, self.streaming / self.lived) if self.lived else 0.0


@dataclass(frozen=True, slots=True)
class Statuses:
    """How late kubelets of one version, with the gate on or off, showed exits.

    `shown`, `announced`: exits by the seconds within which after the exit the kubelet showed them,
    or the stream announced them; `believed`: after the announcement. `contradicted`: twins and
    wrong statuses, by kind.
    """

    version: str
    gate: str
    shown: Counter[float]
    announced: Counter[float]
    believed: Counter[float]
    contradicted: Counter[str]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The complete result. `recorded`: by recording rules.

    `age`: seconds since any node was first seen, if that was in the window.
    """

    prometheus: str
    span: Span
    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    coverage: Coverage
    notes: tuple[str, ...]
    recorded: bool = False
    kubelets: Kubelets = field(default_factory=Kubelets)
    statuses: tuple[Statuses, ...] = ()
    age: int | None = None

    @property
    def all(self) -> Group:
        """The sum of the groups."""
        return summed(self.groups)

    @property
    def issues(self) -> dict[KnownIssue, dict[str, int]]:
        """What is known to be broken here, in the table's order: on how many nodes, by runtime."""
        found = {
            row: {
                each.label: nodes
                for each in self.groups
                if (nodes := affected(row, each.name, each.version, each.kubelets, each.nodes))
            }
            for row in KNOWN_ISSUES
        }
        return {row: nodes for row, nodes in found.items() if nodes}


def iso(at: float) -> str:
    """A unix time as RFC 3339, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
