"""The figures of a fleet over a period, from which a report is made."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from exporter.pleg.findings import Cause
from exporter.report import bound
from exporter.report.options import Span
from exporter.report.queries import SEVERAL, UNKNOWN

# Numbers by cause and event; the cause is empty where it does not apply.
Counts = Counter[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that run the same version of a runtime, or all of them.

    `witnessed`: transitions that the relist proved. `judged`: those whose silent loss would have
    been counted; misses with other causes are excluded.
    """

    name: str
    version: str
    stream: str
    nodes: int
    witnessed: int = 0
    judged: int = 0
    missed: Counts = field(default_factory=Counter)
    late: Counts = field(default_factory=Counter)
    gaps: Counts = field(default_factory=Counter)

    @property
    def label(self) -> str:
        """The runtime in words."""
        if self.name == SEVERAL:
            return "changed in the window"
        return "unknown runtime" if self.name == UNKNOWN else f"{self.name} {self.version}".strip()

    def of(self, cause: Cause) -> int:
        """Misses of one cause."""
        return sum(number for (of, _), number in self.missed.items() if of == cause.value)

    @property
    def silent(self) -> int:
        """Misses while the exporter was subscribed; the runtime or its transport is at fault."""
        return self.of(Cause.SILENT)

    @property
    def final_loss(self) -> int:
        """Missed minus late; excludes what is never announced by design, as it was never owed."""
        owed = sum(self.of(cause) for cause in Cause if cause is not Cause.BY_DESIGN)
        return max(0, owed - self.late.total())

    @property
    def trials(self) -> int:
        """The `n` of the statistics, never smaller than the number of losses."""
        return max(self.judged, self.silent)

    @property
    def ratio(self) -> float | None:
        """Share of what was judged that was lost silently; None if nothing was judged."""
        return self.silent / self.trials if self.trials else None

    @property
    def upper(self) -> float:
        """95 % upper bound of that share; 1 if nothing was judged."""
        return bound.upper(self.silent, self.trials)

    @property
    def lower(self) -> float:
        """95 % lower bound of that share."""
        return bound.lower(self.silent, self.trials)


@dataclass(frozen=True, slots=True)
class NodeLosses:
    """One of the nodes with the most silent misses."""

    node: str
    runtime: str
    silent: int
    judged: int


@dataclass(frozen=True, slots=True)
class NodeListening:
    """A node that was not always subscribed; `streaming` is a share of the time it was seen."""

    node: str
    runtime: str
    streaming: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which nodes were watched, and for how long; times are in node-slices.

    A node-slice is one node in one slice of the window, sampled once. `kubelets` and the fields
    after it are None if Prometheus knows no kubelet of these nodes. `first` is the unix time at
    which any node was first seen.
    """

    nodes: int
    nodes_now: int
    present: int
    lived: int
    streaming: int
    deaf: int
    first: float
    kubelets: int | None
    unwatched: int | None
    kubelet_present: int | None
    kubelet_streaming: int | None
    unwatched_nodes: tuple[str, ...] = ()
    deafest: tuple[NodeListening, ...] = ()

    @property
    def gaps(self) -> int:
        """Node-slices without a scrape between the first and the last time a node was seen."""
        return max(0, self.lived - self.present)

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
            return self.kubelet_streaming / self.kubelet_present
        return self.streaming / self.lived if self.lived else 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """A number over time: (unix time, value); value is None if there was none."""

    name: str
    points: tuple[tuple[int, float | None], ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The complete result. `all` is the sum of the `groups`."""

    prometheus: str
    span: Span
    all: Group
    groups: tuple[Group, ...]
    worst: tuple[NodeLosses, ...]
    coverage: Coverage
    point: int
    missed_over_time: tuple[Line, ...]
    nodes_over_time: tuple[Line, ...]
    notes: tuple[str, ...]


def iso(at: float) -> str:
    """A unix time as RFC 3339, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
