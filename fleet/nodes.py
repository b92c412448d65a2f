"""The nodes that a report names: at most ten for each thing, the worst first."""

import math

from fleet.fleet import Group, NodeFlapping, NodeLosses, NodeMislisted
from fleet.prometheus import Prometheus, Series
from fleet.queries import RUNTIME_LABELS, Queries
from fleet.questions import Questions

Runtime = tuple[str, str, str]


def floored(judged: float) -> int:
    """Rounding down is the safe side: it makes the bound wider."""
    return math.floor(judged + 1e-6)


def runtime_of(series: Series) -> Runtime:
    """Name, version and stream."""
    name, version, stream = (series.label(label) for label in RUNTIME_LABELS)
    return name, version, stream


async def worst(prometheus: Prometheus, queries: Queries) -> tuple[NodeLosses, ...]:
    """The nodes that lost most."""
    found = await prometheus.vector(queries.worst(), queries.span.end)
    if not found:
        return ()
    names = tuple(sorted({each.label(queries.labels[-1]) for each in found}))
    judged = {
        node_name(each, queries): floored(each.value)
        for each in await prometheus.vector(queries.judged_on(names), queries.span.end)
    }
    losses = [
        NodeLosses(name, runtime_label(each), round(each.value), judged.get(name, 0))
        for name, each in ((node_name(each, queries), each) for each in found)
    ]
    return tuple(sorted(losses, key=lambda each: (-each.lost, each.node)))


async def flappers(prometheus: Prometheus, queries: Queries) -> tuple[NodeFlapping, ...]:
    """The nodes whose streams ended most often."""
    found = [
        NodeFlapping(node_name(each, queries), runtime_label(each), round(each.value))
        for each in await prometheus.vector(queries.flappers(), queries.span.end)
    ]
    return tuple(sorted(found, key=lambda each: (-each.disconnects, each.node)))


async def mislisted(prometheus: Prometheus, queries: Questions) -> tuple[NodeMislisted, ...]:
    """The nodes with most ghosts and strays."""
    found = [
        NodeMislisted(
            node_name(each, queries), runtime_label(each), each.label("what"), round(each.value)
        )
        for each in await prometheus.vector(queries.mislisted(), queries.span.end)
    ]
    return tuple(sorted(found, key=lambda each: (each.what, -each.number, each.node)))


def node_name(series: Series, queries: Queries) -> str:
    """A node by its labels."""
    return "/".join(filter(None, map(series.label, queries.labels))) or "(unnamed)"


def runtime_label(series: Series) -> str:
    """Its runtime in words."""
    return Group(*runtime_of(series), nodes=1).label
