"""Queries Prometheus, one query after another, and aggregates the answers."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Final

from fleet.choosing import by_what, chosen
from fleet.delays import Delays
from fleet.fleet import (
    Counts,
    Coverage,
    Fleet,
    Group,
    Kubelets,
    Line,
    NodeListening,
    summed,
)
from fleet.nodes import (
    Runtime,
    flappers,
    floored,
    mislisted,
    node_name,
    runtime_label,
    runtime_of,
    worst,
)
from fleet.options import Request, Span
from fleet.prometheus import Prometheus, Series
from fleet.queries import (
    EXIT,
    EXITS,
    OTHERS,
    SEVERAL,
    UNKNOWN,
    Queries,
)
from fleet.questions import Questions
from fleet.sources import RECORDED, Metric

_LAST: Final = (SEVERAL, UNKNOWN)


async def gather(prometheus: Prometheus, request: Request) -> Fleet:
    """All data for a report; PrometheusError if there is nothing to report on."""
    queries, notes = await chosen(prometheus, request)
    kubelets, versions = await _kubelets(prometheus, queries)
    coverage, streaming = await _coverage(prometheus, queries)
    if version := request.kubelet_version:
        kubelets = replace(kubelets, versions=Counter({version: coverage.nodes}))
        versions = defaultdict(lambda: kubelets.versions)
        notes = [*notes, f"judged for kubelets {version}, whatever runs (--kubelet-version)"]
    step = queries.span.step
    groups = tuple(
        replace(each, kubelets=versions[runtime], listened=streaming[runtime] * step)
        for runtime, each in (await _groups(prometheus, queries)).items()
    )
    return Fleet(
        prometheus=prometheus.url,
        kubelets=kubelets,
        asked=queries.asked(),
        recorded=queries.source is RECORDED,
        span=queries.span,
        all=summed(groups),
        groups=groups,
        worst=await worst(prometheus, queries),
        flappers=await flappers(prometheus, queries),
        mislisted=await mislisted(prometheus, queries),
        coverage=coverage,
        point=queries.point,
        missed_over_time=await _lines(prometheus, queries, queries.missed_over_time(), "cause"),
        nodes_over_time=await _lines(prometheus, queries, queries.nodes_over_time(), "what"),
        age=await _age(prometheus, queries, coverage, request),
        notes=(*notes, *(f"Prometheus warns: {said}" for said in sorted(prometheus.warnings))),
    )


async def _age(
    prometheus: Prometheus, queries: Questions, coverage: Coverage, request: Request
) -> int | None:
    """Seconds since the first sight of any node, if none was there when the window began."""
    if coverage.first <= queries.span.start + queries.span.step:
        return None
    found = await prometheus.vector(queries.first_sight(), int(coverage.first))
    return round(request.at - found[0].value) if found else None


async def _groups(prometheus: Prometheus, queries: Questions) -> dict[Runtime, Group]:
    """By runtime; those with the most nodes first."""

    async def numbers(expr: str) -> dict[Runtime, float]:
        return {
            runtime_of(each): each.value for each in await prometheus.vector(expr, queries.span.end)
        }

    async def counts(expr: str) -> defaultdict[Runtime, Counts]:
        found: defaultdict[Runtime, Counts] = defaultdict(Counter)
        for each in await prometheus.vector(expr, queries.span.end):
            found[runtime_of(each)][each.label("cause"), each.label("event")] = round(each.value)
        return found

    async def by_event(expr: str) -> defaultdict[Runtime, Counter[str]]:
        found: defaultdict[Runtime, Counter[str]] = defaultdict(Counter)
        for each in await prometheus.vector(expr, queries.span.end):
            found[runtime_of(each)][each.label("event")] = round(each.value)
        return found

    nodes = await numbers(queries.nodes())
    witnessed = await by_event(queries.witnessed())
    exits, others = await numbers(queries.judged(EXITS)), await numbers(queries.judged(OTHERS))
    undecided, flapping = await numbers(queries.undecided()), await numbers(queries.flapping())
    missed, late = await counts(queries.missed()), await counts(queries.late())
    gaps, incidents = await counts(queries.gaps()), await _incidents(prometheus, queries)
    announced = await _delays(prometheus, queries, queries.source.exit_to_event)
    listed = await _delays(prometheus, queries, queries.source.exit_to_list)
    groups = {
        runtime: Group(
            *runtime,
            nodes=round(number),
            witnessed=witnessed[runtime],
            judged=Counter(
                {EXIT: floored(exits.get(runtime, 0)), "": floored(others.get(runtime, 0))}
            ),
            missed=missed[runtime],
            late=late[runtime],
            gaps=gaps[runtime],
            undecided=round(undecided.get(runtime, 0)),
            flapping=round(flapping.get(runtime, 0)),
            incidents=incidents[runtime],
            announced=announced[runtime],
            listed=listed[runtime],
        )
        for runtime, number in nodes.items()
    }
    return dict(
        sorted(
            groups.items(),
            key=lambda each: (each[1].name in _LAST, -each[1].nodes, *each[0][:2]),
        )
    )


async def _incidents(
    prometheus: Prometheus, queries: Questions
) -> defaultdict[Runtime, Counter[str]]:
    found: defaultdict[Runtime, Counter[str]] = defaultdict(Counter)
    for each in await prometheus.vector(queries.incidents(), queries.span.end):
        found[runtime_of(each)][each.label("what")] = round(each.value)
    return found


async def _delays(
    prometheus: Prometheus, queries: Questions, metric: Metric
) -> defaultdict[Runtime, Delays]:
    found: defaultdict[Runtime, Delays] = defaultdict(Delays)
    for each in await prometheus.vector(queries.delays(metric), queries.span.end):
        if not math.isnan(edge := _seconds(each.label("le"))):
            found[runtime_of(each)].buckets[edge] = each.value
    return found


async def _kubelets(
    prometheus: Prometheus, queries: Questions
) -> tuple[Kubelets, defaultdict[Runtime, Counter[str]]]:
    """What is known of the kubelets, and their versions by runtime."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    versions: defaultdict[Runtime, Counter[str]] = defaultdict(Counter)
    for each in await prometheus.vector(queries.kubelets(), queries.span.end):
        version, number = each.label("git_version"), round(each.value)
        found[each.label("what")][version or each.label("state")] += number
        if version:
            versions[runtime_of(each)][version] += number
    missed, unusable = (
        found[what][""] if what in found else None for what in ("missed", "unusable")
    )
    return Kubelets(found["versions"], found["configurations"], missed, unusable), versions


