"""A fleet as Prometheus scrapes it: nodes of one cluster or more, and what happens to them when."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.support.alert_node import CLUSTER, ENOUGH
from tests.support.node_operations import Node
from tests.support.scraped import Target

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
        """All that is scraped, or was."""
        return [target for node in self.nodes.values() for target in node.targets]

    def apply(self, when: Timeline, since: float = 0) -> None:
        """Let it happen; minutes count from `since`."""
        for minute, changes in when.items():
            for names, what in changes.items():
                name, arguments, labels = _call(what)
                for it in self._named(names):
                    getattr(it, name)(since + minute, *arguments, **labels)

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
        """What promtool reads of these minutes."""
        for node in self.nodes.values():
            for target in node.targets:
                yield from target.notation(node.cluster, self.grid, begin * 60, end * 60)


def _call(what: str | list[Any]) -> tuple[str, list[Any], dict[str, str]]:
    call: list[Any] = [what] if isinstance(what, str) else what
    labels: dict[str, str] = call[-1] if isinstance(call[-1], dict) else {}
    return call[0], call[1 : len(call) - bool(labels)], labels


def spots(slots: int, cluster: str) -> list[Node]:
    """So many nodes at a time that live for 20 minutes each, and are replaced by others."""
    return [_spot(number, slots, cluster) for number in range(slots * SPOT_LIVES)]


def _spot(number: int, slots: int, cluster: str) -> Node:
    it = Node(f"spot{number}", cluster=cluster)
    born = SPOT_MINUTES * (number / slots - 1)
    for target in it.targets:
        target.vanish(0)
    it.join(max(born, 0.5))
    for target in it.targets:
        target.vanish(born + SPOT_MINUTES)
    return it


def fleet(
    kind: str = "containerd",
    others: int = 0,
    *,
    evented: bool = False,
    cluster: str = CLUSTER,
    whole: bool = False,
) -> Fleet:
    """Node `a`, to which things happen; of `b` and of others (`n1` ...) what a cluster needs."""
    names = ("b", *(f"n{number}" for number in range(1, others + 1)))
    rest = [Node(name, cluster=cluster) for name in names]
    for node in rest:
        node.exporter.without(*({metric for metric, _ in node.exporter.series} - ENOUGH))
    it = Fleet(Node("a", kind, cluster, whole=whole), *rest)
    for node in it.nodes.values() if evented else ():
        node.gate_on()
    return it
