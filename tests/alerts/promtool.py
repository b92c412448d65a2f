"""promtool's own tests of rules, written and run.

Here: what a case is, and the tool. Not here: cases.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from alerts.values import Values, load
from tests.alerts.fleet import CLUSTER, Fleet
from tests.alerts.incidents import Firing, Incident

ALERTS: Final = Path(__file__).parents[2] / "alerts"
VALUES: Final = load()


@dataclass(frozen=True, slots=True)
class Case:
    """At each of these minutes, all of `firing` and nothing else fires in the fleet."""

    name: str
    fleet: Fleet
    minutes: tuple[int, ...]
    firing: frozenset[Firing]


def _grade(alert: str, values: Values = VALUES) -> str:
    return values.alerts[alert].severity


def _labels(fleet: Fleet, alert: str, node: str) -> dict[str, str]:
    mine = {"alertname": alert, "severity": _grade(alert)}
    cluster = {"cluster": fleet.a.cluster} if fleet.a.cluster else {}
    return mine | cluster | ({"node": node} if node else {})


def judged(case: Case) -> dict[str, Any]:
    """A case as promtool reads it."""
    samples = []
    for alert, node in sorted(case.firing):
        labels = _labels(case.fleet, alert, node) | {"alertstate": "firing"}
        text = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
        samples.append({"labels": f"ALERTS{{{text}}}", "value": 1})
    asked = {"expr": 'ALERTS{alertstate="firing"}', "exp_samples": samples}
    return {
        "name": case.name,
        "interval": "1m",
        "input_series": case.fleet.notation(),
        "promql_expr_test": [asked | {"eval_time": f"{minute}m"} for minute in case.minutes],
    }


def announced(incident: Incident, fleet: Fleet, summary: str) -> dict[str, Any]:
    """What an incident's alert says, to the last label and annotation."""
    node = f"&var-node={incident.node}" if incident.node else ""
    board = "shadow-pleg-node" if incident.node else "shadow-pleg-fleet"
    expected = {
        "exp_labels": {
            name: value
            for name, value in _labels(fleet, incident.alert, incident.node).items()
            if name != "alertname"
        }
        | {"severity": incident.severity},
        "exp_annotations": {
            "summary": summary,
            "description": incident.says,
            "runbook_url": f"https://shadow-pleg.invalid/docs/runbooks/{incident.alert}.md",
            "dashboard_url": f"https://grafana.invalid/d/{board}?var-cluster={CLUSTER}{node}",
        },
    }
    asked = {
        "eval_time": f"{incident.at}m",
        "alertname": incident.alert,
        "exp_alerts": [expected],
    }
    case = Case(incident.alert, fleet, (incident.at,), incident.firing)
    return judged(case) | {"alert_rule_test": [asked]}


def run(promtool: Path, folder: Path, tests: Iterable[dict[str, Any]]) -> str:
    """What promtool says against the shipped rules in these tests; empty if there are none."""
    file, shipped = folder / "test.yaml", ALERTS / "rules.yaml"
    groups = yaml.safe_load(shipped.read_text(encoding="utf-8"))["groups"]
    document = {
        "rule_files": [str(shipped)],
        # Else promtool shuffles them, and a rule may see what another recorded a minute ago.
        "group_eval_order": [group["name"] for group in groups],
        "evaluation_interval": "1m",
        "tests": list(tests),
    }
    file.write_text(yaml.safe_dump(document, sort_keys=False, width=10_000), encoding="utf-8")
    done = subprocess.run(  # noqa: S603 -- promtool, and a file of ours
        [promtool, "test", "rules", file], capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr).strip()
    return "" if done.returncode == 0 and said.endswith("SUCCESS") else said
