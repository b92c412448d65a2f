"""The shipped rules, evaluated by promtool: which alerts fire for fleets, from when to when."""

import itertools
import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from alerts.entries import INHIBITIONS, MANY, Level
from alerts.render import group_wait
from alerts.values import load, seconds
from exporter.settings.flags import duration
from tests.support.alert_fleets import Fleet
from tests.support.expressions import groups, needed

VALUES: Final = load()
# Minutes for which Alertmanager holds back what is new.
_GROUP_WAIT: Final = group_wait(VALUES) // 60
_ANSWER: Final = re.compile(r"^    (?:expr|alertname): .*, time: (\w+),", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert that fired from one minute to another, both included."""

    alert: str
    severity: str
    cluster: str
    node: str
    problem: str
    since: int
    until: int

    def mutes(self, other: Self, minute: int) -> bool:
        """Whether Alertmanager holds the other one back then, because this one fires."""
        if self.cluster != other.cluster or not self.since <= minute <= self.until:
            return False
        mine, its = (each.problem or each.alert for each in (self, other))
        alike = self.severity == other.severity
        if self.alert == MANY and other.alert == mine:
            return alike
        return (self.alert == MANY) == (other.alert == MANY) and any(
            mine in each.by
            and its in each.muted
            and (alike or not each.alike)
            and (each.same is Level.CLUSTER or self.node == other.node)
            for each in INHIBITIONS
        )


def delivered(fired: Sequence[Fired]) -> list[Fired]:
    """What reaches a person: not what other alerts hold back for as long as it fires."""
    return [
        each
        for each in fired
        if any(
            not any(other.mutes(each, minute) for other in fired)
            for minute in range(each.since + _GROUP_WAIT, each.until + 1)
        )
    ]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """All that fired, and the descriptions of what fires, by alert, cluster, problem and minute."""

    fired: list[Fired]
    annotations: Mapping[tuple[str | int, ...], Mapping[str, str]]

    def of(self, cluster: str) -> list[Fired]:
        return [each for each in self.fired if each.cluster == cluster]


def evaluate(
    promtool: Path,
    folder: Path,
    fleets: Iterable[Fleet],
    minutes: range,
    texts: Iterable[tuple[str, int]] = (),
) -> Evaluated:
    """Evaluate the rules for all fleets at once, in each of these minutes, or each second one.

    `texts`: alerts, and the minutes at which their annotations are wanted.
    """
    begin, end, step = minutes.start, minutes.stop, minutes.step
    # Nothing is expected, so promtool prints all that there is.
    test = fed(fleets, begin, end) | {
        "promql_expr_test": [
            {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minute}m"}
            for minute in range(0, end - begin, step)
        ],
        "alert_rule_test": [
            {"alertname": alert, "eval_time": f"{minute - begin}m"} for alert, minute in set(texts)
        ],
    }
    minutes_of: dict[tuple[str, str, str, str, str], list[int]] = defaultdict(list)
    annotations: dict[tuple[str | int, ...], Mapping[str, str]] = {}
    for offset, part in _answers(run(promtool, folder, [test], f"{step}m", needed(groups()))):
        at = begin + offset
        if "Annotations:" in part:
            for mine, its in re.findall(r"Labels:(\{.*\})\s+Annotations:(\{.*\})", part):
                labels = _labels(mine)
                key = (labels.get(name, "") for name in ("alertname", "cluster", "problem"))
                annotations[*key, at] = _labels(its)
            continue
        for labels in map(_labels, re.findall(r"\{[^}]*\}", part.partition("got:")[2])):
            of = labels["alertname"], labels["severity"]
            where = (labels.get(name, "") for name in ("cluster", "node", "problem"))
            cluster, node, problem = where
            minutes_of[*of, cluster, node, problem].append(at)
    return Evaluated(
        [Fired(*key, *span) for key, at in minutes_of.items() for span in _spans(at, step)],
        annotations,
    )


def fed(fleets: Iterable[Fleet], begin: int, end: int) -> dict[str, Any]:
    """A test of promtool's with these minutes of fleets, all scraped at the same grid of times."""
    fleets = list(fleets)
    (grid,) = {fleet.grid for fleet in fleets}
    series = [line for fleet in fleets for line in fleet.notation(begin, end)]
    return {"interval": f"{grid}s", "input_series": series}


def run(
    promtool: Path,
    folder: Path,
    tests: Iterable[dict[str, Any]],
    interval: str = "1m",
    shipped: list[dict[str, Any]] | None = None,
) -> str:
    """What promtool says against the rules in these tests; empty if there is nothing.

    `shipped`: groups other than all that ship; those of alerts alone take a quarter of the time.
    With an `interval` of 2m, `for` is so much less that all fires that would fire with 1m.
    """
    file, judged = folder / "test.yaml", folder / "rules.yaml"
    judging = groups() if shipped is None else shipped
    if interval == "2m":
        for rule in (rule for group in judging for rule in group["rules"] if "for" in rule):
            # What holds for so long in all minutes holds at least for that in even ones.
            rule["for"] = f"{max(0, (seconds(rule['for']) // 60 - 1) // 2 * 2)}m"
    judged.write_text(json.dumps({"groups": judging}), encoding="utf-8")
    document = {
        "rule_files": [str(judged)],
        # Else promtool shuffles them, and a rule may see what another recorded a minute ago.
        "group_eval_order": [group["name"] for group in judging],
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
        # It is short-lived: some memory is cheaper than a fifth of its time.
        env=os.environ | {"GOGC": "400", "GOMEMLIMIT": "1GiB"},
    )
    said = (done.stdout + done.stderr).strip()
    return "" if done.returncode == 0 and said.endswith("SUCCESS") else said


def _answers(said: str) -> Iterator[tuple[int, str]]:
    found = list(_ANSWER.finditer(said))
    assert found or not said, said
    for this, following in itertools.zip_longest(found, found[1:]):
        yield (
            int(duration(this[1])) // 60,
            said[this.start() : following.start() if following else None],
        )


def _labels(text: str) -> dict[str, str]:
    return {name: json.loads(f'"{value}"') for name, value in _LABEL.findall(text)}


def _spans(minutes: Sequence[int], step: int) -> Iterator[tuple[int, int]]:
    """The first and the last of each row of minutes without a gap."""
    numbered = enumerate(sorted(minutes))
    for _, row in itertools.groupby(numbered, key=lambda it: it[1] - step * it[0]):
        _, at = zip(*row, strict=True)
        yield at[0], at[-1]
