"""The figures of a fleet over a period, from which a report is made."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from exporter.pleg.findings import Cause
from exporter.pleg.known_issues import KNOWN_ISSUES, KnownIssue
from fleet.delays import Delays, together
from fleet.kubelets import issues
from fleet.losses import Losses
from fleet.options import Span
from fleet.queries import EXIT, SEVERAL, UNKNOWN

# Numbers by cause and event; the cause is empty where it does not apply.
Counts = Counter[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Kubelets:
    """Nodes by the kubelet's version and by configuration, at the end of the window.

    `missed`: events that this exporter received and the kubelet did not; `unusable`: STOPPED events
    that a kubelet cannot use. None: not measured.
    """

    versions: Counter[str] = field(default_factory=Counter)
    configurations: Counter[str] = field(default_factory=Counter)
    missed: int | None = None
    unusable: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that run the same version of a runtime, or all of them.

    `witnessed`, by event: transitions that the relist proved; `judged`, of exits and of all else:
    those whose loss would have been counted, so without misses with an excuse. `undecided`: exits
    whose announcement may not have been owed. `flapping`: nodes whose stream ended as often as
    makes a kubelet give it up.
    `incidents`: numbers by the names of Questions.incidents; `kernel` is that of nodes on which the
    kernel was a witness: elsewhere neither ghosts nor strays are counted. `announced`, `listed`:
    how long after exits. `kubelets`: nodes by the kubelet's version. `listened`: seconds in which
    subscriptions were up, of all nodes together.
    """

    name: str
    version: str
    stream: str
    nodes: int
    witnessed: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    missed: Counts = field(default_factory=Counter)
    late: Counts = field(default_factory=Counter)
    gaps: Counts = field(default_factory=Counter)
    undecided: int = 0
    flapping: int = 0
    incidents: Counter[str] = field(default_factory=Counter)
    announced: Delays = field(default_factory=Delays)
    listed: Delays = field(default_factory=Delays)
    kubelets: Counter[str] = field(default_factory=Counter)
    listened: float = 0.0

    @property
    def label(self) -> str:
        """The runtime in words."""
        if self.name == SEVERAL:
            return "changed in the window"
        return "unknown runtime" if self.name == UNKNOWN else f"{self.name} {self.version}".strip()

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
        return Losses(
            self.witnessed[EXIT],
            self.judged[EXIT],
            self.lost(Cause.SILENT, EXIT),
            self.lost(Cause.STALLED, EXIT),
            self.undecided,
        )

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
        return Losses(
            self.witnessed.total(),
            self.judged.total(),
            self.lost(Cause.SILENT),
            self.lost(Cause.STALLED),
            self.undecided,
        )


def summed(groups: Iterable[Group]) -> Group:
    """All of them as one."""
    every = tuple(groups)
    return Group(
        *("fleet", "", ""),
        nodes=sum(each.nodes for each in every),
        witnessed=sum((each.witnessed for each in every), Counter()),
        judged=sum((each.judged for each in every), Counter()),
        missed=sum((each.missed for each in every), Counter()),
        late=sum((each.late for each in every), Counter()),
        gaps=sum((each.gaps for each in every), Counter()),
        undecided=sum(each.undecided for each in every),
        flapping=sum(each.flapping for each in every),
        incidents=sum((each.incidents for each in every), Counter()),
        announced=together(each.announced for each in every),
        listed=together(each.listed for each in every),
        kubelets=sum((each.kubelets for each in every), Counter()),
        listened=sum(each.listened for each in every),
    )


@dataclass(frozen=True, slots=True)
class NodeLosses:
    """One of the nodes that lost most."""

    node: str
    runtime: str
    lost: int
    judged: int


@dataclass(frozen=True, slots=True)
class NodeListening:
    """A node that was not always subscribed; `streaming` is a share of the time it was seen."""

    node: str
    runtime: str
    streaming: float


@dataclass(frozen=True, slots=True)
class NodeFlapping:
    """A node whose stream ended as often as makes a kubelet give it up."""

    node: str
    runtime: str
    disconnects: int


@dataclass(frozen=True, slots=True)
class NodeMislisted:
    """A node whose runtime's lists were wrong; `what`: ghosts or strays."""

    node: str
    runtime: str
    what: str
    number: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which nodes were watched, and for how long; times are in node-slices.

    A node-slice is one node in one slice of the window; `streaming` and `deaf` have parts of them.
    `together`: slices in which as many nodes streamed at once as a verdict needs. `kubelets` and
    the fields after it are None if Prometheus knows no kubelet of these nodes. `first` is the unix
    time at which any node was first seen.
    """

    nodes: int
    nodes_now: int
    present: int
    lived: int
    streaming: float
    together: int
    deaf: float
    first: float
    kubelets: int | None
    unwatched: int | None
    kubelet_present: int | None
    kubelet_streaming: float | None
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
            return min(1.0, self.kubelet_streaming / self.kubelet_present)
        return min(1.0, self.streaming / self.lived) if self.lived else 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """A number over time: (unix time, value); value is None if there was none."""

    name: str
    points: tuple[tuple[int, float | None], ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The complete result. `all` is the sum of the `groups`; `recorded`: by recording rules.

    `asked`: PromQL by the name of what it answers. `age`: seconds since any node was first seen, if
    that was in the window.
    """

    prometheus: str
    span: Span
    all: Group
    groups: tuple[Group, ...]
    worst: tuple[NodeLosses, ...]
    flappers: tuple[NodeFlapping, ...]
    mislisted: tuple[NodeMislisted, ...]
    coverage: Coverage
    point: int
    missed_over_time: tuple[Line, ...]
    nodes_over_time: tuple[Line, ...]
    notes: tuple[str, ...]
    recorded: bool = False
    kubelets: Kubelets = field(default_factory=Kubelets)
    asked: tuple[tuple[str, str], ...] = ()
    age: int | None = None

    @property
    def issues(self) -> tuple[KnownIssue, ...]:
        """What is known to be broken with these runtimes and kubelets, in the table's order."""
        found = {
            row for each in self.groups for row in issues(each.name, each.version, each.kubelets)
        }
        return tuple(row for row in KNOWN_ISSUES if row in found)


def iso(at: float) -> str:
    """A unix time as RFC 3339, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
