"""What was lost here? Page, condition, alerts, dashboards and report give one answer.

Nodes live stories, each kind of trouble by hand, and random ones. A real Prometheus has scraped
them and evaluates the shipped rules.
"""

import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from dashboards import queries
from exporter.conditions.catalogue import CONDITIONS
from exporter.conditions.condition import NodeCondition, Reliance
from exporter.model.findings import Cause
from exporter.web.headline import headline_of
from exporter.web.probes import Holds, seen
from tests.fleet.conftest import reported
from tests.support.boards import filled
from tests.support.expressions import groups, rules
from tests.support.node_life import EPOCH
from tests.support.prometheus import Asker, Recorded, Series, asking, write_scrapes
from tests.surfaces.lived_nodes import END, Life, Time, lives

pytestmark = pytest.mark.xdist_group("surfaces")

SILENT_OR_STALLED = (Cause.SILENT, Cause.STALLED)
# No kubelet of these nodes is scraped, so none is known to rely on events.
ROWS = [row for row in CONDITIONS if row.alert and row.reliance is Reliance.ANY]


def held(life: Life) -> set[str]:
    return {each.name for each in life.judge.at(END).conditions}


class Scraped(Protocol):
    """A node with all that was scraped of it."""

    def series(self) -> Iterator[Series]:
        """As Prometheus keeps it."""


@asynccontextmanager
async def asked(found: Iterable[Scraped], end: int = END) -> AsyncIterator[Asker]:
    """A Prometheus that has scraped these nodes and evaluated the rules at the end."""
    ended = EPOCH + end
    with tempfile.TemporaryDirectory() as folder:
        series = (each for life in found for each in life.series())
        scraped = write_scrapes(Path(folder, "scraped"), series)
        recorded = (Recorded(groups(), ended - 120, ended),)
        async with asking(scraped, recorded=recorded, began=EPOCH, ended=ended) as asker:
            yield asker


@pytest.mark.parametrize("number", [40, pytest.param(320, marks=pytest.mark.soak)])
async def test_all_surfaces_give_one_answer(number: int) -> None:
    found = lives(number)
    for life in found:
        _page_and_condition_agree(life)
    async with asked(found) as prometheus:
        firing = {
            rule["alert"]: {e["metric"]["node"] for e in await prometheus.instant(rule["expr"])}
            for rule in rules()
            if "alert" in rule
        }
        for name in {f"ShadowPleg{row.alert}" for row in ROWS}:
            rows = {row.name for row in ROWS if name == f"ShadowPleg{row.alert}"}
            wanted = {f"node-{life.number:03}" for life in found if rows & held(life)}
            assert firing[name] == wanted, (name, [_story(found, n) for n in firing[name] ^ wanted])
        await _the_dashboard_counts_the_same(prometheus, found)
        await _the_report_counts_the_same(prometheus, found)


def _story(found: list[Life], name: str) -> str:
    life = next(life for life in found if f"node-{life.number:03}" == name)
    judgement = life.judge.at(END)
    return f"{name} {[kind.name for kind in life.story]} {held(life)} {judgement.account}"


def _page_and_condition_agree(life: Life) -> None:
    judgement = life.judge.at(END)
    headlines = headline_of(life.node, judgement)
    assert [said.text for said in headlines] == [each.headline for each in judgement.conditions]
    for asked in NodeCondition:
        answer = seen(asked, judgement)
        wrong = [row for row in judgement.conditions if row.node_condition is asked]
        blind = judgement.present.answers is not True
        assert (answer.holds is Holds.TRUE) is (bool(wrong) and not blind), (life.story, answer)
        if answer.holds is Holds.FALSE:
            assert not any(asked in row.unknown for row in judgement.conditions), life.story


async def _the_dashboard_counts_the_same(prometheus: Asker, found: list[Life]) -> None:
    """Lost for good since the start, by node and cause."""
    everything = {"__range": f"{END}s", "cluster": ".*", "node": ".*", "job": ".*"}
    expr = queries.lost('cause!="by_design"', per="node, cause", of=queries.scraped)
    counted = {
        (each["metric"]["node"], each["metric"]["cause"]): round(float(each["value"][1]))
        for each in await prometheus.instant(filled(expr, everything))
    }
    for life in found:
        for cause in Cause:
            if cause is not Cause.BY_DESIGN:
                name = f"node-{life.number:03}"
                shown = counted.get((name, cause.value), 0)
                assert shown == life.node.tally.lost(cause), (life.story, cause)


async def _the_report_counts_the_same(prometheus: Asker, found: list[Life]) -> None:
    """Of each runtime version, which is one node: what was lost, and the verdict."""
    end = f"--end={int(EPOCH) + END}"
    flags = ("--min-nodes=1", "--min-time=1m", "--min-transitions=1", "--kubelet-version=v1.36.0")
    window = "--window=40m"
    outcome = await reported(prometheus.url, end, window, *flags)
    for life in found:
        runtime = outcome.runtime(f"containerd {life.version}")
        lost = life.node.tally.lost(*SILENT_OR_STALLED)
        assert runtime["lost"] == lost, (life.story, json.dumps(runtime))
        if Time.SHARED in life.story or lost:
            assert runtime["verdict"] != "GO", life.story
