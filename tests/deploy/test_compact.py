"""What a scrape may drop: nothing that is shipped misses it, and all else is in it."""

import re
from dataclasses import fields
from typing import Final

import pytest

from fleet.sources import SCRAPED
from tests import ROOT
from tests.support.boards import ASKED, BOARDS, MARKED, promql, variables
from tests.support.exposition import measured
from tests.support.expressions import DROPPED, metrics_of, rules

pytestmark = pytest.mark.quick

_DROPPED: Final = set(DROPPED.split("|"))


def _read() -> set[str]:
    """By alerts, recording rules, dashboards with their variables and marks, and the report."""
    expressions = [rule["expr"] for rule in rules()]
    expressions += [promql(asked) for asked in (*ASKED, *MARKED)]
    expressions += [series for board in BOARDS for _, series, _ in variables(board)]
    named = {name for each in expressions for name in metrics_of(each)}
    sources = (getattr(SCRAPED, field.name) for field in fields(SCRAPED))
    return named | {source.name for source in sources if source}


def test_alerts_dashboards_and_the_report_have_all_that_they_read() -> None:
    """A panel without data looks like a node without trouble."""
    assert _DROPPED.isdisjoint(_read())


def test_no_runbook_asks_for_what_is_dropped() -> None:
    """Its queries are pasted at night."""
    pages = (ROOT / "docs/runbooks").glob("*.md")
    named = {name for page in pages for name in re.findall(r"\w+", page.read_text())}
    assert _DROPPED.isdisjoint(named)


def test_all_that_nothing_reads_is_dropped() -> None:
    """Each name is one that is exported; the others are in a runbook only."""
    exported = {s.name for family in measured().registry.collect() for s in family.samples}
    assert exported >= _DROPPED
    kept = exported - _DROPPED - _read()
    text = "".join(page.read_text() for page in (ROOT / "docs/runbooks").glob("*.md"))
    assert all(name in text for name in kept), kept
