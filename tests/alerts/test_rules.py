"""The shipped rules, judged by promtool: who fires, who does not, and what is said."""

import functools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from alerts.inhibitions import MANY
from alerts.render import ALERTS as ENTRIES
from alerts.render import records
from alerts.values import seconds
from tests.support.alert_fleet import ENOUGH, EVENTS, AlertFleet, exporter_target
from tests.support.expressions import ALERTS, metrics_of, rules
from tests.support.promtool import (
    VALUES,
    Awkward,
    Calm,
    Complaints,
    Incident,
    RuleCase,
    complaints,
    judged,
    run,
)

HERE = Path(__file__).parent
Read = TypeVar("Read")
SaidOf = Callable[[str], Complaints]
# Up to 6 s of CPU at a time.
pytestmark = pytest.mark.timeout(180)
# Half of them elsewhere at the same time.
CALMLY = pytest.mark.xdist_group("tests/alerts/calm")


def read(name: str, kind: type[Read]) -> Read:
    """The cases of a file."""
    return msgspec.yaml.decode((HERE / f"{name}.yaml").read_bytes(), type=kind)


INCIDENTS = {
    f"{each.alert}-{number}": each for number, each in enumerate(read("incidents", list[Incident]))
}
CALM = read("calm", dict[str, Calm])
AWKWARD = read("awkward", dict[str, Awkward])


def hold(incident: Incident) -> int:
    """For how many minutes its condition must be true."""
    return seconds(VALUES.alerts[incident.alert].hold) // 60


def incidents() -> Iterator[RuleCase]:
    """An incident fires its alert and no other; labels and annotations to the last word."""
    for name, each in INCIDENTS.items():
        yield RuleCase(name, each.fleet(), (each.at,), each.firing, of=each)


def restarts() -> Iterator[RuleCase]:
    """Kubelet and exporter restart amid it; what needs a steady stream does not fire then."""
    for name, each in INCIDENTS.items():
        if each.restart is not None:
            fleet = each.fleet()
            fleet.change({"a kubelet": ["restart", 41]})
            at = max(each.at, 43 + (0 if each.restart else hold(each)))
            yield RuleCase(name, fleet, (at,), each.firing if each.restart else frozenset())


def failed_scrapes() -> Iterator[RuleCase]:
    """For four minutes amid it; an alert about starts of a process does not fire then."""
    for name, each in INCIDENTS.items():
        if each.gap is not None:
            fleet = each.fleet()
            fleet.change({"a kubelet runtime": ["unscraped", 41, 45]})
            at = max(each.at, 46 + hold(each))
            yield RuleCase(name, fleet, (at,), each.firing if each.gap else frozenset())


def calm() -> Iterator[RuleCase]:
    """Nothing fires: healthy fleets, those without Evented PLEG, what comes close to each alert."""
    for name, each in CALM.items():
        fleet = AlertFleet(max(60, *each.at) + 15, each.when)
        yield RuleCase(name, fleet, tuple(each.at), frozenset())


def awkward() -> Iterator[RuleCase]:
    """New processes, resets, gaps, absent metrics of others: the first miss fires."""
    for name, each in AWKWARD.items():
        yield RuleCase(
            name, AlertFleet(changes=each.when), (each.at,), frozenset({(each.fires, "a")})
        )


GROUPS = {each.__name__: each for each in (incidents, restarts, failed_scrapes, calm, awkward)}
MARKS = {"calm": CALMLY, "awkward": pytest.mark.quick}


@pytest.fixture(scope="module")
def said_of(promtool: Path, tmp_path_factory: pytest.TempPathFactory) -> SaidOf:
    """What promtool says against the cases of a group, all of which it judges at once."""

    @functools.cache
    def judge(group: str) -> Complaints:
        return complaints(promtool, tmp_path_factory.mktemp(group), GROUPS[group]())

    return judge


@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(group, case.name, marks=MARKS.get(group, ()))
        for group, cases in GROUPS.items()
        for case in cases()
    ],
)
def test_what_should_fire_does_and_nothing_else(said_of: SaidOf, group: str, name: str) -> None:
    """Each group says what is special about its cases."""
    assert name not in said_of(group), said_of(group)[name]


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
def test_every_alert_has_an_incident_and_what_comes_close_to_it() -> None:
    """None is shipped that was never seen to fire, or never seen to keep silent."""
    alerts = {alert.name for alert in ENTRIES} - {MANY}
    assert {each.alert for each in INCIDENTS.values()} == alerts
    assert {each.near for each in CALM.values()} - {""} == alerts


