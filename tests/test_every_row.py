"""Every condition, on a node of its own: each surface says it, or its row says why it does not.

A real Prometheus has scraped the gauge of nodes that have been in one of the catalogue's stories
for long, beside kubelets that poll, take events as hints, or rely on them alone.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboards import queries
from exporter import RUNBOOKS
from exporter.conditions.account import Account
from exporter.conditions.catalogue import ALL, CONDITIONS, holding
from exporter.conditions.condition import (
    Condition,
    Mood,
    NodeCondition,
    Present,
    Reliance,
    Severity,
)
from exporter.model.labels import KernelWitness
from exporter.node.judgement import Judgement
from exporter.runtimes.kubelets import FIRST_HINTED, LAST_TRUSTING
from exporter.web.probes import Holds, seen
from exporter.web.status_page import headline_of
from tests.conditions.test_catalogue import PRESENT, STORIES, account
from tests.support.expressions import ASKED, filled, groups, rules
from tests.support.facts import EPOCH_NS
from tests.support.prometheus import Asker, Recorded, Series, asking, write_scrapes
from tests.support.report_fleets import ReportNode, reported

# What kubelets do with events, and the version and gate by which Prometheus knows.
KUBELETS = {
    Reliance.ANY: ("v1.30.0", 0),
    Reliance.GATE_ON: (f"v{FIRST_HINTED}.0", 1),
    Reliance.ALONE: (f"v{LAST_TRUSTING}.0", 1),
}
# Half an hour, as the report asks for, and what rules look back on at its begin.
BEGAN, END, SCRAPE = EPOCH_NS // 10**9, 2400, 120


@dataclass(frozen=True, slots=True)
class InStory:
    """A node that has been in that story all the time. `number`: of the story."""

    number: int
    reliance: Reliance
    account: Account
    present: Present
    conditions: tuple[Condition, ...]

    @property
    def name(self) -> str:
        return f"node-{self.number:02}-{self.reliance.value}"

    @property
    def judgement(self) -> Judgement:
        return Judgement(self.conditions, self.account, self.present)

    def owes(self, row: Condition) -> bool:
        """Whether the alert of that row is owed here."""
        return bool(row.alert) and row.reliance.value <= self.reliance.value

    def severity(self, alert: str) -> str:
        rows = [row for row in self.conditions if row.alert == alert and self.owes(row)]
        most = any(row.name == "most_exits_lost" for row in self.conditions)
        relied = {
            Severity.LOSSES: self.reliance is Reliance.ALONE
            or (self.reliance is Reliance.GATE_ON and most),
            Severity.GATED: self.reliance is not Reliance.ANY,
        }
        how = rows[0].severity
        return {True: "critical", False: "warning"}[relied[how]] if how in relied else how.value

    def series(self) -> Iterator[Series]:
        node = {"node": self.name, "cluster": "blue"}
        own = {**node, "job": "shadow-pleg", "instance": f"{self.name}:13386"}
        kubelet = {**node, "job": "kubelet", "instance": f"{self.name}:10250"}
        found: dict[tuple[tuple[str, str], ...], float] = {}

        def scrape(target: dict[str, str], name: str, labels: dict[str, str], value: float) -> None:
            found[tuple(sorted((target | labels | {"__name__": name}).items()))] = value

        for name, text, value in ReportNode(name=self.name, version=self.version).samples(60):
            labels = (_label(each) for each in text.split(",") if each)
            scrape(own, name, dict(labels), float(value))
        scrape(own, "up", {}, 1.0)
        for row in ALL:
            held = float(row in self.conditions)
            scrape(own, "shadow_pleg_node_condition", {"condition": row.name}, held)
        version, gate = KUBELETS[self.reliance]
        scrape(kubelet, "up", {}, 1.0)
        scrape(kubelet, "kubernetes_build_info", {"git_version": version}, 1.0)
        scrape(kubelet, "kubernetes_feature_enabled", {"name": "EventedPLEG"}, float(gate))
        scrape(kubelet, "kubelet_pleg_relist_interval_seconds_count", {}, 7.0)
        times = range(BEGAN, BEGAN + END + 1, SCRAPE)
        for labels_of, value in found.items():
            yield dict(labels_of), times, [value] * len(times)

    @property
    def version(self) -> str:
        """Of its runtime: no other node has it."""
        return f"2.{self.number}.{self.reliance.value}"


def _label(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value.strip('"')


def in_stories() -> list[InStory]:
    found = []
    for number, story in enumerate(STORIES):
        numbers: dict[str, Any] = dict(story)
        numbers.pop("conditions")
        held = numbers.pop("held", {})
        present, its = PRESENT[numbers.pop("present", "streaming")], account(**numbers)
        rows = holding(its, present, held)
        found += [InStory(number, kubelet, its, present, rows) for kubelet in KUBELETS]
    return found


async def test_each_row_is_said_by_every_surface(tmp_path: Path) -> None:
    found = in_stories()
    assert {row.name for node in found for row in node.conditions} == {row.name for row in ALL}
    for node in found:
        _page_says(node)
        _node_conditions_say(node)
    ended = BEGAN + END
    scraped = write_scrapes(
        tmp_path / "scraped", (each for node in found for each in node.series())
    )
    recorded = (Recorded(groups(), ended - 120, ended),)
    async with asking(scraped, recorded=recorded, began=BEGAN, ended=ended) as prometheus:
        await _alerts_say(prometheus, found)
        await _the_dashboard_says(prometheus, found)
        await _the_report_says(prometheus, found)


def _page_says(node: InStory) -> None:
    said = headline_of(node.judgement)
    assert [each.text for each in said] == [row.headline for row in node.conditions]
    for each, row in zip(said, node.conditions, strict=True):
        runbook = f"{RUNBOOKS}/ShadowPleg{row.alert}.md" if row.alert else ""
        assert (each.mood, each.runbook) in {(row.mood, runbook), (row.mood, "")}, row.name
        assert bool(runbook) is bool(row.todo)
    # What several rows have in common is said once.
    linked = {each.runbook for each in said if each.runbook}
    assert linked == {
        f"{RUNBOOKS}/ShadowPleg{row.alert}.md" for row in node.conditions if row.alert
    }


def _node_conditions_say(node: InStory) -> None:
    for which in NodeCondition:
        answer = seen(which, node.judgement)
        true = any(row.node_condition is which for row in node.conditions)
        blind = any(which in row.unknown for row in node.conditions)
        off = which is NodeCondition.STATE_STALE and node.present.kernel is KernelWitness.OFF
        answers = node.present.answers is True
        expected = Holds.UNKNOWN if blind or off else Holds.FALSE
        assert answer.holds is (Holds.TRUE if true and answers else expected), (node, answer)


async def _alerts_say(prometheus: Asker, found: list[InStory]) -> None:
    names = {f"ShadowPleg{row.alert}" for row in CONDITIONS if row.alert}
    by_name = {rule["alert"]: rule for rule in rules() if rule.get("alert") in names}
    assert by_name.keys() == names
    for name, rule in by_name.items():
        firing = {
            each["metric"]["node"]: each["metric"].get("severity")
            or rule.get("labels", {}).get("severity")
            for each in await prometheus.instant(rule["expr"])
        }
        alert = name.removeprefix("ShadowPleg")
        wanted = {
            node.name: node.severity(alert)
            for node in found
            if any(row.alert == alert and node.owes(row) for row in node.conditions)
        }
        assert firing == wanted, name


async def _the_dashboard_says(prometheus: Asker, found: list[InStory]) -> None:
    (panel,) = (each for each in ASKED if each.place.startswith("Nodes by condition"))
    everything = {"cluster": ".*", "node": ".*", "job": ".*"}
    counted = {
        each["metric"]["condition"]: round(float(each["value"][1]))
        for each in await prometheus.instant(filled(panel.expr, everything))
    }
    wanted = {
        row.name: sum(row in node.conditions for node in found)
        for row in ALL
        if row.mood is not Mood.GOOD
    }
    assert counted == wanted
    assert queries.MOODS.keys() == {mood.value for mood in Mood}


async def _the_report_says(prometheus: Asker, found: list[InStory]) -> None:
    end = f"--end={BEGAN + END}"
    flags = ("--window=30m", "--min-time=1m", "--min-transitions=1")
    outcome = await reported(prometheus.url, end, *flags)
    told = {each["condition"]: each["nodes"] for each in outcome.data["fleet"]["conditions"]}
    wanted = {
        row.name: nodes
        for row in CONDITIONS
        if row.weighs is not None and (nodes := sum(row in node.conditions for node in found))
    }
    assert told == wanted, json.dumps(told)
