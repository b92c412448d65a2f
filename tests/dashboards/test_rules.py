"""What a good dashboard has: the rules of Grafana's own linter, and those of this house."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.limits import LIMITS
from tests.support import boards
from tests.support.boards import Asked
from tests.support.exposition import measured, ours
from tests.support.expressions import metrics_of

pytestmark = pytest.mark.quick

EVERY = [pytest.param(boards.load(path), id=path.stem) for path in boards.FILES]
PANELS = [
    pytest.param(panel, id=f"{path.stem}: {panel['title']}")
    for path in boards.FILES
    for panel in boards.panels(boards.load(path))
]
ASKED = [
    pytest.param(asked, id=str(asked))
    for path in boards.FILES
    for asked in (*boards.asked(boards.load(path)), *boards.marked(boards.load(path)))
]
# What others export: what the rules name too, and besides, with where it comes from.
ONLY_HERE = {
    "ALERTS": "Prometheus itself, for each alert that is pending or fires",
    "kubelet_pleg_relist_duration_seconds_bucket": "kubelet; pkg/kubelet/metrics",
    "kubelet_pleg_relist_interval_seconds_count": "kubelet; pkg/kubelet/metrics",
    "kubelet_pleg_relist_interval_seconds_sum": "kubelet; pkg/kubelet/metrics",
    "process_cpu_seconds_total": "every Python process; prometheus-client",
    "process_resident_memory_bytes": "every Python process; prometheus-client",
}
FOREIGN = set(ONLY_HERE) | set(
    yaml.safe_load(Path("tests/alerts/foreign.yaml").read_text(encoding="utf-8"))
)
# Grafana's units that are used here; its list is longer.
UNITS = {"short", "percentunit", "s", "eps", "bytes"}
VALUES = yaml.safe_load(Path("alerts/values.yaml").read_text(encoding="utf-8"))


def catalogue() -> set[str]:
    """Every name that the exporter's own metrics are queried by."""
    names = set()
    for family in ours(measured().registry):
        names |= {sample.name for sample in family.samples}
    return names


def thresholds(panel: dict[str, Any]) -> set[float]:
    """Every value at which a panel changes its colour."""
    defaults = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
    steps = list(defaults)
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            if each["id"] == "thresholds":
                steps += each["value"]["steps"]
    return {step["value"] for step in steps if step["value"] is not None}


def test_there_are_two_dashboards_that_can_be_linked_to() -> None:
    """The uids are part of the interface: alerts link to them."""
    uids = {boards.load(path)["uid"] for path in boards.FILES}
    assert uids == {"shadow-pleg-fleet", "shadow-pleg-node"}
    assert uids == {VALUES["links"]["fleet_uid"], VALUES["links"]["node_uid"]}


@pytest.mark.parametrize("board", EVERY)
def test_a_dashboard_is_imported_as_it_is(board: dict[str, Any]) -> None:
    """No id of another Grafana, no input to fill in, a schema that Grafana 10 knows."""
    assert board.get("id") is None
    assert "__inputs" not in board
    assert board["schemaVersion"] == 38
    assert board["title"]
    assert board["description"]
    assert "shadow-pleg" in board["tags"]


@pytest.mark.parametrize("board", EVERY)
def test_the_variables_are_those_that_everybody_expects(board: dict[str, Any]) -> None:
    """One for the source, and one for each label that tells targets apart, asked of that source."""
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names[:4] == ["datasource", "cluster", "job", "node"]
    for variable in board["templating"]["list"]:
        assert variable["label"]
        if variable["type"] == "query":
            assert variable["datasource"]["uid"] == "${datasource}"
            assert variable["refresh"] == 2
    cluster, job = board["templating"]["list"][1:3]
    # Also where no target has the label.
    assert (cluster["allValue"], job["allValue"]) == (".*", ".*")