@pytest.mark.parametrize(
    ("stale", "nodes", "told"), [(6, 40, True), (5, 40, False), (6, 70, False)]
)
def test_what_many_nodes_have_is_told_once(
    promtool: Path, tmp_path: Path, stale: int, nodes: int, *, told: bool
) -> None:
    """More than five nodes and a tenth of the fleet: with the severity of what they have."""
    fleet = AlertFleet(60)
    for target in fleet.targets:
        target.was_never_there()
    series: list[dict[str, str]] = []
    for number in range(nodes):
        it = exporter_target(f"n{number}", 60)
        it.series = {key: values for key, values in it.series.items() if key[0] in ENOUGH}
        if number < stale:
            it.put("shadow_pleg_last_seen_seconds", 2280, 39)
        series += it.notation("blue")
    named = f'alertname="{MANY}", problem="ShadowPlegRelistStale"'
    one = f'ALERTS{{{named}, alertstate="firing", cluster="blue", severity="warning"}}'
    test = judged([RuleCase("many", fleet, (), frozenset())]) | {
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{MANY}", alertstate="firing"}}',
                "eval_time": "45m",
                "exp_samples": [{"labels": one, "value": 1}] if told else [],
            }
        ],
    }
    said = run(promtool, tmp_path, [test])
    assert not said, said


@CALMLY
def test_no_absent_metric_makes_an_alert_fire(promtool: Path, tmp_path: Path) -> None:
    """Each one in turn is nowhere; only `up` is missed, where another target has it.

    A promtool test for each, since no other cluster may have it. Rules are evaluated every seven
    minutes: often enough for a condition that is true all the time.
    """
    metrics = set().union(*(metrics_of(rule["expr"]) for rule in rules()))
    tests = []
    for name in sorted(each for each in metrics if not each.startswith("shadow_pleg:")):
        fleet = AlertFleet(50, evented=True)
        for target in fleet.targets:
            target.without(name)
        tests.append(judged([RuleCase(f"no {name}", fleet, (35, 49), frozenset())]))
    nothing = AlertFleet(60, [{"a b": ["was_never_there"]}])
    tests.append(judged([RuleCase("no exporter", nothing, (35, 49, 56), frozenset())]))
    said = run(promtool, tmp_path, tests, interval="7m")
    assert not said, said
    assert len(tests) > 20


def test_a_stream_is_missed_in_a_cluster_without_a_name(promtool: Path, tmp_path: Path) -> None:
    """What compares a node with its cluster does without the label, too."""
    fleet = AlertFleet(120)
    fleet.has_no_cluster_label()
    fleet.state("disabled", 30)
    case = RuleCase("no name", fleet, (95,), frozenset({("ShadowPlegNodesNotWatched", "")}))
    found = complaints(promtool, tmp_path, [case])
    assert not found, found


def counted(fleet: AlertFleet, name: str, number: int) -> dict[str, Any]:
    """How many series of recording rules node `a` or the cluster has."""
    case = judged([RuleCase("counted", fleet, (), frozenset())])
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
    worst, idle = AlertFleet(), AlertFleet()
    for event in EVENTS:
        worst.miss(event, "silent", 9, 40)
    for name in ("shadow_pleg_lifecycle_events_total", "shadow_pleg_event_delivery_seconds_bucket"):
        idle.a.freeze(name, 0)
    tests = [
        counted(worst, "shadow_pleg:node:.+", of_nodes),
        counted(worst, "shadow_pleg:cluster:.+", of_clusters),
        counted(AlertFleet(), "shadow_pleg:node:.+", 19),
        counted(idle, "shadow_pleg:node:.+", 5),
    ]
    said = run(promtool, tmp_path, tests)
    assert not said, said
    page = (ALERTS / "README.md").read_text(encoding="utf-8")
    assert f"At most {of_nodes} series a node and {of_clusters} a cluster" in page
    assert "A node that loses nothing has 19 series" in page
    assert "An idle node has 5." in page
