"""The dashboards as drawn by Grafana's own components, from a real Prometheus' answers."""

import re

import pytest
import pytest_asyncio

from dashboards import queries
from testbed.fixtures import unavailable
from tests.dashboards.conftest import CHOSEN
from tests.dashboards.pictures import Drawn, Shot, drawn, scene, shots, why_not
from tests.support.boards import filled, panels
from tests.support.prometheus import Asker

pytestmark = [
    pytest.mark.xdist_group("dashboards"),
    pytest.mark.asyncio(loop_scope="session"),
    # The first test waits for the fleets and the pictures: 15 s of CPU.
    pytest.mark.timeout(900),
]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pictures(
    both_fleets: list[Asker], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Shot, Drawn]]:
    """The fleet that loses, and the node that loses nothing, by the name of the dashboard."""
    if reason := why_not():
        unavailable(reason)
    made = shots(tmp_path_factory.mktemp("pictures"), "tried")
    scenes = [await scene(*each) for each in zip(both_fleets, made, strict=True)]
    names = (shot.board.rpartition("-")[2] for shot in made)
    return dict(zip(names, zip(made, await drawn(scenes), strict=True), strict=True))


@pytest.mark.parametrize("board", ["fleet", "node"])
async def test_a_dashboard_draws(
    pictures: dict[str, tuple[Shot, Drawn]], both_fleets: list[Asker], board: str
) -> None:
    """Every panel, without an error: a chart more than axes of one colour, anything else words.

    The fleet that loses looks like one, and the node that loses nothing.
    """
    shot, found = pictures[board]
    assert found.errors == []
    assert shot.picture.read_bytes().startswith(PNG)
    drawn_panels = {panel["title"]: panel for panel in panels(shot.board)}
    assert set(found.texts) == set(drawn_panels)
    for title, text in found.texts.items():
        assert not re.search(r"no data|undefined|\bNaN\b|\$", text, re.IGNORECASE), (title, text)
        empty = drawn_panels[title]["fieldConfig"]["defaults"].get("noValue")
        if drawn_panels[title]["type"] in {"stat", "table"}:
            assert len(text.splitlines()) > 1, (title, text)
        elif text.splitlines()[1:] != [empty]:
            (colours,) = found.colours[title]
            assert colours > 1, title
    said = {title: text.splitlines()[1:] for title, text in found.texts.items()}
    if board == "node":
        assert said["Stream state"] == ["streaming"]
        assert said["Lost silently"] == said["Undelivered"] == ["0"]
        assert said["Runtime"] == ["containerd 2.1.9, broadcast"]
        return
    rows = said["Nodes that lost events"]
    assert {row for row in rows if row.startswith("node-")} == {"node-1"}
    lost = await both_fleets[0].number(filled(queries.lost(queries.SILENT), CHOSEN))
    assert abs(int("".join(said["Lost silently"])) - lost) < 1 + lost / 50
    assert {"unsure", "bad"} <= set(said["Conditions by node"])
