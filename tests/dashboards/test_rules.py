"""What a good dashboard has: the rules of Grafana's own linter, and those of this project."""

import json
import re
from typing import Any

import pytest

from dashboards.queries import LABELS, LINKS, VALUES
from exporter.model.findings import Cause
from tests.support.expressions import (
    ASKED,
    BOARDS,
    MARKED,
    PANELS,
    Asked,
    Panel,
    metrics_of,
    promql,
    selectors_of,
)

pytestmark = pytest.mark.quick
# Grafana's units that are used here; its list is longer.
UNITS = {"short", "locale", "percentunit", "s", "eps", "bytes"}

every_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
every_panel = pytest.mark.parametrize("panel", PANELS, ids=str)
every_expression = pytest.mark.parametrize("asked", [*ASKED, *MARKED], ids=str)


def overrides(panel: Panel, name: str) -> list[Any]:
    """The values of a property in a panel's overrides."""
    of_fields = (each["properties"] for each in panel.json["fieldConfig"]["overrides"])
    return [each["value"] for found in of_fields for each in found if each["id"] == name]


@every_board
def test_a_dashboard_is_imported_as_it_is(board: dict[str, Any]) -> None:
    """No id, no input to fill in, a schema of Grafana 10, and nothing that schema 43 changes."""
    assert isinstance(board["refresh"], str)
    changed = r"timeSeriesTable|formatTime|time_options|custom\.hideFrom"
    assert not re.search(changed, json.dumps(board))
    assert board.get("id") is None
    assert "__inputs" not in board
    assert board["schemaVersion"] == 38
    assert board["title"]
    assert board["description"]
    assert "shadow-pleg" in board["tags"]


@every_panel
def test_a_panel_says_what_it_shows_and_what_is_good(panel: Panel) -> None:
    """Title, unit, and a description that a stranger can act on."""
    assert panel.json["title"]
    assert re.search(r"\bGood: ", panel.json["description"])
    unit = panel.json["fieldConfig"]["defaults"].get("unit")
    assert {unit or panel.json["options"]["yAxis"]["unit"], *overrides(panel, "unit")} <= UNITS


@every_expression
def test_an_expression_stays_with_what_was_chosen(asked: Asked) -> None:
    """Each selector names cluster, job and node; the job of others is that of the values file.

    What rules recorded has no job, and no node where it is about a cluster.
    """
    selectors = selectors_of(promql(asked))
    assert selectors
    for selector in selectors:
        matchers = set(map(str, selector.matchers.matchers))
        name = min(metrics_of(str(selector)))
        assert f'{LABELS.cluster}=~"$cluster"' in matchers
        if ":cluster:" in name:
            continue
        assert any(each.startswith(f'{LABELS.node}=~"$node') for each in matchers)
        if name.startswith(("kubelet_", "kubernetes_")):
            assert matchers >= {VALUES.selectors.kubelet}
        elif name.startswith("container"):
            assert matchers >= {VALUES.selectors.runtime}
        elif name == "process_start_time_seconds":
            assert matchers & {'job=~"$job"', VALUES.selectors.kubelet, VALUES.selectors.runtime}
        elif name != "ALERTS" and ":" not in name:
            assert 'job=~"$job"' in matchers


@every_expression
def test_a_counter_is_looked_at_over_grafanas_own_interval(asked: Asked) -> None:
    """For as long as a point on the screen stands for, or for all that is shown; nothing fixed."""
    spans = re.findall(r"\[([^\]]+)\]", asked.expr)
    assert set(spans) <= {"$__rate_interval", "$__range", "$__range:$__interval"}
    counters = [name for name in metrics_of(promql(asked)) if name.endswith(("_total", "_bucket"))]
    assert not counters or spans or " offset $__interval " in asked.expr
    assert set(re.findall(r" offset (\S+)", asked.expr)) <= {"$__interval"}
    # A total of all that is shown, drawn as a line, would be the same for no two points.
    if not asked.instant:
        assert all("@ end()" in rest for rest in asked.expr.split("$__range]")[1:])


def test_the_fleet_counts_what_rules_keep() -> None:
    """Or weeks of thousands of nodes are beyond Prometheus; kubelets' and runtimes' own apart."""
    others = (
        "shadow_pleg_kubelet_",
        "containerd_cri_container_events_dropped_total",
        "container_runtime_crio_containers_events_dropped_total",
    )
    asked = [each for each in ASKED if each.board == LINKS.fleet_uid and "$__range" in each.expr]
    for each in asked:
        for metric in re.findall(r"(\w[\w:]*){[^}]*}\[\$__range\]", each.expr):
            assert metric.startswith(("shadow_pleg:", *others)), each
    assert len(asked) > 15


def test_every_cause_of_a_loss_has_its_colour_wherever_causes_are_drawn() -> None:
    """And its words, where they are not its name."""
    lost = {cause.value for cause in Cause} - {Cause.BY_DESIGN.value}
    drawn = [
        each
        for each in PANELS
        if any("{{cause}}" in target.get("legendFormat", "") for target in each.json["targets"])
    ]
    assert len(drawn) == len(BOARDS)
    for panel in drawn:
        named = [each["matcher"]["options"] for each in panel.json["fieldConfig"]["overrides"]]
        assert lost <= set(named)
        assert all(f"{cause}: " in panel.json["description"] for cause in lost)
        assert len({str(colour) for colour in overrides(panel, "color")}) == len(named)
