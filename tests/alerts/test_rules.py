"""The shipped rules, judged by promtool: who fires, who does not, and what is said."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from alerts.render import ALERTS as ENTRIES
from alerts.render import records
from alerts.values import seconds
from tests.alerts.calm import AWKWARD, CALM, EVERYTHING
from tests.alerts.expressions import metrics_of, rules
from tests.alerts.fleet import EVENTS, Fleet
from tests.alerts.incidents import INCIDENTS, Incident
from tests.alerts.promtool import ALERTS, VALUES, Case, announced, judged, run

SUMMARIES = {alert.name: alert.summary for alert in ENTRIES}
IDS = [f"{each.alert}-{number}" for number, each in enumerate(INCIDENTS)]


def test_promtool_finds_no_fault_with_the_rules(promtool: Path) -> None:
    """Syntax, types and duplicates; lint faults are failures."""
    done = subprocess.run(  # noqa: S603 -- promtool
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", ALERTS / "rules.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_an_incident() -> None:
    """None is shipped that was never seen to fire."""
    assert {each.alert for each in INCIDENTS} == {alert.name for alert in ENTRIES}


def fleet_of(incident: Incident) -> Fleet:
    """The fleet after the incident."""
    fleet = Fleet(incident.minutes, evented=incident.evented)
    incident.change(fleet)
    return fleet


def variants(incident: Incident) -> list[Case]:
    """The incident with restarts and failed scrapes amid it."""
    hold = seconds(VALUES.alerts[incident.alert].hold) // 60
    cases = []
    if incident.restart is not None:
        fleet = fleet_of(incident)
        for target in (fleet.a, fleet.kubelet):
            target.restart(41)
        firing = incident.firing if incident.restart else frozenset()
        at = max(incident.at, 43 + (0 if incident.restart else hold))
        cases.append(Case(f"{incident.alert}, restarted", fleet, (at,), firing))
    if incident.gap is not None:
        fleet = fleet_of(incident)
        for target in (fleet.a, fleet.kubelet, fleet.runtime):
            target.unscraped(41, 45)
        firing = incident.firing if incident.gap else frozenset()
        at = max(incident.at, 46 + hold)
        cases.append(Case(f"{incident.alert}, scrapes failed", fleet, (at,), firing))
    return cases


@pytest.mark.parametrize("incident", INCIDENTS, ids=IDS)
def test_an_incident_fires_its_alert_and_no_other(
    promtool: Path, tmp_path: Path, incident: Incident
) -> None:
    """Also amid restarts and failed scrapes; labels and annotations to the last word."""
    fleet = fleet_of(incident)
    tests = [
        announced(incident, fleet, SUMMARIES[incident.alert]),
        *map(judged, variants(incident)),
    ]
    complaints = run(promtool, tmp_path, tests)
    assert not complaints, complaints


def calm_cases() -> list[Case]:
    """All of them, at all their minutes."""
    cases = []
    for name, (_, change, minutes) in CALM.items():
        fleet = Fleet(max(60, *minutes) + 1)
        change(fleet)
        cases.append(Case(name, fleet, minutes, frozenset()))
    return cases


def test_every_alert_has_what_comes_close_to_it() -> None:
    """None is shipped that was never seen to keep silent."""
    near = {alert for alert, _, _ in CALM.values()} - {EVERYTHING}
    assert near == {alert.name for alert in ENTRIES}


def test_nothing_fires_where_nothing_is_wrong(promtool: Path, tmp_path: Path) -> None:
    """Healthy fleets, those without Evented PLEG, and what comes close to each alert."""
    complaints = run(promtool, tmp_path, map(judged, calm_cases()))
    assert not complaints, complaints


def test_a_loss_at_an_awkward_moment_is_not_overlooked(promtool: Path, tmp_path: Path) -> None:
    """New processes, resets, gaps, absent metrics of others: the first miss fires."""
    cases = []
    for name, (change, at, firing) in AWKWARD.items():
        fleet = Fleet()
        change(fleet)
        cases.append(Case(name, fleet, (at,), firing))
    complaints = run(promtool, tmp_path, map(judged, cases))
    assert not complaints, complaints


def test_no_absent_metric_makes_an_alert_fire(promtool: Path, tmp_path: Path) -> None:
    """Each one in turn is nowhere in the fleet; only `up` is missed, where somebody else has it."""
    cases = []
    for name in sorted(set().union(*(metrics_of(rule["expr"]) for rule in rules()))):
        if name.startswith("shadow_pleg:"):
            continue
        fleet = Fleet(50, evented=True)
        for target in fleet.targets:
            target.without(name)
        cases.append(Case(f"no {name}", fleet, (35, 49), frozenset()))
    complaints = run(promtool, tmp_path, map(judged, cases))
    assert not complaints, complaints
    assert len(cases) > 20


def test_a_stream_is_missed_in_a_cluster_without_a_name(promtool: Path, tmp_path: Path) -> None:
    """What compares a node with its cluster does without the label, too."""
    fleet = Fleet(70)
    for target in fleet.targets:
        target.cluster = ""
    fleet.state("disabled", 30)
    case = Case("no name", fleet, (47,), frozenset({("ShadowPlegStreamDisabled", "a")}))
    complaints = run(promtool, tmp_path, [judged(case)])
    assert not complaints, complaints


def counted(fleet: Fleet, name: str, number: int) -> dict[str, Any]:
    """How many series of recording rules node `a` or the cluster has."""
    case = judged(Case(name, fleet, (), frozenset()))
    asked = {"eval_time": "45m", "exp_samples": [{"labels": "{}", "value": number}]}
    return case | {
        "promql_expr_test": [asked | {"expr": f"count({{__name__=~{name!r}, node!='b'}})"}]
    }


def test_recording_rules_add_as_many_series_as_the_readme_says(
    promtool: Path, tmp_path: Path
) -> None:
    """Of a node that loses everything, of one that loses nothing, of an idle one; of a cluster."""
    of_nodes, of_clusters = (sum(each.series for each in level) for level in records(VALUES))
    worst, idle = Fleet(), Fleet()
    for event in EVENTS:
        worst.miss(event, "silent", 9, 40)
    for name in ("shadow_pleg_lifecycle_events_total", "shadow_pleg_event_delivery_seconds_bucket"):
        idle.a.freeze(name, 0)
    tests = [
        counted(worst, "shadow_pleg:node:.+", of_nodes),
        counted(worst, "shadow_pleg:cluster:.+", of_clusters),
        counted(Fleet(), "shadow_pleg:node:.+", 19),
        counted(idle, "shadow_pleg:node:.+", 5),
    ]
    complaints = run(promtool, tmp_path, tests)
    assert not complaints, complaints
    page = (ALERTS / "README.md").read_text(encoding="utf-8")
    assert f"At most {of_nodes} series a node and {of_clusters} a cluster" in page
    assert "A node that loses nothing has 19 series" in page
    assert "An idle one has 5." in page
