"""Queries Prometheus, one query after another, and aggregates the answers."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from operator import methodcaller
from typing import Any, Final, TypeVar

from exporter.errors import ConfigError, PrometheusError
from fleet.fleet import (
    NUMBERS,
    RELIST_SECONDS,
    Coverage,
    Fleet,
    Group,
    Node,
    Statuses,
    iso,
    quantile,
)
from fleet.prometheus import BadQueryError, Prometheus, Series
from fleet.queries import SEVERAL, UNKNOWN, Queries
from fleet.request import LONG, Request, Span
from promql import series

Runtime = tuple[str, str, str]
K = TypeVar("K")

# Rules that keep fewer of the scraped targets than this do not cover the window.
_RECORDED_ENOUGH: Final = 0.9
_LAST: Final = (SEVERAL, UNKNOWN)
_WHAT: Final = ("lost", "ends", *series.REPORTED, "listened", "unwatched")


async def gather(prometheus: Prometheus, request: Request) -> Fleet:
    """All data for a report; PrometheusError if there is nothing to report on."""
    with _blamed("--selector", request.selector):
        queries, notes = await _chosen(prometheus, request)
    with _blamed("--kubelet-selector", request.kubelet_selector):
        answers = defaultdict[str, list[Series]](list)
        for name, expr in queries.asked().items():
            answers[name] = await prometheus.vector(expr, queries.span.end)
    coverage, listened = _coverage(answers["coverage"], queries.span)
    took, kubelets = _by_what(answers["versions"]), _kubelets(answers["versions"])
    versions = sum(kubelets.values(), Counter[str]())
    if version := request.kubelet_version:
        versions = Counter({version: coverage.nodes})
        kubelets = defaultdict(lambda: versions)
        notes.append(f"judged for kubelets {version}, whatever runs (--kubelet-version)")
    statuses = _statuses(answers["statuses"])
    polled, relists, seconds = _polled(statuses), *map(took.get, ("relists", "seconds"))
    groups = [
        replace(each, kubelets=kubelets[runtime], listened=listened[runtime], polled=polled)
        for runtime, each in _groups(answers).items()
    ]
    return Fleet(
        prometheus=prometheus.url,
        span=queries.span,
        groups=tuple(groups),
        nodes=_nodes(answers["named"], queries.labels),
        coverage=coverage,
        age=await _age(prometheus, queries, coverage, request),
        notes=(*notes, *(f"Prometheus warns: {said}" for said in sorted(prometheus.warnings))),
        recorded=queries.recorded,
        kubelets=versions,
        polling=None if relists is None or seconds is None else (relists, seconds),
        statuses=statuses,
    )


@contextmanager
def _blamed(flag: str, given: str) -> Iterator[None]:
    """A query that cannot be parsed is that flag's fault, if it is given."""
    try:
        yield
    except BadQueryError as error:
        if given:
            raise ConfigError(f"{flag}: {error}") from None
        raise


