"""The shipped rules, judged by promtool: form, absent metrics, how many series they add."""

import json
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from alerts import render
from alerts.entries import MANY
from alerts.render import records
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause
from tests.support.alert_fleets import KUBELET_EVENTS, RECEIVED, Fleet, Node, fleet
from tests.support.expressions import ALERTS, groups, metrics_of, needed, rules
from tests.support.promtool import VALUES, delivered, evaluate, fed, run

FIRING = 'ALERTS{alertstate="firing"}'
# Series of a node that recording rules add beside what the report reads; and conditions of one that
# loses everything.
HEALTHY, IDLE, LOSES_ALL = 7, 6, 3
Judged = Callable[..., None]


@pytest.fixture
def judged(promtool: Path, tmp_path: Path) -> Judged:
    """Fails where promtool finds other numbers than these tests say."""

    def judge(*tests: dict[str, Any], **how: Any) -> None:
        said = run(promtool, tmp_path, tests, **how)
        assert not said, said

    return judge


def numbers(
    it: Fleet, expr: str, found: dict[str, float | None], minutes: int = 60
) -> dict[str, Any]:
    """A test for promtool: what an expression comes to at these times; None: nothing."""
    asked = [
        {
            "expr": expr,
            "eval_time": at,
            "exp_samples": [] if number is None else [{"labels": "{}", "value": number}],
        }
        for at, number in found.items()
    ]
    return fed([it], 0, minutes) | {"promql_expr_test": asked}


def counted(it: Fleet, level: str, number: int) -> dict[str, Any]:
    """How many series of recording rules node `a` or the cluster has."""
    expr = f"count({{__name__=~'shadow_pleg:{level}:.+', node!='b'}})"
    return numbers(it, expr, {"45m": number})


def quiet(it: Fleet, *minutes: int) -> dict[str, Any]:
    return numbers(it, FIRING, {f"{minute}m": None for minute in minutes})


@pytest.mark.quick
def test_promtool_finds_no_fault_with_the_rules(promtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": groups()}), encoding="utf-8")
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("stale", "nodes"), [(5, 40), (6, 70)])
def test_what_few_nodes_have_fires_for_each_alone(
    promtool: Path, tmp_path: Path, stale: int, nodes: int
) -> None:
    """Up to five nodes, or a tenth of the fleet."""
    it = fleet(others=nodes - 2)
    names = [f"n{number}" for number in range(1, stale + 1)]
    it.apply({20: {" ".join(names): ["restart_runtime", 20]}})
    fired = delivered(evaluate(promtool, tmp_path, [it], range(36)).fired)
    assert sorted((each.alert, each.node) for each in fired) == [
        ("ShadowPlegRelistStale", name) for name in sorted(names)
    ]


@pytest.mark.parametrize("begins", [20, 20.25, 20.5, 20.75])
def test_what_many_nodes_have_fires_before_any_of_it_is_sent(judged: Judged, begins: float) -> None:
    """Of 70 nodes 8 are enough; of their scrapes, a minute apart, one is long before the others."""
    nodes = [Node(f"n{it}", scrape=(60, 15 if it else 30)) for it in range(70)]
    it = Fleet(*nodes, grid=15)
    for node in nodes[:8]:
        node.restart_runtime(begins, 30)
    fired = "count_over_time(max(ALERTS{{alertname='{}', alertstate='firing'}})[30m:15s])"
    one, many = map(fired.format, ("ShadowPlegRelistStale", MANY))
    wait = render.group_wait(VALUES)
    found = numbers(it, f"15 * ({one} - {many}) <= bool {wait}", {"40m": 1}, 41)
    judged(found, interval="30s", shipped=needed(groups(), "ShadowPlegRelistStale", MANY))