@pytest.mark.parametrize("board", EVERY)
def test_ids_are_unique_and_nothing_overlaps(board: dict[str, Any]) -> None:
    """Within the 24 columns; every line of panels is as wide as the page."""
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    spots = {panel["id"]: panel["gridPos"] for panel in board["panels"]}
    for spot in spots.values():
        assert spot["w"] > 0
        assert spot["h"] > 0
        assert spot["x"] + spot["w"] <= 24
    for one, other in combinations(spots.values(), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)
    widths = Counter[int]()
    for spot in spots.values():
        widths[spot["y"]] += spot["w"]
    assert set(widths.values()) == {24}


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_and_what_is_good(panel: dict[str, Any]) -> None:
    """Title, unit, and a description that a stranger can act on."""
    assert panel["title"]
    assert re.search(r"\bGood: ", panel["description"]), panel["description"]
    unit = panel["fieldConfig"]["defaults"].get("unit") or panel["options"]["yAxis"]["unit"]
    assert unit in UNITS
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            assert each["id"] != "unit" or each["value"] in UNITS


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_asks_the_chosen_source(panel: dict[str, Any]) -> None:
    """The panel and each target; every target has its own letter."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == source
    assert panel["targets"]
    assert all(target["datasource"] == source for target in panel["targets"])
    letters = [target["refId"] for target in panel["targets"]]
    assert len(set(letters)) == len(letters)
    if panel["type"] == "timeseries":
        assert all(target["legendFormat"] != "__auto" for target in panel["targets"])


@pytest.mark.parametrize("asked", ASKED)
def test_an_expression_stays_with_what_was_chosen(asked: Asked) -> None:
    """Each selector names cluster, job and node; the job of others is that of the values file."""
    selectors = re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", asked.expr)
    assert selectors
    for name, matchers in selectors:
        assert f'{LIMITS.cluster}=~"$cluster"' in matchers
        assert f'{LIMITS.node}=~"$node' in matchers
        if name.startswith("kubelet_"):
            assert VALUES["selectors"]["kubelet"] in matchers
        elif name.startswith("container"):
            assert VALUES["selectors"]["runtime"] in matchers
        elif name != "ALERTS":
            assert 'job=~"$job"' in matchers
    # Nothing is selected without braces, so nothing escapes the rules above.
    assert not re.findall(r"\b(?:shadow_pleg|kube_pod|kubelet)_\w+(?![\w{])", asked.expr)


@pytest.mark.parametrize("asked", ASKED)
def test_a_counter_is_looked_at_over_grafanas_own_interval(asked: Asked) -> None:
    """For as long as a point on the screen stands for, or for all that is shown; nothing fixed."""
    spans = re.findall(r"\[([^\]]+)\]", asked.expr)
    assert set(spans) <= {"$__rate_interval", "$__range"}
    counters = [name for name in boards.metrics(asked.expr) if name.endswith(("_total", "_bucket"))]
    assert not counters or spans
    # A total of all that is shown, drawn as a line, would be the same for no two points.
    if not asked.instant:
        assert all("@ end()" in rest for rest in asked.expr.split("$__range]")[1:])


@pytest.mark.parametrize("asked", ASKED)
def test_every_metric_is_one_that_somebody_exports(asked: Asked) -> None:
    """Ours are in the catalogue, others' in the list above."""
    assert boards.metrics(asked.expr) <= catalogue() | FOREIGN


def test_the_list_of_others_metrics_is_not_longer_than_needed() -> None:
    """Each is asked for somewhere, and is on one list."""
    boards_of = map(boards.load, boards.FILES)
    asked = [each for b in boards_of for each in (*boards.asked(b), *boards.marked(b))]
    named = {name for each in asked for name in boards.metrics(each.expr)}
    assert named >= set(ONLY_HERE)
    rules = yaml.safe_load(Path("tests/alerts/foreign.yaml").read_text(encoding="utf-8"))
    assert set(ONLY_HERE).isdisjoint(rules)


