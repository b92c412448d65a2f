"""Queries Prometheus, one query after another, and aggregates the answers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from exporter import metrics
from exporter.errors import ConfigError, PrometheusError
from exporter.pleg.events import Lifecycle
from exporter.pleg.findings import Cause
from exporter.report.fleet import (
    Count,
    Coverage,
    Fleet,
    Group,
    Line,
    NodeListening,
    NodeLosses,
    iso,
)
from exporter.report.options import Request
from exporter.report.prometheus import Prometheus, Sample, Series
from exporter.report.queries import RUNTIME_LABELS, SEVERAL, UNKNOWN, Queries

_NODE: Final = ("cluster", "node")
_INSTANCE: Final = ("instance",)
_EVENTS: Final = tuple(event.label for event in Lifecycle)
_CAUSES: Final = tuple(cause.value for cause in Cause)
_LAST: Final = (SEVERAL, UNKNOWN)


async def gather(prometheus: Prometheus, request: Request) -> Fleet:
    """All data for a report; PrometheusError if there is nothing to report on."""
    queries, notes = await _chosen(prometheus, request)
    span = queries.span
    groups = await _groups(prometheus, queries)
    coverage = await _coverage(prometheus, queries)
    worst = await _worst(prometheus, queries)
    missed = await prometheus.matrix(queries.missed_over_time(), span, queries.point)
    nodes = await prometheus.matrix(queries.nodes_over_time(), span, queries.point)
    return Fleet(
        prometheus=prometheus.url,
        span=span,
        node_labels=queries.labels,
        all=_sum(groups),
        groups=groups,
        worst=worst,
        coverage=coverage,
        point=queries.point,
        missed_over_time=_lines(missed, "cause", queries),
        nodes_over_time=_lines(nodes, "what", queries),
        notes=(*notes, *(f"Prometheus warns: {said}" for said in sorted(prometheus.warnings))),
    )


async def _chosen(prometheus: Prometheus, request: Request) -> tuple[Queries, list[str]]:
    """The labels that identify nodes here; notes if they are not as they should be."""
    labels, span = request.node_labels or _NODE, request.span
    queries = Queries(span, labels, request.selector, request.kubelet_selector)
    found = _by_what(await prometheus.vector(queries.processes(), span))
    number, named = round(found.get("all", 0)), round(found.get("named", 0))
    if not number:
        chosen = f" that {request.selector} selects" if request.selector else ""
        raise PrometheusError(
            f"{prometheus.url} has no {metrics.BUILD.name}_info{chosen} from {iso(span.start)} to"
            f" {iso(span.end)}: see whether it scrapes shadow-pleg, and --window and --selector"
        )
    if named == number:
        return queries, []
    if named:
        without = f"{number - named} of {number} targets have no label {labels[-1]}"
        return queries, [f"{without}: they count as one node"]
    if request.node_labels:
        raise ConfigError(
            f"--node-labels: no target of shadow-pleg has a label {labels[-1]}: name one that all"
            " have, or leave the flag out"
        )
    without = "no target has a label node, so instances stand for nodes"
    note = f"{without}: a node whose pod was replaced counts twice, and no kubelet is recognised"
    return Queries(span, _INSTANCE, request.selector, with_kubelets=False), [note]


async def _groups(prometheus: Prometheus, queries: Queries) -> tuple[Group, ...]:
    """By runtime; those with the most nodes first."""

    async def ask(expr: str) -> list[Sample]:
        return await prometheus.vector(expr, queries.span)

    nodes = {_runtime(sample): sample.value for sample in await ask(queries.nodes())}
    witnessed = {_runtime(sample): sample.value for sample in await ask(queries.witnessed())}
    judged = {_runtime(sample): sample.value for sample in await ask(queries.judged())}
    missed = _counts(await ask(queries.missed()))
    late = _counts(await ask(queries.late()))
    gaps = _counts(await ask(queries.gaps()))
    groups = [
        Group(
            *runtime,
            nodes=round(number),
            witnessed=round(witnessed.get(runtime, 0)),
            # Rounding down is the safe side: it makes the bound wider.
            judged=math.floor(judged.get(runtime, 0) + 1e-6),
            missed=missed.get(runtime, ()),
            late=late.get(runtime, ()),
            gaps=gaps.get(runtime, ()),
        )
        for runtime, number in nodes.items()
    ]
    return tuple(
        sorted(groups, key=lambda each: (each.name in _LAST, -each.nodes, each.name, each.version))
    )


def _runtime(sample: Sample) -> tuple[str, str, str]:
    name, version, stream = (sample.label(label) for label in RUNTIME_LABELS)
    return name, version, stream


def _counts(samples: Iterable[Sample]) -> dict[tuple[str, str, str], tuple[Count, ...]]:
    found = defaultdict(list)
    for sample in samples:
        count = Count(sample.label("event"), round(sample.value), sample.label("cause"))
        found[_runtime(sample)].append(count)
    return {runtime: tuple(sorted(counts, key=_place)) for runtime, counts in found.items()}


def _place(count: Count) -> tuple[int, int, str, str]:
    """Sort key: causes and events in code order; unknown ones, of later versions, at the end."""
    event = _EVENTS.index(count.event) if count.event in _EVENTS else len(_EVENTS)
    cause = _CAUSES.index(count.cause) if count.cause in _CAUSES else len(_CAUSES)
    return cause, event, count.cause, count.event


def _sum(groups: tuple[Group, ...]) -> Group:
    def added(counts: Iterable[Count]) -> tuple[Count, ...]:
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for each in counts:
            sums[each.event, each.cause] += each.number
        found = [Count(event, number, cause) for (event, cause), number in sums.items()]
        return tuple(sorted(found, key=_place))

    return Group(
        "fleet",
        "",
        "",
        nodes=sum(each.nodes for each in groups),
        witnessed=sum(each.witnessed for each in groups),
        judged=sum(each.judged for each in groups),
        missed=added(count for each in groups for count in each.missed),
        late=added(count for each in groups for count in each.late),
        gaps=added(count for each in groups for count in each.gaps),
    )


async def _coverage(prometheus: Prometheus, queries: Queries) -> Coverage:
    found = _by_what(await prometheus.vector(queries.coverage(), queries.span))

    def number(name: str) -> int:
        return round(found.get(name, 0))

    kubelets = number("kubelets") or None

    def beside_kubelets(name: str) -> int | None:
        return number(name) if kubelets else None

    names: tuple[str, ...] = ()
    if beside_kubelets("unwatched"):
        unwatched = await prometheus.vector(queries.unwatched(), queries.span)
        names = tuple(sorted(_name(each, queries) for each in unwatched))
    deafest = await prometheus.vector(queries.deafest(), queries.span)
    return Coverage(
        nodes=number("seen"),
        nodes_now=number("now"),
        present=number("present"),
        lived=number("lived"),
        streaming=number("streaming"),
        deaf=number("deaf"),
        first=found.get("first", float(queries.span.end)),
        kubelets=kubelets,
        unwatched=beside_kubelets("unwatched"),
        kubelet_present=beside_kubelets("kubelet_present"),
        kubelet_streaming=beside_kubelets("kubelet_streaming"),
        unwatched_nodes=names,
        deafest=tuple(
            NodeListening(_name(each, queries), _words(each), each.value)
            for each in sorted(deafest, key=lambda each: (each.value, each.labels))
        ),
    )


async def _worst(prometheus: Prometheus, queries: Queries) -> tuple[NodeLosses, ...]:
    found = await prometheus.vector(queries.worst(), queries.span)
    if not found:
        return ()
    names = tuple(sorted({each.label(queries.labels[-1]) for each in found}))
    judged = {
        _name(each, queries): math.floor(each.value + 1e-6)
        for each in await prometheus.vector(queries.judged_on(names), queries.span)
    }
    losses = [
        NodeLosses(name, _words(each), round(each.value), judged.get(name, 0))
        for each in found
        for name in (_name(each, queries),)
    ]
    return tuple(sorted(losses, key=lambda each: (-each.silent, each.node)))


def _name(sample: Sample, queries: Queries) -> str:
    return "/".join(filter(None, map(sample.label, queries.labels))) or "(unnamed)"


def _words(sample: Sample) -> str:
    return Group(*_runtime(sample), nodes=1, witnessed=0, judged=0).label


def _by_what(samples: list[Sample]) -> dict[str, float]:
    return {sample.label("what"): sample.value for sample in samples}


def _lines(series: list[Series], label: str, queries: Queries) -> tuple[Line, ...]:
    number, point = max(1, queries.span.seconds // queries.point), queries.point
    times = range(queries.span.end - (number - 1) * point, queries.span.end + 1, point)
    lines = []
    for each in sorted(series, key=lambda one: one.label(label)):
        known = {round(at): value for at, value in each.points if math.isfinite(value)}
        lines.append(Line(each.label(label), tuple((at, known.get(at)) for at in times)))
    return tuple(lines)
