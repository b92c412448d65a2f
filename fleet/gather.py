"""Queries Prometheus, one query after another, and aggregates the answers.

templates/queries.promql has the queries.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from operator import methodcaller
from typing import Any, Final

import jinja2

from exporter.errors import ConfigError, PrometheusError
from fleet.fleet import (
    NUMBERS,
    RELIST_SECONDS,
    SEVERAL,
    UNKNOWN,
    Coverage,
    Fleet,
    Group,
    Node,
    Statuses,
    iso,
    quantile,
)
from fleet.prometheus import BadQueryError, Prometheus, Series
from fleet.request import LONG, Request, Span
from fleet.words import duration
from promql import series, text

_TEMPLATE: Final = text.TEMPLATES.overlay(
    loader=jinja2.PackageLoader("fleet"), trim_blocks=True, lstrip_blocks=True
).get_template("queries.promql")
_OF_EXPORTERS: Final = (
    *("coverage", "nodes", "judged_exits", "judged_others"),
    *("counts", "conditions", "named"),
)
_OF_KUBELETS: Final = ("versions", "statuses")
_GIVEN: Final = vars(series) | vars(text) | {"UNKNOWN": UNKNOWN, "SEVERAL": SEVERAL}

Runtime = tuple[str, str, str]
ByRuntime = defaultdict[Runtime, Counter[Any]]

# Rules that keep fewer of the scraped targets than this do not cover the window.
_RECORDED_ENOUGH: Final = 0.9
_LAST: Final = (SEVERAL, UNKNOWN)
_WHAT: Final = ("lost", "ends", *series.REPORTED, "listened", "unwatched")
# Of numbers of the fleet.
_NO_RUNTIME: Final = ("", "", "")


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries about one span."""

    span: Span
    # What identifies nodes; the node's own label is the last.
    labels: tuple[str, ...]
    selector: str = ""
    kubelet_selector: str = ""
    # So many nodes must be streaming at once for their time to count.
    together: int = 1
    # False if the labels differ on kubelets.
    with_kubelets: bool = True
    # Whether to read what the recording rules keep.
    recorded: bool = False

    def asked(self) -> dict[str, str]:
        """What a report is made of, by name; each at the end of the span."""
        kept = (series.LIFECYCLE, series.MISSED, series.LATE)
        delays = (series.EXIT_TO_EVENT, series.EXIT_TO_LIST)
        names = (*_OF_EXPORTERS, *(_OF_KUBELETS if self.with_kubelets else ()))
        increases = {each.name: self.query("increases", each) for each in (*kept, *delays)}
        return {name: self.query(name) for name in names} | increases

    def query(self, name: str, *of: series.Kept) -> str:
        """One of them; `both` and `processes` are asked before the others."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        made = getattr(_TEMPLATE.make_module(_GIVEN | given), name)(*of)
        return "\n".join(filter(str.strip, str(made).splitlines()))


async def gather(prometheus: Prometheus, request: Request) -> Fleet:
    """All data for a report; PrometheusError if there is nothing to report on."""
    with _blamed("--selector", request.selector):
        queries, notes = await _chosen(prometheus, request)
    with _blamed("--kubelet-selector", request.kubelet_selector):
        answers = defaultdict[str, list[Series]](list)
        for name, expr in queries.asked().items():
            answers[name] = await prometheus.vector(expr, queries.span.end)
    covered = _by_runtime(answers["coverage"], methodcaller("label", "what"), float)
    coverage = _coverage(covered, queries.span)
    known = [each for each in answers["versions"] if each.label("git_version")]
    kubelets = _by_runtime(known, lambda it: it.label("git_version"))
    versions = sum(kubelets.values(), Counter[str]())
    if version := request.kubelet_version:
        versions = Counter({version: coverage.nodes})
        kubelets = defaultdict(lambda: versions)
        notes.append(f"judged for kubelets {version}, whatever runs (--kubelet-version)")
    took, statuses = _by_what(answers["versions"]), _statuses(answers["statuses"])
    groups = [
        replace(
            each,
            kubelets=kubelets[runtime],
            listened=covered[runtime]["streaming"],
            polled=_polled(statuses),
        )
        for runtime, each in _groups(answers).items()
    ]
    return Fleet(
        prometheus=prometheus.url,
        span=queries.span,
        groups=tuple(groups),
        nodes=_nodes(answers["named"], queries.labels),
        coverage=coverage,
        notes=(*notes, *(f"Prometheus warns: {said}" for said in sorted(prometheus.warnings))),
        recorded=queries.recorded,
        kubelets=versions,
        polling=(took["relists"], took["seconds"]) if {"relists", "seconds"} <= {*took} else None,
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
    found = await _numbers(prometheus, queries, "processes", span.end)
    if not found["all"]:
        chosen = f" that {request.selector} selects" if request.selector else ""
        raise PrometheusError(
            f"{prometheus.url} has no {series.PRESENT}{chosen} from {iso(span.start)} to"
            f" {iso(span.end)}: check that it has scraped shadow-pleg for {duration(span.step)} or"
            " longer, and check --window and --selector"
        )
    # In a roll-out a few have two, until the old one is marked as stale.
    if found["several"] > found["nodes"] / 2:
        raise ConfigError(
            f"--selector: {found['several']:.0f} of {found['nodes']:.0f} nodes have several targets"
            " of shadow-pleg at once: choose one of each, as by its job, or name all --node-labels"
        )
    number, named = round(found["all"]), round(found["named"])
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


async def _is_recorded(prometheus: Prometheus, queries: Queries) -> bool:
    """Whether a long window is recorded, and all of it."""
    span, selectors = queries.span, (queries.selector, queries.kubelet_selector)
    if span.seconds <= LONG or not series.kept_have(queries.labels, *selectors):
        return False
    found = await _numbers(prometheus, queries, "both", span.end)
    return bool(found["recorded_last"]) and all(
        found[f"recorded_{end}"] >= _RECORDED_ENOUGH * found[f"scraped_{end}"]
        for end in ("first", "last")
    )


async def _numbers(prometheus: Prometheus, queries: Queries, name: str, at: int) -> Counter[str]:
    return _by_what(await prometheus.vector(queries.query(name), at))


def _groups(answers: Mapping[str, list[Series]]) -> dict[Runtime, Group]:
    """By runtime; those with the most nodes first."""
    event, cause, what, condition = (
        methodcaller("label", name) for name in ("event", "cause", "what", "condition")
    )
    found: dict[str, Mapping[Runtime, Any]] = {
        "witnessed": _by_runtime(answers[series.LIFECYCLE.name], event),
        # Rounding down is the safe side: it makes the bound wider.
        "judged": _by_runtime(answers["judged_others"], lambda _: "", _rounded_down),
        "missed": _by_runtime(answers[series.MISSED.name], lambda it: (cause(it), event(it))),
        "late": _by_runtime(answers[series.LATE.name], lambda it: (cause(it), event(it))),
        "counts": _by_runtime(answers["counts"], what),
        "announced": _by_runtime(answers[series.EXIT_TO_EVENT.name], _edge),
        "listed": _by_runtime(answers[series.EXIT_TO_LIST.name], _edge),
    }
    for each in answers["judged_exits"]:
        found["judged"][_runtime(each)][series.EXIT] = _rounded_down(each.value)
    for name, how in (("held", round), ("gated", round), ("lasted", float)):
        these = (each for each in answers["conditions"] if what(each) == name)
        found[name] = _by_runtime(these, condition, how)
    groups = {
        runtime: Group(
            *runtime, nodes["nodes"], **{name: of[runtime] for name, of in found.items()}
        )
        for runtime, nodes in _by_runtime(answers["nodes"], lambda _: "nodes").items()
    }
    return dict(sorted(groups.items(), key=lambda it: (it[0][0] in _LAST, -it[1].nodes, *it[0])))


def _by_runtime(
    answer: Iterable[Series], key: Callable[[Series], Any], how: Callable[[float], Any] = round
) -> ByRuntime:
    found: ByRuntime = defaultdict(Counter)
    for each in answer:
        found[_runtime(each)][key(each)] = how(each.value)
    return found


def _rounded_down(number: float) -> int:
    return math.floor(number + 1e-6)


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


def _statuses(answer: list[Series]) -> Statuses:
    """By the kubelet's version and gate; of those that showed any exit, or one wrongly."""
    found: Statuses = defaultdict(lambda: defaultdict(Counter))
    for each in answer:
        kubelet, what = (each.label("git_version"), each.label("gate")), each.label("what")
        key = each.label("kind") if what == series.CONTRADICTED.name else _edge(each)
        found[kubelet][what][key] = round(each.value)
    shown, wrong = series.EXIT_TO_STATUS.name, series.CONTRADICTED.name
    return {
        kubelet: of
        for kubelet, of in sorted(found.items())
        if of[shown][math.inf] or of[wrong].total()
    }


