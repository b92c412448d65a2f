"""Queries Prometheus, one query after another, and aggregates the answers."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeVar

from exporter.errors import ConfigError, PrometheusError
from fleet.fleet import (
    NUMBERS,
    RELIST_SECONDS,
    Coverage,
    Fleet,
    Group,
    Kubelets,
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
        answers = {
            name: await prometheus.vector(expr, queries.span.end)
            for name, expr in queries.asked().items()
        }
    kubelets, versions = _kubelets(answers.get("kubelets", []))
    coverage, streaming = _coverage(answers["coverage"], queries.span)
    if version := request.kubelet_version:
        kubelets = replace(kubelets, versions=Counter({version: coverage.nodes}))
        versions = defaultdict(lambda: kubelets.versions)
        notes.append(f"judged for kubelets {version}, whatever runs (--kubelet-version)")
    statuses = _statuses(answers.get("statuses", []))
    groups = [
        replace(
            each, kubelets=versions[runtime], listened=streaming[runtime], polled=_polled(statuses)
        )
        for runtime, each in _groups(answers).items()
    ]
    age = await _age(prometheus, queries, coverage, request)
    return Fleet(
        prometheus=prometheus.url,
        span=queries.span,
        groups=tuple(groups),
        nodes=_nodes(answers["named"], queries.labels),
        coverage=coverage,
        notes=(*notes, *(f"Prometheus warns: {said}" for said in sorted(prometheus.warnings))),
        recorded=queries.recorded,
        kubelets=kubelets,
        statuses=statuses,
        age=age,
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
    found = _by_what(await prometheus.vector(queries.processes(), span.end))
    if not found.get("all"):
        await _require_fresh(prometheus, queries, request)
        queries = replace(queries, span=request.latest, recorded=False)
        found = _by_what(await prometheus.vector(queries.processes(), queries.span.end))
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
    if _by_what(await prometheus.vector(queries.processes(), int(request.at))).get("all"):
        return
    span, chosen = queries.span, f" that {request.selector} selects" if request.selector else ""
    raise PrometheusError(
        f"{prometheus.url} has no {series.PRESENT}{chosen} from {iso(span.start)} to"
        f" {iso(request.at)}: check that it scrapes shadow-pleg, and check --window and --selector"
    )


async def _is_recorded(prometheus: Prometheus, queries: Queries) -> bool:
    """Whether a long window is recorded, and all of it."""
    span, selectors = queries.span, (queries.selector, queries.kubelet_selector)
    if span.seconds <= LONG or not series.kept_have(queries.labels, *selectors):
        return False
    found = _by_what(await prometheus.vector(queries.both(), span.end))
    at_both_ends = all(
        found.get(f"recorded_{end}", 0) >= _RECORDED_ENOUGH * found.get(f"scraped_{end}", 0)
        for end in ("first", "last")
    )
    return at_both_ends and bool(found.get("recorded_last"))


async def _age(
    prometheus: Prometheus, queries: Queries, coverage: Coverage, request: Request
) -> int | None:
    """Seconds since the first sight of any node, if none was there when the window began."""
    if coverage.first <= queries.span.start + queries.span.step:
        return None
    found = await prometheus.vector(queries.first_sight(), int(coverage.first))
    return round(request.at - found[0].value) if found else None


def _groups(answers: Mapping[str, list[Series]]) -> dict[Runtime, Group]:
    """By runtime; those with the most nodes first."""
    nodes, exits, others = (
        {_runtime(each): each.value for each in answers[name]}
        for name in ("nodes", "judged_exits", "judged_others")
    )
    witnessed = _by_runtime(answers[series.LIFECYCLE.name], lambda each: each.label("event"))
    missed, late = (
        _by_runtime(answers[kept.name], lambda each: (each.label("cause"), each.label("event")))
        for kept in (series.MISSED, series.LATE)
    )
    counts = _by_runtime(answers["counts"], lambda each: each.label("what"))
    held, gated, lasted = (
        _of_conditions(answers["conditions"], what) for what in ("held", "gated", "lasted")
    )
    announced, listed = (
        _by_runtime(answers[kept.name], _edge)
        for kept in (series.EXIT_TO_EVENT, series.EXIT_TO_LIST)
    )
    groups = {
        runtime: Group(
            *runtime,
            nodes=round(number),
            witnessed=witnessed[runtime],
            judged=Counter(
                {series.EXIT: _floored(exits.get(runtime, 0)), "": _floored(others.get(runtime, 0))}
            ),
            missed=missed[runtime],
            late=late[runtime],
            counts=counts[runtime],
            held=held[runtime],
            gated=gated[runtime],
            lasted=lasted[runtime],
            announced=announced[runtime],
            listed=listed[runtime],
        )
        for runtime, number in nodes.items()
    }
    return dict(
        sorted(
            groups.items(),
            key=lambda it: (it[1].name in _LAST, -it[1].nodes, it[1].name, it[1].version),
        )
    )


def _by_runtime(answer: list[Series], key: Callable[[Series], K]) -> dict[Runtime, Counter[K]]:
    found: dict[Runtime, Counter[K]] = defaultdict(Counter)
    for each in answer:
        found[_runtime(each)][key(each)] = round(each.value)
    return found


def _of_conditions(answer: list[Series], what: str) -> dict[Runtime, Counter[str]]:
    """One number of each condition that is known here, and held somewhere."""
    found: dict[Runtime, Counter[str]] = defaultdict(Counter)
    for each in answer:
        name = each.label("condition")
        if each.label("what") == what and name in series.REPORTED and each.value:
            number = each.value if what == "lasted" else round(each.value)
            found[_runtime(each)][name] = number  # type: ignore[assignment] # a share
    return found


def _nodes(answer: list[Series], labels: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes to look at: by reason, the worst first."""
    found = []
    for each in answer:
        name = "/".join(filter(None, map(each.label, labels))) or "(unnamed)"
        what = each.label("what")
        number = round(each.value) if what in NUMBERS else min(1.0, each.value)
        runtime = Group(*_runtime(each), nodes=1).label
        worst = number if what == "listened" else -number
        found.append((worst, Node(name, runtime, what, number)))
    known = [each for each in found if each[1].what in _WHAT]
    known.sort(key=lambda it: (_WHAT.index(it[1].what), it[0], it[1].node))
    return tuple(node for _, node in known)