async def _chosen(prometheus: Prometheus, request: Request) -> tuple[Queries, list[str]]:
    """The queries, and notes if labels are not as they should be."""
    labels, span = request.node_labels or ("cluster", "node"), request.span
    queries = Queries(span, labels, request.selector, request.kubelet_selector, request.min_nodes)
    queries = replace(queries, recorded=await _is_recorded(prometheus, queries))
    found = _by_what(await prometheus.vector(queries.query("processes"), span.end))
    if not found.get("all"):
        await _require_fresh(prometheus, queries, request)
        queries = replace(queries, span=request.latest, recorded=False)
        found = _by_what(await prometheus.vector(queries.query("processes"), queries.span.end))
    number, named = round(found.get("all", 0)), round(found.get("named", 0))
    if not number:
        raise PrometheusError(
            "this installation is only a few minutes old: repeat this report in ten minutes"
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
    without = "no target has a label node, so instances are counted as nodes"
    note = f"{without}: a node whose pod was replaced counts twice, and no kubelet is recognised"
    return replace(queries, labels=("instance",), kubelet_selector="", with_kubelets=False), [note]


async def _require_fresh(prometheus: Prometheus, queries: Queries, request: Request) -> None:
    """PrometheusError unless processes are there that are younger than the window's last slice."""
    if _by_what(await prometheus.vector(queries.query("processes"), int(request.at))).get("all"):
        return
    chosen = f" that {request.selector} selects" if request.selector else ""
    raise PrometheusError(
        f"{prometheus.url} has no {series.PRESENT}{chosen} from {iso(queries.span.start)} to"
        f" {iso(request.at)}: check that it scrapes shadow-pleg, and check --window and --selector"
    )


async def _is_recorded(prometheus: Prometheus, queries: Queries) -> bool:
    """Whether a long window is recorded, and all of it."""
    span, selectors = queries.span, (queries.selector, queries.kubelet_selector)
    if span.seconds <= LONG or not series.kept_have(queries.labels, *selectors):
        return False
    found = Counter(_by_what(await prometheus.vector(queries.query("both"), span.end)))
    enough = (
        found[f"recorded_{end}"] >= _RECORDED_ENOUGH * found[f"scraped_{end}"]
        for end in ("first", "last")
    )
    return all(enough) and bool(found["recorded_last"])


async def _age(
    prometheus: Prometheus, queries: Queries, coverage: Coverage, request: Request
) -> int | None:
    """Seconds since the first sight of any node, if none was there when the window began."""
    if coverage.first <= queries.span.start + queries.span.step:
        return None
    found = await prometheus.vector(queries.query("first_sight"), int(coverage.first))
    return round(request.at - found[0].value) if found else None


def _groups(answers: Mapping[str, list[Series]]) -> dict[Runtime, Group]:
    """By runtime; those with the most nodes first."""
    event, what = methodcaller("label", "event"), methodcaller("label", "what")
    found: dict[str, dict[Runtime, Counter[Any]]] = {
        "witnessed": _by_runtime(answers[series.LIFECYCLE.name], event),
        "judged": defaultdict(Counter),
        "missed": _by_runtime(answers[series.MISSED.name], _cause_and_event),
        "late": _by_runtime(answers[series.LATE.name], _cause_and_event),
        "counts": _by_runtime(answers["counts"], what),
        "announced": _by_runtime(answers[series.EXIT_TO_EVENT.name], _edge),
        "listed": _by_runtime(answers[series.EXIT_TO_LIST.name], _edge),
    }
    for name, how in (("held", round), ("gated", round), ("lasted", float)):
        these = [each for each in answers["conditions"] if each.label("what") == name]
        found[name] = _by_runtime(these, methodcaller("label", "condition"), how)
    for name, which in (("judged_exits", series.EXIT), ("judged_others", "")):
        for each in answers[name]:
            # Rounding down is the safe side: it makes the bound wider.
            found["judged"][_runtime(each)][which] = math.floor(each.value + 1e-6)
    groups = {}
    for each in answers["nodes"]:
        runtime = _runtime(each)
        figures: dict[str, Any] = {name: of[runtime] for name, of in found.items()}
        groups[runtime] = Group(*runtime, round(each.value), **figures)
    return dict(sorted(groups.items(), key=lambda it: (it[0][0] in _LAST, -it[1].nodes, *it[0])))


def _by_runtime(
    answer: list[Series], key: Callable[[Series], K], how: Callable[[float], Any] = round
) -> dict[Runtime, Counter[K]]:
    found: dict[Runtime, Counter[K]] = defaultdict(Counter)
    for each in answer:
        found[_runtime(each)][key(each)] = how(each.value)
    return found


def _nodes(answer: list[Series], labels: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes to look at: by reason, the worst first."""
    found = []
    for each in answer:
        if (what := each.label("what")) in _WHAT:
            name = "/".join(filter(None, map(each.label, labels))) or "(unnamed)"
            number = round(each.value) if what in NUMBERS else min(1.0, each.value)
            found.append(Node(name, Group(*_runtime(each), nodes=1).label, what, number))
    worst = {"listened": 1}
    found.sort(key=lambda it: (_WHAT.index(it.what), worst.get(it.what, -1) * it.number, it.node))
    return tuple(found)


def _kubelets(answer: list[Series]) -> defaultdict[Runtime, Counter[str]]:
    """Nodes by the kubelet's version, by runtime."""
    versions: defaultdict[Runtime, Counter[str]] = defaultdict(Counter)
    for each in answer:
        if version := each.label("git_version"):
            versions[_runtime(each)][version] += round(each.value)
    return versions


def _statuses(answer: list[Series]) -> tuple[Statuses, ...]:
    """By the kubelet's version and gate; of those that showed any exit, or one wrongly."""
    found: defaultdict[tuple[str, str], defaultdict[str, Counter[Any]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for each in answer:
        kubelet, what = (each.label("git_version"), each.label("gate")), each.label("what")
        key = each.label("kind") if what == series.CONTRADICTED.name else _edge(each)
        found[kubelet][what][key] = round(each.value)
    asked = series.EXIT_TO_STATUS, series.EXIT_TO_EVENT, series.EVENT_TO_STATUS, series.CONTRADICTED
    every = (
        Statuses(*kubelet, *(of[each.name] for each in asked))
        for kubelet, of in sorted(found.items())
    )
    return tuple(each for each in every if each.shown[math.inf] or each.contradicted.total())


def _polled(statuses: tuple[Statuses, ...]) -> float:
    """Within how many seconds kubelets without the gate show half of the exits, by what is known.

    Lists wait for the runtime's clean-up, too: where they do, a relist is not the end of it.
    """
    polled = Counter[float]()
    for each in statuses:
        if each.gate == "off":
            polled.update(each.shown)
    return max(RELIST_SECONDS, quantile(polled, 0.5) or 0.0)


def _coverage(answer: list[Series], span: Span) -> tuple[Coverage, defaultdict[Runtime, float]]:
    """The coverage, and its node-slices with a stream by runtime.

    What was listened to is relative to the time of the nodes' kubelets or, if none are known, to
    the time between the first and the last sight of each node.
    """
    found, listened = Counter(_by_what(answer)), defaultdict[Runtime, float](float)
    for each in answer:
        if each.label("what") == "streaming":
            listened[_runtime(each)] += each.value
    number = {name: round(value) for name, value in found.items()}
    kubelets = number.get("kubelets") or None
    heard, of = sum(listened.values()), float(number.get("lived", 0))
    if kubelets and number.get("kubelet_present"):
        heard, of = found["kubelet_streaming"], number["kubelet_present"]
    coverage = Coverage(
        nodes=number.get("seen", 0),
        nodes_now=number.get("now", 0),
        together=number.get("together", 0),
        listening=min(1.0, heard / of) if of else 0.0,
        first=min(max(found["first"], span.start), span.end),
        kubelets=kubelets,
        unwatched=number.get("unwatched", 0) if kubelets else None,
    )
    return coverage, listened


def _by_what(found: list[Series]) -> dict[str, float]:
    """Several numbers of one answer."""
    return {each.label("what"): each.value for each in found}


def _runtime(one: Series) -> Runtime:
    name, version, stream = map(one.label, series.RUNTIME_LABELS)
    return name, version, stream


def _cause_and_event(one: Series) -> tuple[str, str]:
    return one.label("cause"), one.label("event")


def _edge(one: Series) -> float:
    """A bucket's upper bound; 0, below which no exit is, if it is none."""
    try:
        edge = float(one.label("le"))
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(edge) else edge
