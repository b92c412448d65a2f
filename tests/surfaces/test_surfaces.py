"""What was lost here? Page, condition, alerts, dashboards and report give one answer.

Nodes live stories, each kind of trouble by hand, and random ones. A real Prometheus has scraped
them and evaluates the shipped rules.
"""

import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dashboards import queries
from exporter.account import NodeState
from exporter.model.findings import Cause
from exporter.settings.routes import Condition
from exporter.web.headline import Mood, headline_of
from exporter.web.probes import Conditions, Holds
from tests.fleet.conftest import reported
from tests.support.boards import filled
from tests.support.expressions import groups, rules
from tests.support.node_life import EPOCH
from tests.support.prometheus import Asker, Recorded, asking, write_scrapes
from tests.surfaces.lived_nodes import END, Life, Time, lives

pytestmark = [pytest.mark.xdist_group("surfaces"), pytest.mark.timeout(600)]

SILENT_OR_STALLED = (Cause.SILENT, Cause.STALLED)
# What must hold at the end for an alert's expression to hold, and the reverse.
ALERTS: dict[str, Callable[[Life], bool]] = {
    "ShadowPlegStreamStalled": lambda life: NodeState.STREAM_SILENT in states(life),
    "ShadowPlegMissedEvents": lambda life: NodeState.LOSING in states(life),
    "ShadowPlegStaleStatuses": lambda life: life.judge.at(END).present.stale > 0,
    "ShadowPlegGhostContainers": lambda life: life.judge.at(END).present.ghosts > 0,
    "ShadowPlegStreamDown": lambda life: (
        NodeState.FLAPPING in states(life) or life.story[2] is Time.ENDS_DOWN
    ),
    "ShadowPlegExitsAnnouncedLate": lambda life: NodeState.EXITS_LATE in states(life),
}


def states(life: Life) -> tuple[NodeState, ...]:
    """All that hold at the end."""
    return life.judge.at(END).states


@asynccontextmanager
async def asked(found: list[Life]) -> AsyncIterator[Asker]:
    """A Prometheus that has scraped these nodes and evaluated the rules at the end."""
    ended = EPOCH + END
    with tempfile.TemporaryDirectory() as folder:
        series = (each for life in found for each in life.series())
        scraped = write_scrapes(Path(folder, "scraped"), series)
        recorded = (Recorded(groups(), ended - 120, ended),)
        async with asking(scraped, recorded=recorded, began=EPOCH, ended=ended) as asker:
            yield asker


@pytest.mark.parametrize("number", [40, pytest.param(320, marks=pytest.mark.soak)])
async def test_all_surfaces_give_one_answer(number: int) -> None:
    """For each node: the verdict, its mood, the condition, the alerts, the lost, the report."""
    found = lives(number)
    for life in found:
        _page_and_condition_agree(life)
    async with asked(found) as prometheus:
        firing = {
            rule["alert"]: {e["metric"]["node"] for e in await prometheus.instant(rule["expr"])}
            for rule in rules()
            if rule.get("alert") in ALERTS
        }
        for name, holds in ALERTS.items():
            wanted = {f"node-{life.number:03}" for life in found if holds(life)}
            assert firing[name] == wanted, (name, [_story(found, n) for n in firing[name] ^ wanted])
        await _the_dashboard_counts_the_same(prometheus, found)
        await _the_report_counts_the_same(prometheus, found)


def _story(found: list[Life], name: str) -> str:
    life = next(life for life in found if f"node-{life.number:03}" == name)
    judgement = life.judge.at(END)
    return f"{name} {[kind.name for kind in life.story]} {judgement.states} {judgement.account}"


def _page_and_condition_agree(life: Life) -> None:
    judgement = life.judge.at(END)
    mood = headline_of(life.node, judgement).mood
    answer = Conditions(life.judge).answer(Condition.EVENTS_INCOMPLETE, END)
    loses = {NodeState.STREAM_SILENT, NodeState.LOSING} & set(judgement.states)
    answers = judgement.present.answers
    assert (answer.holds is Holds.TRUE) is bool(loses and answers), (life.story, answer)
    assert not (loses and mood is not Mood.BAD), life.story
    if answer.holds is Holds.FALSE:
        wrong = {NodeState.MISLISTED, NodeState.MISBELIEVED}
        assert mood is not Mood.BAD or judgement.state in wrong, life.story


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
