"""What a report is about: which span, which series, and which labels tell nodes apart."""

from dataclasses import replace
from typing import Final

from exporter import metrics
from exporter.errors import ConfigError, PrometheusError
from fleet.fleet import iso
from fleet.options import LONG, Request
from fleet.prometheus import Prometheus, Series
from fleet.queries import Queries
from fleet.questions import Questions
from fleet.sources import RECORDED, SCRAPED, Source, recorded_have

_NODE: Final = ("cluster", "node")
_INSTANCE: Final = ("instance",)
# Rules that keep fewer of the scraped targets than this do not cover the window.
_RECORDED_ENOUGH: Final = 0.9


async def chosen(prometheus: Prometheus, request: Request) -> tuple[Questions, list[str]]:
    """The queries, and notes if labels are not as they should be.

    PrometheusError if there is nothing to report on.
    """
    labels, span = request.node_labels or _NODE, request.span
    queries = Questions(span, labels, request.selector, request.kubelet_selector, request.min_nodes)
    queries = replace(queries, source=await _source(prometheus, queries))
    found = by_what(await prometheus.vector(queries.processes(), span.end))
    if not found.get("all"):
        await _require_fresh(prometheus, queries, request)
        queries = replace(queries, span=request.latest, source=SCRAPED)
        found = by_what(await prometheus.vector(queries.processes(), queries.span.end))
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
    without = "no target has a label node, so instances stand for nodes"
    note = f"{without}: a node whose pod was replaced counts twice, and no kubelet is recognised"
    return replace(queries, labels=_INSTANCE, kubelet_selector="", with_kubelets=False), [note]


async def _require_fresh(prometheus: Prometheus, queries: Questions, request: Request) -> None:
    """PrometheusError unless processes are there that are younger than the window's last slice."""
    if by_what(await prometheus.vector(queries.processes(), int(request.at))).get("all"):
        return
    span, chosen = queries.span, f" that {request.selector} selects" if request.selector else ""
    raise PrometheusError(
        f"{prometheus.url} has no {metrics.BUILD.name}_info{chosen} from {iso(span.start)} to"
        f" {iso(request.at)}: see whether it scrapes shadow-pleg, and --window and --selector"
    )


async def _source(prometheus: Prometheus, queries: Queries) -> Source:
    """Recorded series for a long window, if there are any for all of it."""
    span, selectors = queries.span, (queries.selector, queries.kubelet_selector)
    if span.seconds <= LONG or not recorded_have(queries.labels, *selectors):
        return SCRAPED
    found = by_what(await prometheus.vector(queries.recorded(), span.end))
    at_both_ends = all(
        found.get(f"recorded_{end}", 0) >= _RECORDED_ENOUGH * found.get(f"scraped_{end}", 0)
        for end in ("first", "last")
    )
    return RECORDED if at_both_ends and found.get("recorded_last") else SCRAPED


def by_what(found: list[Series]) -> dict[str, float]:
    """Several numbers of one answer."""
    return {each.label("what"): each.value for each in found}
