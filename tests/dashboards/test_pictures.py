"""The dashboards as they look: drawn by Grafana's own components, from a real Prometheus' answers.

Here: that every panel draws something, without a complaint, and that what is written in it is what
Prometheus says. Not here: whether a person understands it; `docs/dashboards` has pictures for that.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import pytest_asyncio

from dashboards import queries
from tests.dashboards.conftest import span
from tests.dashboards.pictures import Drawn, Shot, drawn, scene, shots, why_not
from tests.support import boards
from tests.support.fleet_lives import HEALTHY, LOSSY
from tests.support.fleet_prometheus import Prometheus
from tests.support.real.fixtures import unavailable

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    # The first test waits for the fleets and the pictures: 15 s of CPU.
    pytest.mark.timeout(240),
]

THEMES = ("light", "dark")
PNG = b"\x89PNG\r\n\x1a\n"
Album = dict[tuple[str, str], tuple[Shot, Drawn]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def albums(
    lossy: Prometheus, healthy: Prometheus, tmp_path_factory: pytest.TempPathFactory
) -> list[Album]:
    """Pictures of both fleets, each with both dashboards in both themes."""
    if reason := why_not():
        unavailable(reason)
    wanted = [shots(tmp_path_factory.mktemp("album"), "fleet", "node-1") for _ in range(2)]
    found = await drawn(
        [
            await scene(fleet, shot)
            for fleet, album in zip((lossy, healthy), wanted, strict=True)
            for shot in album
        ]
    )
    return [
        {(shot.board.stem, shot.theme): (shot, found.pop(0)) for shot in album} for album in wanted
    ]


@pytest.fixture(scope="module")
def lossy_album(albums: list[Album]) -> Album:
    """Pictures of the fleet that loses."""
    return albums[0]


@pytest.fixture(scope="module")
def healthy_album(albums: list[Album]) -> Album:
    """Pictures of the healthy fleet."""
    return albums[1]


def check_album(album: Album) -> None:
    """Every panel says or draws something; nobody complained; the pictures are there."""
    assert len(album) == 4
    for (board, _), (shot, found) in album.items():
        assert found.errors == []
        panels = boards.panels(boards.load(boards.FOLDER / f"{board}.json"))
        assert set(found.texts) == {panel["title"] for panel in panels}
        for panel in panels:
            check_panel(panel, found)
        assert shot.picture.read_bytes().startswith(PNG)


def check_panel(panel: dict[str, Any], found: Drawn) -> None:
    """A chart has more on its canvas than axes of one colour, anything else has words."""
    title, text = panel["title"], found.texts[panel["title"]]
    assert not re.search("no data|undefined|NaN|\\$", text, re.IGNORECASE), (title, text)
    if panel["type"] in {"stat", "table"}:
        assert len(text.splitlines()) > 1, (title, text)
    else:
        assert len(found.colours[title]) == 1, title
        assert found.colours[title][0] > 1, title


async def test_every_panel_draws_when_events_are_lost(lossy_album: Album) -> None:
    """In both themes."""
    check_album(lossy_album)


async def test_every_panel_draws_when_all_is_well(healthy_album: Album) -> None:
    """In both themes: zeros are drawn, too."""
    check_album(healthy_album)


async def test_light_is_not_dark(healthy_album: Album) -> None:
    """Two themes, two pictures, the same words."""
    for board in ("shadow-pleg-fleet", "shadow-pleg-node"):
        (light, in_light), (dark, in_dark) = (healthy_album[board, theme] for theme in THEMES)
        assert light.picture.read_bytes() != dark.picture.read_bytes()
        assert in_light.texts == in_dark.texts


def said(album: Album, title: str, board: str = "shadow-pleg-fleet") -> list[str]:
    """What a panel says below its title."""
    return album[board, "light"][1].texts[title].splitlines()[1:]


async def test_the_numbers_are_prometheus(lossy: Prometheus, lossy_album: Album) -> None:
    """A count of losses is on the screen as it was counted."""
    lost = await lossy.number(boards.filled(queries.silent(), span(lossy)))
    assert abs(int("".join(said(lossy_album, "Silent misses"))) - lost) < 1 + lost / 50


async def test_a_fleet_that_loses_looks_like_one(lossy_album: Album) -> None:
    """The verdict, the worst node first, every state by its name."""
    assert "NO-GO" in said(lossy_album, "Go or no-go, by group")
    rows = said(lossy_album, "Worst nodes")
    assert next(row for row in rows if row.startswith("node-")) == "node-1"
    assert {node.name for node in LOSSY} <= set(rows)
    states = set(said(lossy_album, "State of the stream, by node"))
    assert {"streaming", "refused", "disabled"} <= states
    assert "exclusive" in said(lossy_album, "Runtimes")


async def test_a_healthy_fleet_looks_like_one(healthy_album: Album) -> None:
    """Zero, and nothing that is not streaming."""
    assert said(healthy_album, "Silent misses") == ["0"]
    assert "".join(said(healthy_album, "Nodes listening")) == "100%"
    assert "NO-GO" not in said(healthy_album, "Go or no-go, by group")
    assert {node.name for node in HEALTHY} <= set(said(healthy_album, "Worst nodes"))
    assert said(healthy_album, "State of the stream, by node") == ["streaming"]
    assert said(healthy_album, "Stream", "shadow-pleg-node") == ["streaming"]
    assert said(healthy_album, "Runtime", "shadow-pleg-node") == ["containerd 2.1.9, broadcast"]
