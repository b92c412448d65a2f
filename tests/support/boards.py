"""The dashboards as Grafana reads them: the JSON files, taken apart.

Here: panels, targets, variables, and what Grafana puts in for these. Not here: what is right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import ROOT

FOLDER: Final = ROOT / "dashboards"
FILES: Final = sorted(FOLDER.glob("*.json"))
FLEET: Final = FOLDER / "shadow-pleg-fleet.json"
NODE: Final = FOLDER / "shadow-pleg-node.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """An expression, with the place that it stands at; `instant` ones are asked for one moment."""

    board: str
    place: str
    expr: str
    instant: bool = False
    # What Grafana makes of the answer: time_series, table, heatmap.
    form: str = "time_series"

    def __str__(self) -> str:
        return f"{self.board}: {self.place}"


def load(path: Path) -> dict[str, Any]:
    """Read a dashboard."""
    board: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return board


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Panels without the headings."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def asked(board: Mapping[str, Any]) -> Iterator[Asked]:
    """Every expression of the panels."""
    for panel in panels(board):
        for target in panel["targets"]:
            instant, form = target.get("instant", False), target.get("format", "time_series")
            place = f"{panel['title']} {target['refId']}"
            yield Asked(board["uid"], place, target["expr"], instant, form)


def marked(board: Mapping[str, Any]) -> Iterator[Asked]:
    """Every expression of the annotations."""
    for mark in board["annotations"]["list"]:
        yield Asked(board["uid"], mark["name"], mark["target"]["expr"])


def variables(board: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name, series and label of every variable that is asked for."""
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert found, variable
            yield variable["name"], found[1], found[2]


def filled(expr: str, values: Mapping[str, str]) -> str:
    """Put values in for the variables, as Grafana does before it asks; the longest names first."""
    for name in sorted(values, key=len, reverse=True):
        expr = re.sub(rf"\$\{{{name}\}}|\${name}\b", values[name].replace("\\", r"\\"), expr)
    return expr


def metrics(expr: str) -> set[str]:
    """Names of the metrics that an expression selects: what stands before a brace or a bracket."""
    return set(re.findall(r"\b([a-zA-Z_:][\w:]*)(?=\{)", expr))
