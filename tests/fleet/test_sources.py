"""One list of series: what a report asks for is in it."""

from dataclasses import fields

import pytest

from fleet.options import Span
from fleet.queries import EXITS, OTHERS
from fleet.questions import Questions
from fleet.sources import RECORDED, SCRAPED, Source
from tests.support.expressions import metrics_of

pytestmark = pytest.mark.quick


def _listed(source: Source) -> set[str]:
    every = (getattr(source, field.name) for field in fields(source))
    return {metric.name for metric in every if metric is not None}


@pytest.mark.parametrize("source", [SCRAPED, RECORDED])
def test_no_query_names_a_series_that_is_not_listed(source: Source) -> None:
    """And each that is listed is asked for."""
    asking = Questions(Span(300, 24, 7200), ("cluster", "node"), source=source)
    plain = (
        *("processes", "coverage", "unwatched", "deafest", "missed_over_time", "nodes_over_time"),
        *("gaps", "worst", "flappers", "incidents", "mislisted", "kubelets", "first_sight"),
    )
    exprs = [getattr(asking, name)() for name in plain]
    exprs += [asking.judged(EXITS), asking.judged(OTHERS), asking.judged_on(("a",))]
    exprs += [expr for _, expr in asking.asked()]
    named = {name for expr in exprs for name in metrics_of(expr)}
    kubelet = SCRAPED.kubelet.name
    assert named - {kubelet} == _listed(source) - {kubelet}
