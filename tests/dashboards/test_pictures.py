"""The dashboards as drawn by Grafana's own components, from a real Prometheus' answers."""

import re

import pytest
import pytest_asyncio

from dashboards import queries
from testbed.fixtures import unavailable
from tests.dashboards.conftest import CHOSEN
from tests.dashboards.pictures import Drawn, Shot, drawn, scene, shots, why_not
from tests.support.boards import TEXTS, filled, panels
from tests.support.prometheus import Asker

pytestmark = [
    pytest.mark.xdist_group("dashboards"),
    pytest.mark.asyncio(loop_scope="session"),
    # The first test waits for the fleets and the pictures: 15 s of CPU.
    pytest.mark.timeout(240),
]
PNG = b"\x89PNG\r\n\x1a\n"
# By fleet, dashboard and theme.
Album = dict[tuple[str, str, str], tuple[Shot, Drawn]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def album(lossy: Asker, healthy: Asker, tmp_path_factory: pytest.TempPathFactory) -> Album:
    """Pictures of both fleets, each with both dashboards; the healthy one in both themes."""
    if reason := why_not():
        unavailable(reason)
    folder = tmp_path_factory.mktemp("album")
    wanted = [
        (name, fleet, shot)
        for name, fleet in (("lossy", lossy), ("healthy", healthy))
        for shot in shots(folder, name)
        if name == "healthy" or shot.theme == "light"
    ]
    found = await drawn([await scene(fleet, shot) for _, fleet, shot in wanted])
    return {
        (name, shot.board, shot.theme): (shot, each)
        for (name, _, shot), each in zip(wanted, found, strict=True)
    }


async def test_every_panel_draws(album: Album) -> None:
    """In both themes, also zeros: a chart more than axes of one colour, anything else words."""
    assert len(album) == 6
    for (_, board, _), (shot, found) in album.items():
        assert found.errors == []
        assert shot.picture.read_bytes().startswith(PNG)
        kinds = {panel["title"]: panel["type"] for panel in panels(board)}
        empty = {
            panel["title"]: panel["fieldConfig"]["defaults"].get("noValue")
            for panel in panels(board)
        }
        words = {panel.json["title"] for panel in TEXTS if panel.board == board}
        assert set(found.texts) == set(kinds) | words
        for title, text in found.texts.items():
            assert not re.search(r"no data|undefined|NaN|\$", text, re.IGNORECASE), (title, text)
            if kinds.get(title, "text") in {"stat", "table", "text"}:
                assert len(text.splitlines()) > 1, (title, text)
            elif text.splitlines()[1:] != [empty[title]]:
                (colours,) = found.colours[title]
                assert colours > 1, title


@pytest.mark.parametrize("board", ["shadow-pleg-fleet", "shadow-pleg-node"])
async def test_light_is_not_dark(album: Album, board: str) -> None:
    """Two themes, two pictures, the same words."""
    (light, in_light), (dark, in_dark) = (album["healthy", board, t] for t in ("light", "dark"))
    assert light.picture.read_bytes() != dark.picture.read_bytes()
    assert in_light.texts == in_dark.texts


def said(album: Album, fleet: str, title: str, board: str = "shadow-pleg-fleet") -> list[str]:
    """What a panel says below its title."""
    return album[fleet, board, "light"][1].texts[title].splitlines()[1:]


async def test_the_numbers_are_prometheus(lossy: Asker, album: Album) -> None:
    """A count of losses is on the screen as it was counted."""
    lost = await lossy.number(filled(queries.lost(queries.SILENT), CHOSEN))
    assert abs(int("".join(said(album, "lossy", "Lost silently"))) - lost) < 1 + lost / 50


async def test_a_fleet_that_loses_looks_like_one(album: Album) -> None:
    """The node that loses, every state by its name."""
    rows = said(album, "lossy", "Nodes that lost events")
    assert {row for row in rows if row.startswith("node-")} == {"node-1"}
    assert "ShadowPlegMissedEvents" in said(album, "lossy", "Firing alerts")
    states = set(said(album, "lossy", "Stream state by node"))
    assert {"streaming", "refused", "disabled"} <= states
    assert "exclusive" in said(album, "lossy", "By runtime version")


async def test_a_healthy_fleet_looks_like_one(album: Album) -> None:
    """Zero, and only streaming nodes."""
    for title in ("Exits lost", "Lost silently", "Undelivered"):
        assert said(album, "healthy", title) == ["0"]
    assert "".join(said(album, "healthy", "Nodes listening")) == "100%"
    assert said(album, "healthy", "Firing alerts") == ["No alert is firing"]
    (none,) = said(album, "healthy", "Nodes that lost events")
    assert none == "No node lost events in this time range"
    assert said(album, "healthy", "Stream state by node") == ["streaming"]
    assert said(album, "healthy", "Stream state", "shadow-pleg-node") == ["streaming"]
    runtime = said(album, "healthy", "Runtime", "shadow-pleg-node")
    assert runtime == ["containerd 2.1.9, broadcast"]


async def test_no_dashboard_judges(album: Album) -> None:
    """The report does, and the fleet's dashboard leads there."""
    for _, found in album.values():
        assert not re.search(r"\bGO\b|NO-GO|NOT ENOUGH", "".join(found.texts.values()))
    assert "shadow-pleg report" in "".join(said(album, "lossy", "Go or no-go"))