def _polled(statuses: Statuses) -> float:
    """Within how many seconds kubelets without the gate show half of the exits, by what is known.

    Lists wait for the runtime's clean-up, too: where they do, a relist is not the end of it.
    """
    polled = Counter[float]()
    for (_, gate), of in statuses.items():
        if gate == "off":
            polled.update(of[series.EXIT_TO_STATUS.name])
    return max(RELIST_SECONDS, quantile(polled, 0.5) or 0.0)


def _coverage(covered: ByRuntime, span: Span) -> Coverage:
    """The coverage, of numbers of the fleet and node-slices with a stream by runtime.

    What was listened to is relative to the time of the nodes' kubelets or, if none are known, to
    the time between the first and the last sight of each node.
    """
    found = covered[_NO_RUNTIME]
    number = Counter({name: round(value) for name, value in found.items()})
    kubelets = number["kubelets"] or None
    heard, of = sum(each["streaming"] for each in covered.values()), number["lived"]
    if kubelets and number["kubelet_present"]:
        heard, of = found["kubelet_streaming"], number["kubelet_present"]
    return Coverage(
        nodes=number["seen"],
        nodes_now=number["now"],
        together=number["together"],
        listening=min(1.0, heard / of) if of else 0.0,
        first=min(max(found["first"], span.start), span.end),
        kubelets=kubelets,
        unwatched=number["unwatched"] if kubelets else None,
    )


def _by_what(found: list[Series]) -> Counter[str]:
    """Several numbers of one answer."""
    return Counter({each.label("what"): each.value for each in found})


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
