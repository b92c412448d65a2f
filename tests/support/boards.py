"""The dashboards as Grafana reads them: the JSON files, taken apart."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests import ROOT

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
