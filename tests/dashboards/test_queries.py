"""Every expression against a real Prometheus: of a lossy fleet, a healthy one, and a large one.

And what Grafana's own components draw of the answers.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from dashboards import queries
from dashboards.queries import LINKS
from testbed.fixtures import unavailable
from tests.dashboards.conftest import CHOSEN, LOSSY, STEP, chosen
from tests.dashboards.pictures import Drawn, Shot, drawn, scene, shots, why_not
from tests.support import report_fleets as fleets
from tests.support.expressions import ASKED, MARKED, Asked, expression, filled, panels
from tests.support.prometheus import Asker, asking

pytestmark = [
    pytest.mark.xdist_group("dashboards"),
    pytest.mark.asyncio(loop_scope="session"),
    # The first test waits for the fleets, and the first picture for a browser: 15 s of CPU.
    pytest.mark.timeout(900),
]
PNG = b"\x89PNG\r\n\x1a\n"
EMPTY_WHERE_ALL_IS_WELL = {
    *("Firing alerts A", "Firing alerts B", "Contradictions A", "Nodes by condition A"),
    "Lost by node A",
    *(f"Nodes that lost events {letter}" for letter in "ABCDEFGHI"),
}

NODES, DAYS = 2, 7
# As many points as the bars ask for.
WEEKS_STEP = DAYS * fleets.DAY // 100
CHOICE = chosen(WEEKS_STEP, DAYS * fleets.DAY, WEEKS_STEP)
FLEET = [each for each in ASKED if each.board == LINKS.fleet_uid]


async def answer(fleet: Asker, asked: Asked, node: str = "node-1") -> list[dict[str, Any]]:
    """What Grafana would get; the node's dashboard is about one."""
    of_one = {"node": node} if asked.board == LINKS.node_uid else {}
    expr = filled(asked.expr, CHOSEN | of_one)
    assert not re.search(r"\$[a-z_{]", expr)
    return await (fleet.instant(expr) if asked.instant else fleet.ranged(expr, STEP))


@pytest.mark.parametrize("asked", ASKED, ids=str)
async def test_every_panel_has_data(lossy: Asker, healthy: Asker, asked: Asked) -> None:
    """No errors, no warnings, and something to show; where all is well, mostly zeros."""
    assert await answer(lossy, asked)
    assert bool(await answer(healthy, asked)) != (asked.place in EMPTY_WHERE_ALL_IS_WELL)


@pytest.mark.parametrize("asked", MARKED, ids=str)
async def test_annotations_mark_what_happened(lossy: Asker, healthy: Asker, asked: Asked) -> None:
    """Alerts on the node that loses, ends of the stream on the one whose stream ends; else none."""
    assert await answer(lossy, asked, "node-1" if asked.place == "Alert" else "node-2")
    assert not await answer(healthy, asked)


async def by(fleet: Asker, label: str, expr: str, **chosen: str) -> dict[str, float]:
    found = await fleet.instant(filled(expr, CHOSEN | chosen))
    return {each["metric"].get(label, ""): float(each["value"][1]) for each in found}


async def headline(fleet: Asker, title: str) -> float:
    return await fleet.number(filled(expression(LINKS.fleet_uid, f"{title} A"), CHOSEN))


async def test_the_headlines_of_a_fleet_that_loses(lossy: Asker) -> None:
    """Losses are shown where they are, and nowhere else."""
    lost, exits = [await headline(lossy, title) for title in ("Lost silently", "Exits lost")]
    assert lost > 40
    assert 0 < exits < lost
    assert 0 < await headline(lossy, "Time subscribed") < 1
    per_node = await by(lossy, "node", queries.lost(queries.SILENT, queries.NODE))
    assert per_node["node-1"] == pytest.approx(lost, rel=0.01)
    assert per_node["node-3"] == per_node["node-4"] == per_node["node-5"] == 0
    held = await by(lossy, "condition", expression(LINKS.fleet_uid, "Nodes by condition A"))
    assert held["losing"] == 1
    assert "complete" not in held


async def test_the_headlines_of_a_healthy_fleet(healthy: Asker) -> None:
    """Nothing lost of many."""
    for title in ("Exits lost", "Lost silently", "Undelivered"):
        assert await headline(healthy, title) == 0, title
    for title in ("Nodes listening", "Time subscribed"):
        assert await headline(healthy, title) == 1, title


async def test_nodes_without_a_stream_by_choice_do_not_count_as_down(lossy: Asker) -> None:
    """Refused and disabled ones, on nodes 4 and 5; node 2 comes and goes."""
    others, alone = "node-1|node-3|node-4|node-5", "node-4|node-5"
    for title in ("Nodes listening", "Time subscribed"):
        expr = expression(LINKS.fleet_uid, f"{title} A")
        assert await by(lossy, "", expr, node=others) == {"": 1}
        assert not await by(lossy, "", expr, node=alone)
    assert (await by(lossy, "", queries.subscribed(), node="node-2"))[""] < 1