@pytest.mark.parametrize("asked", ASKED)
def test_nothing_is_selected_that_these_rules_do_not_see(asked: Asked) -> None:
    """A parser of PromQL finds the same metrics as the search for names before braces."""
    values = {"__rate_interval": "1m", "__range": "1h", "group": "canary"}
    filled = re.sub(r"\$(?:cluster|job|node)", "x", boards.filled(asked.expr, values))
    assert metrics_of(filled) == boards.metrics(asked.expr)


@pytest.mark.parametrize("asked", ASKED)
def test_no_expression_costs_more_with_more_pods(asked: Asked) -> None:
    """None asks for a label or a metric whose number grows with pods."""
    assert not re.search(r"\b(?:pod|container|namespace|container_id)\b(?!_)", asked.expr)


def test_the_thresholds_are_those_of_the_alerts() -> None:
    """Panel by panel, straight from the values file: one number, one place."""
    limits, budget = VALUES["thresholds"], round(1 - VALUES["slo"]["objective"] / 100, 9)
    expected = {
        ("shadow-pleg-fleet", "Missed ratio"): budget,
        ("shadow-pleg-fleet", "Ratio is at most (95 %)"): budget,
        ("shadow-pleg-fleet", "Go or no-go, by group"): limits["delivery_p99_seconds"],
        ("shadow-pleg-fleet", "Worst nodes"): limits["relist_stale_seconds"],
        ("shadow-pleg-fleet", "Age of the last relist"): limits["relist_stale_seconds"],
        ("shadow-pleg-node", "Ratio is at most (95 %)"): budget,
        ("shadow-pleg-node", "Last relist"): limits["relist_stale_seconds"],
        ("shadow-pleg-node", "Age of what was seen last"): limits["relist_stale_seconds"],
        ("shadow-pleg-node", "Duration of relists"): limits["relist_slow_seconds"],
        ("shadow-pleg-node", "Interval of relists"): limits["relist_stretched_seconds"],
        ("shadow-pleg-node", "Event loop lag"): limits["loop_lag_seconds"],
    }
    found = {
        (board["uid"], panel["title"]): thresholds(panel)
        for board in map(boards.load, boards.FILES)
        for panel in boards.panels(board)
    }
    for place, limit in expected.items():
        assert limit in found[place], place


@pytest.mark.parametrize("board", EVERY)
def test_links_to_runbooks_are_those_of_alerts_that_exist(board: dict[str, Any]) -> None:
    """Under the base of the values file, and enough of them to be found in an emergency."""
    links = [link["url"] for panel in boards.panels(board) for link in panel.get("links", [])]
    base = VALUES["links"]["runbooks"]
    assert {link.removeprefix(f"{base}/").removesuffix(".md") for link in links} <= set(
        VALUES["alerts"]
    )
    assert len(set(links)) >= 6
    assert base in json.dumps(board["links"])


@pytest.mark.parametrize("board", EVERY)
def test_each_dashboard_leads_to_the_other(board: dict[str, Any]) -> None:
    """With the source, the cluster and the job; not with "All" for a node."""
    (other,) = {"shadow-pleg-fleet", "shadow-pleg-node"} - {board["uid"]}
    (link,) = (link for link in board["links"] if link["url"].startswith("/d/"))
    chosen = "var-datasource=${datasource}&${cluster:queryparam}&${job:queryparam}"
    assert link["url"] == f"/d/{other}?{chosen}"
    assert link["keepTime"]
    assert not link["includeVars"]


def test_a_row_of_the_fleet_leads_to_its_node() -> None:
    """The link carries source, cluster, node and time."""
    fleet = boards.load(boards.FLEET)
    (worst,) = (panel for panel in boards.panels(fleet) if panel["title"] == "Worst nodes")
    texts = json.dumps(worst["fieldConfig"]["overrides"])
    assert "/d/shadow-pleg-node?var-datasource=${datasource}" in texts
    assert "var-node=${__data.fields.Node}" in texts
    assert "${__url_time_range}" in texts
