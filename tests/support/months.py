"""Fleets as Prometheus scrapes them, and their months as data: see tests/README.md."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from alerts.entries import ALERTS
from alerts.render import fires_within
from alerts.values import load
from exporter.conditions.account import LOST
from exporter.model.findings import Cause
from tests.support.alert_node import CLUSTER, ENOUGH, LATE, LIFECYCLE, MISSED, Node
from tests.support.scraped import Target

MONTHS: Final = Path(__file__).parents[1] / "alerts" / "months.yaml"
WITHIN: Final = {alert.name: fires_within(alert, load()) for alert in ALERTS}
# Every so many seconds, and the first time after so many: not at 0, which means never.
SCRAPES: Final = ((15, 15), (30, 15), (60, 45), (30, 30), (60, 30), (60, 15))
# At each minute, what happens to whom: nodes ("a b"), those of a cluster or "all"; or a target of
# theirs ("a.kubelet", "all.targets"). The name of a method, or that with its arguments and labels.
Timeline = Mapping[float, Mapping[str, str | list[Any]]]


# Of nodes that are taken away again.
SPOT_MINUTES: Final = 20
SPOT_LIVES: Final = 5


class Fleet:
    """Nodes by name, scraped at times that are multiples of `grid` seconds."""

    def __init__(self, *nodes: Node, grid: int = 60) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.grid = grid

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    @property
    def targets(self) -> list[Target]:
        return [target for node in self.nodes.values() for target in node.targets]

    def apply(self, when: Timeline, since: float = 0) -> None:
        """Let it happen; minutes count from `since`."""
        for minute, changes in when.items():
            for names, what in changes.items():
                name, arguments, labels = _call(what)
                times, every = 1, 0.0
                if name == "again":
                    times, every, name, *arguments = arguments
                for it in self._named(names):
                    for number in range(times):
                        getattr(it, name)(since + minute + number * every, *arguments, **labels)

    def _named(self, names: str) -> Iterator[Node | Target]:
        for name in names.split():
            named, _, target = name.partition(".")
            of = [it for it in self.nodes.values() if named in (it.name, it.cluster, "all")]
            assert of, f"there is no {named}"
            for each in of:
                if target == "targets":
                    yield from each.targets
                else:
                    yield getattr(each, target) if target else each

    def notation(self, begin: float, end: float) -> Iterator[dict[str, str]]:
        for node in self.nodes.values():
            for target in node.targets:
                yield from target.notation(node.cluster, self.grid, begin * 60, end * 60)


def _call(what: str | list[Any]) -> tuple[str, list[Any], dict[str, str]]:
    call: list[Any] = [what] if isinstance(what, str) else what
    labels: dict[str, str] = call[-1] if isinstance(call[-1], dict) else {}
    return call[0], call[1 : len(call) - bool(labels)], labels


def spots(slots: int, cluster: str) -> list[Node]:
    """So many nodes at a time that live for 20 minutes each, and are replaced by others."""
    found = [Node(f"spot{number}", cluster=cluster) for number in range(slots * SPOT_LIVES)]
    for number, it in enumerate(found):
        born = SPOT_MINUTES * (number / slots - 1)
        for target in it.targets:
            target.vanish(0)
        it.join(max(born, 0.5))
        for target in it.targets:
            target.vanish(born + SPOT_MINUTES)
    return found


def fleet(
    others: int = 0, *, evented: bool = False, cluster: str = CLUSTER, whole: bool = False
) -> Fleet:
    """Node `a`, to which things happen; of `b` and of others (`n1` ...) what a cluster needs."""
    names = ("b", *(f"n{number}" for number in range(1, others + 1)))
    rest = [Node(name, cluster=cluster) for name in names]
    for node in rest:
        node.exporter.without(*({metric for metric, _ in node.exporter.series} - ENOUGH))
        node.exporter.without(*(f"{MISSED} {cause.value}" for cause in Cause if cause not in LOST))
    it = Fleet(Node("a", cluster=cluster, whole=whole), *rest)
    for node in it.nodes.values() if evented else ():
        node.gate_on()
    return it


class Day(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is done on a day; nothing changes in the hours that are left out."""

    story: str
    when: Timeline
    minutes: int = 30


class QuietMonth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clusters with their nodes by kind, and the days."""

    fleets: dict[str, dict[str, str]]
    days: list[Day]

    @property
    def begins(self) -> list[int]:
        """The minute at which each day begins, and that at which the last one ends."""
        return list(itertools.accumulate((day.minutes for day in self.days), initial=0))

    def fleet(self) -> Fleet:
        """All clusters, after all of it. Nodes differ in how often they are scraped, and when."""
        named = [
            (name, kind, cluster)
            for cluster, kinds in self.fleets.items()
            for kind, names in kinds.items()
            for name in names.split()
        ]
        scrapes = itertools.cycle(SCRAPES)
        it = Fleet(*(Node(*each, next(scrapes)) for each in named), grid=15)
        for day, since in zip(self.days, self.begins, strict=False):
            it.apply(day.when, since)
        return it


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What happens to node `a` of a small fleet."""

    when: Timeline
    others: int = 0
    spots: int = 0
    evented: bool = False
    named: bool = True

    def fleet(self, name: str) -> Fleet:
        cluster = name if self.named else ""
        it = fleet(self.others, evented=self.evented, cluster=cluster)
        it.nodes |= {node.name: node for node in spots(self.spots, cluster)}
        it.apply(self.when)
        if not self.evented and "gate_on" not in str(self.when):
            # Only the budget of kubelets that rely on events reads these.
            for node in it.nodes.values():
                node.exporter.without(LIFECYCLE, MISSED, LATE)
        return it


class CloseCall(Case, frozen=True, kw_only=True):
    """What no alert may fire for, and the alert to which it comes close."""

    near: str


class Incident(Case, frozen=True, kw_only=True):
    """What goes wrong, and the alert that fires for it."""

    alert: str
    severity: str = "warning"
    says: str = ""
    node: str = "a"
    problem: str = ""
    since: int = 0
    although: frozenset[str] = frozenset({"restarted", "unscraped"})

    @property
    def began(self) -> int:
        """The minute in which it goes wrong; what is there from minute 0 is how the fleet is."""
        return self.since or min((int(minute) for minute in self.when if minute), default=0)

    @property
    def fires_by(self) -> int:
        """The minute by which the alert fires; that for many nodes, after those of each node."""
        problem = WITHIN[self.problem] if self.problem else 0
        return self.began + WITHIN[self.alert] + problem


class Months(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    incidents: dict[str, Incident]
    close_calls: dict[str, CloseCall]
    quiet: QuietMonth


def months() -> Months:
    return msgspec.yaml.decode(MONTHS.read_bytes(), type=Months)
