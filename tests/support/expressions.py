"""The shipped rules and dashboards, what they ask, and what that names for a PromQL parser."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import promql_parser
import yaml

from tests import ROOT

ALERTS: Final = ROOT / "alerts"


def groups(only: str = "") -> list[dict[str, Any]]:
    document = yaml.load((ALERTS / "prometheusrule.yaml").read_bytes(), yaml.CSafeLoader)
    return [group for group in document["spec"]["groups"] if only in ("", group["name"])]


def rules() -> list[dict[str, Any]]:
    return [rule for group in groups() for rule in group["rules"]]


def selectors_of(expression: str) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def metrics_of(expression: str) -> set[str]:
    """The names of all metrics in an expression; ALERTS is Prometheus' own."""
    names = set[str]()
    for selector in selectors_of(expression):
        by_label = [m.value for m in selector.matchers.matchers if m.name == "__name__"]
        # One that was renamed has several.
        for name in (selector.name or "".join(by_label)).split("|"):
            assert re.fullmatch(r"[a-zA-Z_:][\w:]*", name), f"no name in {expression}"
            names.add(name)
    return names


def needed(shipped: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """These groups with the rules of these names, else all alerts; and the records they read."""
    rules = [rule for group in shipped for rule in group["rules"]]
    wanted = names or [rule["alert"] for rule in rules if "alert" in rule]
    kept = [rule for rule in rules if (rule.get("alert") or rule["record"]) in wanted]
    for rule in kept:
        read = metrics_of(rule["expr"])
        kept += [each for each in rules if each.get("record") in read and each not in kept]
    some = ([rule for rule in group["rules"] if rule in kept] for group in shipped)
    return [group | {"rules": each} for group, each in zip(shipped, some, strict=True) if each]


BOARDS: Final[dict[str, dict[str, Any]]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "dashboards").glob("*.json"))
}


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel and the dashboard that it is on."""

    board: str
    json: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.board}: {self.json['title']}"


@dataclass(frozen=True, slots=True)
class Asked:
    """An expression and its place; `instant` ones are asked for one moment."""

    board: str
    place: str
    expr: str
    instant: bool = False

    def __str__(self) -> str:
        return f"{self.board}: {self.place}"


PANELS: Final = [
    Panel(name, panel)
    for name, board in BOARDS.items()
    for panel in board["panels"]
    if panel["type"] != "row"
]
ASKED: Final = [
    Asked(
        panel.board,
        f"{panel.json['title']} {target['refId']}",
        target["expr"],
        target.get("instant", False),
    )
    for panel in PANELS
    for target in panel.json["targets"]
]
# Of the annotations.
MARKED: Final = [
    Asked(name, mark["name"], mark["target"]["expr"])
    for name, board in BOARDS.items()
    for mark in board["annotations"]["list"]
]


def panels(board: str) -> list[dict[str, Any]]:
    return [panel.json for panel in PANELS if panel.board == board]


def expression(board: str, place: str) -> str:
    (found,) = (each.expr for each in ASKED if (each.board, each.place) == (board, place))
    return found


def filled(expr: str, values: Mapping[str, str]) -> str:
    """Replace the variables by values, the longest names first, as Grafana does."""
    for name in sorted(values, key=len, reverse=True):
        expr = re.sub(rf"\$\{{{name}\}}|\${name}\b", values[name].replace("\\", r"\\"), expr)
    return expr


def promql(asked: Asked) -> str:
    """An expression that a parser takes: with durations in place of variables."""
    spans = {"__rate_interval": "1m", "__range": "1h", "__interval": "1m", "__interval_ms": "60000"}
    return filled(asked.expr, spans)