@pytest.mark.parametrize("begins", [20, 20.25, 20.5, 20.75])
def test_total_silence_is_a_page_within_three_minutes(judged: Judged, begins: float) -> None:
    """Where a kubelet relies on events; scrapes are every 30 s, and it begins between two."""
    node = Node("a", scrape=(30, 15))
    it = Fleet(node, grid=15)
    node.gate_on()
    node.churn(0, 8)
    node.silence(begins)
    page = '{alertstate="firing", alertname="ShadowPlegStreamStalled", severity="critical"}'
    found = numbers(it, f"count(ALERTS{page})", {f"{int((begins + 3) * 60)}s": 1}, 30)
    judged(found, interval="15s", shipped=needed(groups(), "ShadowPlegStreamStalled"))


@pytest.mark.parametrize(("kubelets", "relies"), [("replace", 2), ("hint", 1), ("ignore", 0)])
def test_kubelets_that_are_scraped_elsewhere_do_what_the_values_say(
    judged: Judged, kubelets: Literal["replace", "hint", "ignore"], relies: int
) -> None:
    """One that is scraped here speaks for itself; and that of one that has just gone still does."""
    elsewhere, here, gone = (fleet(cluster=name) for name in ("elsewhere", "here", "gone"))
    elsewhere.nodes["a"].kubelet.vanish(0)
    gone.nodes["a"].kubelet.vanish(20)
    shipped = render.groups(replace(VALUES, kubelets=kubelets))
    record = "shadow_pleg:node:kubelet_reliance:last1h"
    expr = f"sum({record}{{node='a'}})"
    tests = [
        numbers(it, expr, {"45m": number})
        for it, number in ((elsewhere, relies), (here, 0), (gone, 0))
    ]
    judged(*tests, shipped=needed(shipped, record))


def test_the_page_counts_the_nodes_that_the_rules_see(judged: Judged) -> None:
    """Less where a target lacks its node, and nothing where the job has another name."""
    page = (ALERTS / "README.md").read_text(encoding="utf-8")
    verified = page[page.index("verify, this must be") :]
    expr = verified.partition("```promql\n")[2].partition("\n```")[0]
    right, nameless, alloy = (fleet(others=2, cluster=name) for name in ("all", "less", "alloy"))
    nameless["n1"].exporter.node = ""
    for target in alloy.targets:
        target.job = f"monitoring/{target.job}"
    cases = (right, 4), (nameless, 3), (alloy, None)
    judged(*(numbers(it, f"sum({expr})", {"45m": number}) for it, number in cases), shipped=[])


def test_whatever_part_of_the_exporters_is_gone_something_fires(
    promtool: Path, tmp_path: Path
) -> None:
    """For each node, as long as most have one; else one alert for the cluster."""
    fleets = []
    for gone in range(1, 11):
        fleets.append(fleet(others=8, cluster=f"{gone} of 10"))
        nodes = list(fleets[-1].nodes.values())
        for node in nodes[10 - gone :]:
            node.exporter.vanish(20)
    fired = evaluate(promtool, tmp_path, fleets, range(50)).fired
    found = {
        it.cluster: sorted(each.alert for each in fired if each.cluster == it.cluster)
        for it in fired
    }
    few = {f"{gone} of 10": ["ShadowPlegExporterDown"] * gone for gone in range(1, 5)}
    most = {f"{gone} of 10": ["ShadowPlegExportersGone"] for gone in range(5, 11)}
    assert found == few | most


def test_exporters_that_are_gone_are_missed_for_a_day(judged: Judged) -> None:
    it = fleet()
    it.apply({60: {"all.exporter": "vanish"}})
    found = numbers(
        it, f"count({FIRING})", {"2h": 1, "12h": 1, "20h": 1, "26h": None}, minutes=26 * 60
    )
    judged(found, interval="12m", shipped=needed(groups()))


def test_no_absent_metric_makes_an_alert_fire(judged: Judged) -> None:
    """Each one in turn is nowhere; only `up` is missed, where another target has it."""
    metrics = set().union(*(metrics_of(rule["expr"]) for rule in rules()))
    tests = []
    for name in sorted(each for each in metrics if not each.startswith("shadow_pleg:")):
        it = fleet(evented=True, whole=True)
        for target in it.targets:
            target.without(name)
        tests.append(quiet(it, 35, 49))
    nothing = fleet()
    nothing.apply({0: {"all.exporter": "vanish"}})
    tests.append(quiet(nothing, 35, 49, 56))
    judged(*tests, interval="7m", shipped=needed(groups()))
    assert len(tests) > 20


