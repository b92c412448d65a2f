"""Renders the dashboards: `make generate` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from dashboards import frame, panels
from dashboards.limits import LABELS, LINKS
from dashboards.source import SOURCE, Board, Texts

HERE: Final = Path(__file__).parent


def rendered() -> dict[Path, str]:
    """The text of each file."""
    boards = (_built(name, board) for name, board in SOURCE.boards.items())
    return {
        HERE / f"{board.uid}.json": json.dumps(board, cls=JSONEncoder, indent=2, sort_keys=True)
        + "\n"
        for board in boards
    }


def _built(name: str, board: Board) -> models.Dashboard:
    texts, fleet = Texts(fleet=name == "fleet"), name == "fleet"
    uid = LINKS.fleet_uid if fleet else LINKS.node_uid
    built = frame.new(uid, board.title, board.about, board.since)
    _chooses(built, fleet=fleet)
    for title, url in board.links.items():
        built.link(frame.link(title, texts.text(url)))
    for title, places in board.sections.items():
        built.with_row(dashboard.Row(title))
        for place in places:
            panel = panels.made(SOURCE.panels[place.panel], texts, fleet=fleet).span(place.width)
            built.with_panel(panel.height(place.height) if place.height else panel)
    marks = [
        frame.Annotation(title, mark.colour, texts.text(mark.expr), mark.text)
        for title, mark in SOURCE.marks.items()
        if name in mark.boards
    ]
    return frame.finished(built, marks)


def _chooses(board: dashboard.Dashboard, *, fleet: bool) -> None:
    """What is shown: of all nodes, or of one; and where else to look."""
    cluster = f'{LABELS.cluster}=~"$cluster"'
    node = frame.variable("node", LABELS.node, f'{cluster}, job=~"$job"')
    board.with_variable(frame.several(frame.variable("cluster", LABELS.cluster)))
    board.with_variable(frame.several(frame.variable("job", "job", cluster)))
    board.with_variable(frame.several(node) if fleet else node)
    board.with_variable(frame.runbooks())
    other = ("Node", LINKS.node_uid) if fleet else ("Fleet", LINKS.fleet_uid)
    board.link(frame.sibling(*other))
    board.link(frame.link("Runbooks", frame.RUNBOOKS))
