"""The figures of a fleet over a period, and what its kubelets make of what goes wrong.

Kubelets are counted by version; an empty count means that none is known.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from exporter.model.findings import Cause
from exporter.runtimes.known import KNOWN_ISSUES
from exporter.runtimes.kubelets import GENERATIONS, LAST_TRUSTING, Generation, generation_of
from exporter.runtimes.runtime import KnownIssue
from fleet import bound
from fleet.request import Span
from promql.series import EXIT

# Names of runtimes where a node's is not known, or not the same all the time.
UNKNOWN: Final = "unknown"
SEVERAL: Final = "several"
# Between two relists of a kubelet whose gate is off.
RELIST_SECONDS: Final = 1.0
# Reasons to look at a node that have a number; others have a share of the time.
NUMBERS: Final = ("lost", "ends", "unwatched")
# Numbers by cause and event.
Counts = Counter[tuple[str, str]]
Statuses = dict[tuple[str, str], defaultdict[str, Counter[Any]]]
# As which one of those that are not known is judged: the newest that trusts events.
_STRANGER: Final = f"v{LAST_TRUSTING}.0"
_TRUSTED: Final = (
    "events replace relists, so what is lost or held back goes unnoticed for up to {:g} s"
)
_HINT: Final = "it relists in any case, and notices within {:g} s, so that does not decide"


def is_unknown(versions: Counter[str]) -> bool:
    """Whether one of them is not known."""
    return not versions or None in map(generation_of, versions)


def _generations(versions: Counter[str]) -> list[Generation]:
    """Those that they may be: any, where one is not known."""
    found = set(map(generation_of, versions))
    return [each for each in GENERATIONS if each in found or is_unknown(versions)]


def decides(versions: Counter[str]) -> bool:
    """Whether more losses than the objective allows are a NO-GO: one of these kubelets trusts."""
    return any(each.trusts for each in _generations(versions))


def pause(versions: Counter[str]) -> float:
    """The longest time between two relists of these kubelets, in seconds."""
    return max(each.relist_seconds for each in _generations(versions))


def why(versions: Counter[str]) -> str:
    """Whose kubelet decides that, and why."""
    trusting = decides(versions)
    said = (_TRUSTED if trusting else _HINT).format(pause(versions))
    if is_unknown(versions):
        judged = f"kubelet of unknown version: judged as up to {LAST_TRUSTING}, where {said}"
        return f"{judged} (name it with --kubelet-version)"
    names = ", ".join(each.name for each in _generations(versions) if each.trusts == trusting)
    return f"kubelet {names}: {said}"


@dataclass(frozen=True, slots=True)
class Losses:
    """What became of some transitions, by the names of the JSON.

    `judged`: those whose loss would have been counted, the `n` of the statistics; `lost`: its `k`,
    what the runtime provably lost (silently) or the open stream did not deliver. `undecided`: what
    may not have been owed, and counts in the upper bound only. Bounds are of 95 %.
    """

    transitions: int
    judged: int
    lost: int
    lost_silently: int
    undelivered: int
    undecided: int
    # None if nothing was judged.
    loss_ratio: float | None
    loss_upper_bound: float
    loss_lower_bound: float


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


@dataclass(frozen=True)
class Group:
    """Nodes that run the same version of a runtime, or all of them."""

    name: str
    version: str
    stream: str
    nodes: int
    # Transitions that relist or kernel proved, by event.
    witnessed: Counter[str] = field(default_factory=Counter)
    # Of exits and of all else (""): those whose loss would have been counted.
    judged: Counter[str] = field(default_factory=Counter)
    missed: Counts = field(default_factory=Counter)
    late: Counts = field(default_factory=Counter)
    # Numbers by the names of Queries.counts.
    counts: Counter[str] = field(default_factory=Counter)
    # By condition: nodes on which it held, those of them with the gate on, shares of their time.
    held: Counter[str] = field(default_factory=Counter)
    gated: Counter[str] = field(default_factory=Counter)
    lasted: Counter[str] = field(default_factory=Counter)
    # Exits by the seconds within which.
    announced: Counter[float] = field(default_factory=Counter)
    listed: Counter[float] = field(default_factory=Counter)
    # Nodes by the kubelet's version.
    kubelets: Counter[str] = field(default_factory=Counter)
    # Node-slices in which subscriptions were up.
    listened: float = 0.0
    # Within how many seconds kubelets that relist every second show half of the exits.
    polled: float = RELIST_SECONDS

    @property
    def label(self) -> str:
        """The runtime in words."""
        if self.name == SEVERAL:
            return "changed in the window"
        return "unknown runtime" if self.name == UNKNOWN else f"{self.name} {self.version}".strip()

    @property
    def issues(self) -> dict[KnownIssue, int]:
        """What is known to be broken here, and on how many nodes; in the table's order."""
        found = Counter[KnownIssue]()
        for kubelet, number in (self.kubelets or {_STRANGER: self.nodes}).items():
            judged = kubelet if generation_of(kubelet) else _STRANGER
            rows = (row for row in KNOWN_ISSUES if row.covers(self.name, self.version, judged))
            found.update(dict.fromkeys(rows, number))
        return {
            row: found[row] if row.of_gate else self.nodes for row in KNOWN_ISSUES if found[row]
        }

    def share_of(self, condition: str) -> float:
        """For what share of the time it held, of the nodes on which it did."""
        return min(1.0, self.lasted[condition] / self.held[condition])

    def of(self, cause: Cause) -> int:
        """Misses of one cause."""
        return sum(number for (of, _), number in self.missed.items() if of == cause.value)

    def lost(self, cause: Cause, chosen: Callable[[str], bool] = lambda _: True) -> int:
        """Missed minus late of one cause: what never came; of chosen events, or of all."""
        # Counter's difference keeps what is above 0.
        never = (self.missed - self.late).items()
        return sum(n for (of, event), n in never if of == cause.value and chosen(event))

    @property
    def final_loss(self) -> int:
        """What never came, for any cause; without what is never announced by design."""
        return sum(self.lost(cause) for cause in Cause if cause is not Cause.BY_DESIGN)

    @cached_property
    def exits(self) -> Losses:
        """What every kubelet acts on."""
        return self._losses(EXIT.__eq__, self.counts["undecided"])

    @cached_property
    def others(self) -> Losses:
        """All events but the exits."""
        return self._losses(EXIT.__ne__)

    @cached_property
    def every(self) -> Losses:
        """All events together."""
        return self._losses(lambda _: True, self.counts["undecided"])

    def _losses(self, chosen: Callable[[str], bool], undecided: int = 0) -> Losses:
        seen, judged = (
            sum(number for event, number in of.items() if chosen(event))
            for of in (self.witnessed, self.judged)
        )
        silent, stalled = (self.lost(each, chosen) for each in (Cause.SILENT, Cause.STALLED))
        lost, doubtful = silent + stalled, silent + stalled + undecided
        # Never fewer than were lost.
        judged = max(judged, doubtful)
        ratio = lost / judged if judged else None
        bounds = bound.upper(doubtful, judged), bound.lower(lost, judged)
        return Losses(seen, judged, lost, silent, stalled, undecided, ratio, *bounds)


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
    """Which nodes were watched, and for how long."""

    nodes: int
    nodes_now: int
    # Slices in which as many nodes streamed at once as a verdict needs.
    together: int
    # Share of the nodes' time during which the subscriptions were up.
    listening: float
    # Unix time at which any node was first seen.
    first: float
    # Nodes with a kubelet, and those of them that were never seen; None if Prometheus knows none.
    kubelets: int | None = None
    unwatched: int | None = None

    @property
    def watched(self) -> float | None:
        """Share of the nodes with a kubelet that were seen; None if unknown."""
        if not self.kubelets or self.unwatched is None:
            return None
        return 1 - self.unwatched / self.kubelets