def test_what_a_process_counts_in_its_last_minutes_is_recorded(judged: Judged) -> None:
    """It is gone before the next sample, and Prometheus has marked its series as stale."""
    it = fleet()
    it.apply({41: {"a": ["miss", "ContainerDied", "silent", 3]}, 43: {"a.exporter": "vanish"}})
    record = "shadow_pleg:process:missed_events:sum"
    found = numbers(it, f"sum({record}{{node='a'}})", {"40m": 0, "45m": 3})
    judged(found, shipped=needed(groups(), record))


def test_pods_that_share_an_instance_are_recorded_one_after_the_other(judged: Judged) -> None:
    """As where relabeling makes it the node: a roll-out must not fail the rule of all nodes."""
    record, lost = "shadow_pleg:process:missed_events:sum", "kube_pod_missed_events_total"
    series = []
    for node, pod, began, losses in (
        ("a", "old", "-9000x13 stale", "0x11 3 3 stale"),
        ("a", "new", "_x14 810x16", "_x14 0x3 2x12"),
        ("b", "only", "-9000x30", "1x30"),
    ):
        labels = f'{{job="shadow-pleg", node="{node}", instance="{node}", pod="{pod}"}}'
        values = {"process_start_time_seconds": began, lost: losses}
        series += [{"series": name + labels, "values": of} for name, of in values.items()]
    asked = [
        {
            "expr": f"sum by (node) ({record})",
            "eval_time": at,
            "exp_samples": [
                {"labels": f'{{node="{node}"}}', "value": number}
                for node, number in (("a", of_a), ("b", 1))
            ],
        }
        for at, of_a in (("15m", 3), ("20m", 2))
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    judged(test, shipped=needed(groups(), record))


def test_two_counts_of_events_show_on_whose_side_some_were_lost(judged: Judged) -> None:
    """Only where each side gets all: not while one of them is not subscribed."""
    record = "shadow_pleg:node:kubelet_missed_events:increase15m"
    cases = {"even": 0, "kubelet": 60, "exporter": -60, "gate off": None, "cut": None}
    tests = []
    for case, difference in cases.items():
        it = fleet(whole=True, evented=case != "gate off")
        events = it["a"].exporter if case == "exporter" else it["a"].kubelet
        if difference:
            name = RECEIVED if case == "exporter" else KUBELET_EVENTS
            events.grow(40, name, -4 if case == "kubelet" else -0.5)
        if case == "cut":
            it["a"].restart_runtime(45, 2)
        tests.append(numbers(it, f"sum(round({record}{{node='a'}}))", {"59m": difference}))
    judged(*tests, shipped=needed(groups(), record))


def test_recording_rules_add_as_many_series_as_the_readme_says(judged: Judged) -> None:
    series = {name: sum(each.series for each in group) for name, group in records(VALUES).items()}
    healthy, worst, idle = (fleet(whole=True, evented=True) for _ in range(3))
    for event, cause in product(Lifecycle, Cause):
        worst["a"].miss(40, event.label, cause.value, 9)
    idle["a"].churn(0, 0)
    judged(
        counted(worst, "node", series["node"] + LOSES_ALL + 1),
        counted(worst, "cluster", series["cluster"]),
        counted(worst, "process", series["report"] - 1),
        counted(healthy, "node", HEALTHY),
        counted(idle, "node", IDLE),
        # Often enough for what is recorded to be found.
        interval="3m",
    )
    page = (ALERTS / "README.md").read_text(encoding="utf-8")
    of_nodes = series["node"] + series["alerts"] + series["report"]
    assert f"At most {of_nodes} series a node and {series['cluster']} a cluster" in page
    healthy_ones, idle_ones = (each + series["report"] - 1 for each in (HEALTHY, IDLE))
    assert f"loses nothing has {healthy_ones} series, an idle one {idle_ones}." in page