def _kubelets(answer: list[Series]) -> tuple[Kubelets, defaultdict[Runtime, Counter[str]]]:
    """What is known of the kubelets, and their versions by runtime."""
    found = Counter[str]()
    versions: defaultdict[Runtime, Counter[str]] = defaultdict(Counter)
    for each in answer:
        version, number = each.label("git_version"), round(each.value)
        if version:
            found[version] += number
            versions[_runtime(each)][version] += number
    took = _by_what(answer)
    relists, seconds = took.get("polling_relists"), took.get("polling_seconds")
    known = None if relists is None or seconds is None else (relists, seconds)
    return Kubelets(found, known), versions


def _statuses(answer: list[Series]) -> tuple[Statuses, ...]:
    """By the kubelet's version and gate; of those that showed any exit, or one wrongly."""
    found: defaultdict[tuple[str, str], defaultdict[str, Counter[float]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    wrong: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for each in answer:
        kubelet, what = (each.label("git_version"), each.label("gate")), each.label("what")
        if what == series.CONTRADICTED.name:
            wrong[kubelet][each.label("kind")] = round(each.value)
        else:
            found[kubelet][what][_edge(each)] = round(each.value)
    return tuple(
        Statuses(
            *kubelet,
            shown=of[series.EXIT_TO_STATUS.name],
            announced=of[series.EXIT_TO_EVENT.name],
            believed=of[series.EVENT_TO_STATUS.name],
            contradicted=wrong[kubelet],
        )
        for kubelet in sorted({*found, *wrong})
        if (of := found[kubelet])[series.EXIT_TO_STATUS.name][math.inf] or wrong[kubelet].total()
    )


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
    """The coverage, and its node-slices with a stream by runtime."""
    found, streaming = _by_what(answer), defaultdict[Runtime, float](float)
    for each in answer:
        if each.label("what") == "streaming":
            streaming[_runtime(each)] += each.value
    kubelets = round(found.get("kubelets", 0)) or None

    def number(name: str) -> int:
        return round(found.get(name, 0))

    first = found.get("first", float(span.start))
    coverage = Coverage(
        nodes=number("seen"),
        nodes_now=number("now"),
        lived=number("lived"),
        streaming=sum(streaming.values()),
        together=number("together"),
        first=min(max(first, span.start), span.end),
        kubelets=kubelets,
        unwatched=number("unwatched") if kubelets else None,
        kubelet_present=number("kubelet_present") if kubelets else None,
        kubelet_streaming=found.get("kubelet_streaming", 0.0) if kubelets else None,
    )
    return coverage, streaming


def _by_what(found: list[Series]) -> dict[str, float]:
    """Several numbers of one answer."""
    return {each.label("what"): each.value for each in found}


def _runtime(one: Series) -> Runtime:
    name, version, stream = map(one.label, series.RUNTIME_LABELS)
    return name, version, stream


def _edge(one: Series) -> float:
    """A bucket's upper bound; 0, below which no exit is, if it is none."""
    try:
        edge = float(one.label("le"))
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(edge) else edge


def _floored(judged: float) -> int:
    """Rounding down is the safe side: it makes the bound wider."""
    return math.floor(judged + 1e-6)