async def _coverage(
    prometheus: Prometheus, queries: Queries
) -> tuple[Coverage, defaultdict[Runtime, float]]:
    """The coverage, and its node-slices with a stream by runtime."""
    answer = await prometheus.vector(queries.coverage(), queries.span.end)
    found, streaming = by_what(answer), defaultdict[Runtime, float](float)
    for each in answer:
        if each.label("what") == "streaming":
            streaming[runtime_of(each)] += each.value
    kubelets = round(found.get("kubelets", 0)) or None

    def number(name: str) -> int:
        return round(found.get(name, 0))

    def of_kubelets(name: str) -> int | None:
        return number(name) if kubelets else None

    unwatched: list[Series] = []
    if of_kubelets("unwatched"):
        unwatched = await prometheus.vector(queries.unwatched(), queries.span.end)
    deafest = [
        NodeListening(node_name(each, queries), runtime_label(each), each.value)
        for each in await prometheus.vector(queries.deafest(), queries.span.end)
    ]
    coverage = Coverage(
        nodes=number("seen"),
        nodes_now=number("now"),
        present=number("present"),
        lived=number("lived"),
        streaming=sum(streaming.values()),
        together=number("together"),
        deaf=found.get("deaf", 0.0),
        first=_within(queries.span, found.get("first", float(queries.span.start))),
        kubelets=kubelets,
        unwatched=of_kubelets("unwatched"),
        kubelet_present=of_kubelets("kubelet_present"),
        kubelet_streaming=found.get("kubelet_streaming", 0.0) if kubelets else None,
        unwatched_nodes=tuple(sorted(node_name(each, queries) for each in unwatched)),
        deafest=tuple(sorted(deafest, key=lambda each: (each.streaming, each.node))),
    )
    return coverage, streaming


def _seconds(edge: str) -> float:
    """A bucket's upper bound; NaN if it is none."""
    try:
        return float(edge)
    except ValueError:
        return math.nan


def _within(span: Span, at: float) -> float:
    return min(max(at, span.start), span.end)


async def _lines(
    prometheus: Prometheus, queries: Queries, expr: str, label: str
) -> tuple[Line, ...]:
    """Lines of the charts, one for each value of a label, with a point in each step."""
    span, step = queries.span, queries.point
    number = max(1, span.seconds // step)
    times = range(span.end - (number - 1) * step, span.end + 1, step)
    lines = []
    for each in await prometheus.matrix(expr, times):
        known = {round(at): value for at, value in each.points if math.isfinite(value)}
        lines.append(Line(each.label(label), tuple((at, known.get(at)) for at in times)))
    return tuple(sorted(lines, key=lambda line: line.name))
