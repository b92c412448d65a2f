"""promtool's own tests of rules, written and run; each case is a cluster of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from alerts.render import ALERTS as ENTRIES
from alerts.values import load
from tests.support.alert_fleet import CLUSTER, AlertFleet, Change
from tests.support.expressions import ALERTS

VALUES: Final = load()
SUMMARIES: Final = {alert.name: alert.summary for alert in ENTRIES}
# Cases are evaluated together if the minutes that they are asked at end so close to each other.
_CLOSE: Final = 15
Complaints = Mapping[str, str]
# An alert and the node that it names; no node for one about the cluster.
Firing = tuple[str, str]


class Incident(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What befalls a fleet, and what is said about it: tests/alerts/incidents.yaml explains it."""

    alert: str
    when: list[Change]
    at: int
    severity: str
    says: str
    node: str = "a"
    beside: frozenset[Firing] = frozenset()
    minutes: int = 60
    evented: bool = False
    restart: bool | None = True
    gap: bool | None = True

    @property
    def firing(self) -> frozenset[Firing]:
        """All that fires."""
        return self.beside | {(self.alert, self.node)}

    def fleet(self) -> AlertFleet:
        """The fleet after the incident."""
        return AlertFleet(self.minutes, self.when, evented=self.evented)


class Calm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What no alert may fire for; `near`: the alert to which it comes close, if any."""

    when: list[Change]
    at: list[int]
    near: str = ""


class Awkward(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An exit lost at an awkward moment, and the alert that fires all the same."""

    when: list[Change]
    at: int
    fires: str


@dataclass(frozen=True, slots=True)
class RuleCase:
    """At each of these minutes, all of `firing` and nothing else fires in the fleet.

    `of`: then also what the alert of this incident says is compared.
    """

    name: str
    fleet: AlertFleet
    minutes: tuple[int, ...]
    firing: frozenset[Firing]
    of: Incident | None = None

    @property
    def cluster(self) -> str:
        """The label that tells it from the other cases; empty if its cluster has no name."""
        return self.name if self.fleet.cluster else ""

    def clashes(self, other: RuleCase) -> bool:
        """Whether promtool could not tell them apart."""
        mine, others = ({alert for alert, _ in each.firing} for each in (self, other))
        return (
            self.cluster == other.cluster
            or (self.of is not None and self.of.alert in others)
            or (other.of is not None and other.of.alert in mine)
        )


def _labels(case: RuleCase, alert: str, node: str) -> dict[str, str]:
    mine = {"alertname": alert, "severity": VALUES.alerts[alert].severity}
    cluster = {"cluster": case.cluster} if case.cluster else {}
    return mine | cluster | ({"node": node} if node else {})


def _fires(cluster: str, minute: int, expected: Iterable[dict[str, str]]) -> dict[str, Any]:
    """All that fires in a cluster at this minute."""
    samples = []
    for labels in expected:
        firing = labels | {"alertstate": "firing"}
        text = ", ".join(f'{name}="{value}"' for name, value in sorted(firing.items()))
        samples.append({"labels": f"ALERTS{{{text}}}", "value": 1})
    expr = f'ALERTS{{alertstate="firing", cluster="{cluster}"}}'
    return {"expr": expr, "eval_time": f"{minute}m", "exp_samples": samples}


def _announced(case: RuleCase, incident: Incident) -> dict[str, Any]:
    """What an incident's alert says, to the last label and annotation."""
    node = f"&var-node={incident.node}" if incident.node else ""
    board = "shadow-pleg-node" if incident.node else "shadow-pleg-fleet"
    expected = {
        "exp_labels": {
            name: value
            for name, value in _labels(case, incident.alert, incident.node).items()
            if name != "alertname"
        }
        | {"severity": incident.severity},
        "exp_annotations": {
            "summary": SUMMARIES[incident.alert],
            "description": incident.says.replace(f"luster {CLUSTER}", f"luster {case.cluster}"),
            "runbook_url": f"https://shadow-pleg.invalid/docs/runbooks/{incident.alert}.md",
            "dashboard_url": f"https://grafana.invalid/d/{board}?var-cluster={case.cluster}{node}",
        },
    }
    return {
        "eval_time": f"{incident.at}m",
        "alertname": incident.alert,
        "exp_alerts": [expected],
    }


def batches_of(cases: Iterable[RuleCase]) -> Iterator[list[RuleCase]]:
    """Batches of cases that can be evaluated at once."""
    batches: list[list[RuleCase]] = []
    for case in sorted(cases, key=lambda each: max(each.minutes)):
        for batch in batches:
            close = max(case.minutes) - max(batch[0].minutes) < _CLOSE
            if close and not any(map(case.clashes, batch)):
                batch.append(case)
                break
        else:
            batches.append([case])
    yield from batches


def judged(batch: list[RuleCase]) -> dict[str, Any]:
    """Cases as promtool reads them."""
    asked = [
        _fires(case.cluster, minute, (_labels(case, *each) for each in sorted(case.firing)))
        for case in batch
        for minute in case.minutes
    ]
    if all(case.cluster for case in batch):
        # Nothing fires without saying where.
        asked += [_fires("", minute, ()) for minute in {m for case in batch for m in case.minutes}]
    return {
        "interval": "1m",
        "input_series": [
            line
            for case in batch
            for target in case.fleet.targets
            for line in target.notation(case.cluster)
        ],
        "promql_expr_test": asked,
        "alert_rule_test": [_announced(case, case.of) for case in batch if case.of],
    }


def run(promtool: Path, folder: Path, tests: Iterable[dict[str, Any]], interval: str = "1m") -> str:
    """What promtool says against the shipped rules in these tests; empty if there are none."""
    file, shipped = folder / "test.yaml", ALERTS / "rules.yaml"
    groups = yaml.load(shipped.read_bytes(), yaml.CSafeLoader)["groups"]
    document = {
        "rule_files": [str(shipped)],
        # Else promtool shuffles them, and a rule may see what another recorded a minute ago.
        "group_eval_order": [group["name"] for group in groups],
        "evaluation_interval": interval,
        "tests": list(tests),
    }
    # JSON is YAML, and written faster.
    file.write_text(json.dumps(document), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", file],
        capture_output=True,
        text=True,
        check=False,
        # It is short-lived: memory is cheaper than a fifth of its time.
        env=os.environ | {"GOGC": "400"},
    )
    said = (done.stdout + done.stderr).strip()
    return "" if done.returncode == 0 and said.endswith("SUCCESS") else said


def complaints(promtool: Path, folder: Path, cases: Iterable[RuleCase]) -> Complaints:
    """What promtool says against each case, by name; no entry where it has nothing to say."""
    found: dict[str, str] = {}
    for number, batch in enumerate(batches := list(batches_of(cases))):
        where = folder / str(number)
        where.mkdir()
        said = run(promtool, where, [judged(batch)]).replace('\\"', '"')
        parts = re.split(r"\n(?=    (?:expr|alertname): )", said)
        for part in parts[1:] if len(parts) > 1 else filter(None, parts):
            about = [case.name for case in batch if f'cluster="{case.cluster}"' in part]
            assert about, part
            for name in about:
                found[name] = f"{found.get(name, '')}\n{part}"
    assert batches
    return found