@dataclass(frozen=True, slots=True)
class Fleet:
    """The complete result."""

    prometheus: str
    span: Span
    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    coverage: Coverage
    notes: tuple[str, ...] = ()
    # Whether it was read from recording rules.
    recorded: bool = False
    # Nodes by the kubelet's version, at the end of the window.
    kubelets: Counter[str] = field(default_factory=Counter)
    # Relists of a node's kubelet in the window, and their seconds; None if not known.
    polling: tuple[float, float] | None = None
    # How late kubelets showed exits, and how wrongly: by their version and gate, and the names of
    # what was asked, exits by the seconds within which, or contradictions by kind.
    statuses: Statuses = field(default_factory=dict)

    @property
    def all(self) -> Group:
        """The sum of the groups."""
        return summed(self.groups)

    @property
    def issues(self) -> dict[KnownIssue, dict[str, int]]:
        """What is known to be broken here, in the table's order: on how many nodes, by runtime."""
        by_label = {each.label: each.issues for each in self.groups}
        found = {
            row: {label: nodes[row] for label, nodes in by_label.items() if row in nodes}
            for row in KNOWN_ISSUES
        }
        return {row: nodes for row, nodes in found.items() if nodes}


def iso(at: float) -> str:
    """A unix time as RFC 3339, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
