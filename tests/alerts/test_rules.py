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
from tests.alerts.fleet import EVENTS, Fleet
from tests.alerts.incidents import INCIDENTS, Incident
from tests.support.expressions import metrics_of, rules
from tests.support.promtool import ALERTS, VALUES, Case, Complaints, complaints, judged, run

# Up to 6 s of CPU at a time.
pytestmark = pytest.mark.timeout(180)
# Half of them elsewhere at the same time.
CALMLY = pytest.mark.xdist_group("tests/alerts/calm")
NAMED = {f"{each.alert}-{number}": each for number, each in enumerate(INCIDENTS)}


@pytest.mark.quick
def test_promtool_finds_no_fault_with_the_rules(promtool: Path) -> None:
    """Syntax, types and duplicates; lint faults are failures."""
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", ALERTS / "rules.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.quick
def test_every_alert_has_an_incident() -> None:
    """None is shipped that was never seen to fire."""
    assert {each.alert for each in INCIDENTS} == {alert.name for alert in ENTRIES}


def fleet_of(incident: Incident) -> Fleet:
    """The fleet after the incident."""
    fleet = Fleet(incident.minutes, evented=incident.evented)
    incident.change(fleet)
    return fleet


@pytest.fixture(scope="module")
def of_incidents(promtool: Path, tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    """What promtool says against the incidents."""
    cases = [
        Case(name, fleet_of(each), (each.at,), each.firing, of=each) for name, each in NAMED.items()
    ]
    return complaints(promtool, tmp_path_factory.mktemp("incidents"), cases)


@pytest.mark.parametrize("name", NAMED)
def test_an_incident_fires_its_alert_and_no_other(of_incidents: Complaints, name: str) -> None:
    """Labels and annotations to the last word."""
    assert name not in of_incidents, of_incidents[name]


def hold(incident: Incident) -> int:
    """For how many minutes its condition must be true."""
    return seconds(VALUES.alerts[incident.alert].hold) // 60


RESTARTED = {name: each for name, each in NAMED.items() if each.restart is not None}


@pytest.fixture(scope="module")
def of_restarts(promtool: Path, tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    """What promtool says against incidents with restarts amid them."""
    cases = []
    for name, each in RESTARTED.items():
        fleet = fleet_of(each)
        for target in (fleet.a, fleet.kubelet):
            target.restart(41)
        firing = each.firing if each.restart else frozenset()
        at = max(each.at, 43 + (0 if each.restart else hold(each)))
        cases.append(Case(name, fleet, (at,), firing))
    return complaints(promtool, tmp_path_factory.mktemp("restarts"), cases)


@pytest.mark.parametrize("name", RESTARTED)
def test_an_incident_amid_restarts_fires_what_it_should(of_restarts: Complaints, name: str) -> None:
    """Kubelet and exporter restart; what needs a steady stream does not fire then."""
    assert name not in of_restarts, of_restarts[name]


UNSCRAPED = {name: each for name, each in NAMED.items() if each.gap is not None}


@pytest.fixture(scope="module")
def of_failed_scrapes(promtool: Path, tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    """What promtool says against incidents with failed scrapes amid them."""
    cases = []
    for name, each in UNSCRAPED.items():
        fleet = fleet_of(each)
        for target in (fleet.a, fleet.kubelet, fleet.runtime):
            target.unscraped(41, 45)
        firing = each.firing if each.gap else frozenset()
        cases.append(Case(name, fleet, (max(each.at, 46 + hold(each)),), firing))
    return complaints(promtool, tmp_path_factory.mktemp("scrapes"), cases)


@pytest.mark.parametrize("name", UNSCRAPED)
def test_an_incident_amid_failed_scrapes_fires_what_it_should(
    of_failed_scrapes: Complaints, name: str
) -> None:
    """For four minutes; an alert about starts of a process does not fire then."""
    assert name not in of_failed_scrapes, of_failed_scrapes[name]


@pytest.mark.quick
def test_every_alert_has_what_comes_close_to_it() -> None:
    """None is shipped that was never seen to keep silent."""
    near = {alert for alert, _, _ in CALM.values()} - {EVERYTHING}
    assert near == {alert.name for alert in ENTRIES}


@pytest.fixture(scope="module")
def of_calm(promtool: Path, tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    """What promtool says against fleets in which nothing should fire."""
    cases = []
    for name, (_, change, minutes) in CALM.items():
        fleet = Fleet(max(60, *minutes) + 15)
        change(fleet)
        cases.append(Case(name, fleet, minutes, frozenset()))
    return complaints(promtool, tmp_path_factory.mktemp("calm"), cases)


@CALMLY
@pytest.mark.parametrize("name", CALM)
def test_nothing_fires_where_nothing_is_wrong(of_calm: Complaints, name: str) -> None:
    """Healthy fleets, those without Evented PLEG, and what comes close to each alert."""
    assert name not in of_calm, of_calm[name]


@pytest.fixture(scope="module")
def of_awkward(promtool: Path, tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    """What promtool says against losses at awkward moments."""
    cases = []
    for name, (change, at, firing) in AWKWARD.items():
        fleet = Fleet()
        change(fleet)
        cases.append(Case(name, fleet, (at,), firing))
    return complaints(promtool, tmp_path_factory.mktemp("awkward"), cases)


@pytest.mark.quick
@pytest.mark.parametrize("name", AWKWARD)
def test_a_loss_at_an_awkward_moment_is_not_overlooked(of_awkward: Complaints, name: str) -> None:
    """New processes, resets, gaps, absent metrics of others: the first miss fires."""
    assert name not in of_awkward, of_awkward[name]


@CALMLY
def test_no_absent_metric_makes_an_alert_fire(promtool: Path, tmp_path: Path) -> None:
    """Each one in turn is nowhere; only `up` is missed, where somebody else has it.

    A promtool test for each, since no other cluster may have it. Rules are evaluated every seven
    minutes: often enough for a condition that is true all the time.
    """
    metrics = set().union(*(metrics_of(rule["expr"]) for rule in rules()))
    tests = []
    for name in sorted(each for each in metrics if not each.startswith("shadow_pleg:")):
        fleet = Fleet(50, evented=True)
        for target in fleet.targets:
            target.without(name)
        tests.append(judged([Case(f"no {name}", fleet, (35, 49), frozenset())]))
    nothing = Fleet(60)
    nothing.a.series, nothing.b.series = {}, {}
    tests.append(judged([Case("no exporter", nothing, (35, 49, 56), frozenset())]))
    said = run(promtool, tmp_path, tests, interval="7m")
    assert not said, said
    assert len(tests) > 20


def test_a_stream_is_missed_in_a_cluster_without_a_name(promtool: Path, tmp_path: Path) -> None:
    """What compares a node with its cluster does without the label, too."""
    fleet = Fleet(70)
    for target in fleet.targets:
        target.cluster = ""
    fleet.state("disabled", 30)
    case = Case("no name", fleet, (47,), frozenset({("ShadowPlegStreamDisabled", "a")}))
    found = complaints(promtool, tmp_path, [case])
    assert not found, found


def counted(fleet: Fleet, name: str, number: int) -> dict[str, Any]:
    """How many series of recording rules node `a` or the cluster has."""
    case = judged([Case("counted", fleet, (), frozenset())])
    asked = {"eval_time": "45m", "exp_samples": [{"labels": "{}", "value": number}]}
    return case | {
        "promql_expr_test": [asked | {"expr": f"count({{__name__=~{name!r}, node!='b'}})"}]
    }


@CALMLY
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
    said = run(promtool, tmp_path, tests)
    assert not said, said
    page = (ALERTS / "README.md").read_text(encoding="utf-8")
    assert f"At most {of_nodes} series a node and {of_clusters} a cluster" in page
    assert "A node that loses nothing has 19 series" in page
    assert "An idle node has 5." in page
