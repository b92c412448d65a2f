"""The shipped rules, and what their expressions name, as a PromQL parser sees it."""

import re
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


def for_alerts(shipped: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These groups with all alerts, and the records that alerts read, or such records do."""
    rules = [rule for group in shipped for rule in group["rules"]]
    needed = [rule for rule in rules if "alert" in rule]
    for rule in needed:
        read = metrics_of(rule["expr"])
        needed += [each for each in rules if each.get("record") in read and each not in needed]
    kept = ([rule for rule in group["rules"] if rule in needed] for group in shipped)
    return [group | {"rules": some} for group, some in zip(shipped, kept, strict=True) if some]