async def test_the_table_of_events_adds_up_to_its_headline(lossy: Asker) -> None:
    title = "Lost for good by event and cause B"
    table = await by(lossy, "event", expression(LINKS.fleet_uid, title))
    assert sum(table.values()) == pytest.approx(await headline(lossy, "Lost silently"))


async def test_numbers_are_split_by_runtime_version(lossy: Asker) -> None:
    """Nothing is lost, subscribed or announced where there is no subscription."""
    nodes, up, exits, lost, others, stalls, ends, announced, listed = [
        await by(lossy, "version", expression(LINKS.fleet_uid, f"By runtime version {letter}"))
        for letter in "ABCDEFGHI"
    ]
    assert nodes == {"1.7.24": 1, "2.1.9": 4}
    assert up["1.7.24"] == 0 < up["2.1.9"] < 1
    assert lost["2.1.9"] == pytest.approx(await headline(lossy, "Exits lost"))
    assert min(exits["1.7.24"], exits["2.1.9"] - lost["2.1.9"], others["2.1.9"], ends["2.1.9"]) > 0
    assert {*stalls.values(), lost["1.7.24"], others["1.7.24"], ends["1.7.24"]} == {0}
    assert set(announced) == {"2.1.9"}
    assert announced["2.1.9"] < listed["2.1.9"]


async def test_polled_kubelets_stand_beside_evented_ones(lossy: Asker, healthy: Asker) -> None:
    """Those of canaries hear of each exit at once, the others a second later at most."""

    async def column(letter: str, fleet: Asker = healthy) -> dict[str, float]:
        place = f"From exit to status, polled beside evented {letter}"
        return await by(fleet, "gate", expression(LINKS.fleet_uid, place))

    exits, half, most, nearly_all, announced = [await column(letter) for letter in "ABCDE"]
    assert set(exits) == {"on", "off"}
    assert min(exits.values()) > 100
    assert half["on"] + 0.2 < half["off"] < nearly_all["off"] <= 2.5
    assert announced["on"] == pytest.approx(announced["off"], abs=0.01)
    assert all(half[gate] < most[gate] < nearly_all[gate] for gate in exits)
    assert await column("H") == {"on": 0, "off": 0}
    stale = await column("H", lossy)
    assert stale["on"] > 1
    assert stale["off"] == 0


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def weeks(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    """A Prometheus that knows a week of a few of the nodes, as rules keep it."""
    folder = tmp_path_factory.mktemp("weeks")
    week = fleets.write_recorded_fleet(folder / "week", NODES, DAYS)
    async with asking(
        week, began=fleets.START + WEEKS_STEP, ended=fleets.START + DAYS * fleets.DAY
    ) as asker:
        week.unlink()
        yield asker


@pytest.mark.parametrize("asked", FLEET, ids=str)
async def test_a_week_of_thousands_of_nodes_can_be_asked(weeks: Asker, asked: Asked) -> None:
    """By how much a query about a few of them reads, and has in memory."""
    sent = {"query": filled(asked.expr, CHOICE), "stats": "all"}
    times = {"start": weeks.began, "end": weeks.ended, "step": WEEKS_STEP}
    how = "query" if asked.instant else "query_range"
    sent |= {name: str(at) for name, at in times.items()} | {"time": str(weeks.ended)}
    async with weeks.session.post(f"{weeks.url}/api/v1/{how}", data=sent) as got:
        samples = (await got.json())["data"]["stats"]["samples"]
    # What is about the end is read once, and counted for each point.
    points = 100 if "@ end()" in asked.expr else 1
    assert samples["totalQueryableSamples"] // points * fleets.LARGE // NODES < fleets.MOST_READ
    assert samples["peakSamples"] * fleets.LARGE // NODES < fleets.MOST_SAMPLES


async def test_a_week_shows_what_was_lost(weeks: Asker) -> None:
    """One node in so many lost exits."""
    expr = {asked.place: asked.expr for asked in FLEET}["Lost by node A"]
    (found,) = await weeks.ranged(filled(expr, CHOICE), WEEKS_STEP)
    assert NODES < fleets.BAD_ONE_IN
    assert [float(bar) for _, bar in found["values"] if bar != "0"] == [fleets.LOST]


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


async def test_an_age_does_not_grow_between_two_scrapes(lossy: Asker) -> None:
    """Else it would show when Prometheus scraped, rather than what the node did."""
    age = queries.age(queries.own("shadow_pleg_last_seen_seconds"))
    ages = await by(lossy, "node", age)
    assert len(ages) == len(LOSSY)
    assert ages == await by(replace(lossy, ended=lossy.ended + 20), "node", age)
    assert all(0 <= age < 30 for age in ages.values())
