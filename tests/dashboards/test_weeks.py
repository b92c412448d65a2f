"""Weeks of a large fleet are within what Prometheus reads for a query by default."""

from collections.abc import AsyncIterator
from typing import Final

import aiohttp
import pytest
import pytest_asyncio

from dashboards.limits import LINKS
from testbed.fixtures import part
from tests.dashboards.conftest import CHOSEN
from tests.support.boards import ASKED, Asked, filled
from tests.support.prometheus import PARTS, Asker, knowing
from tests.support.recorded_fleet import BAD_ONE_IN, LOST, write_recorded_fleet
from tests.support.report_fleets import DAY, START

pytestmark = pytest.mark.asyncio(loop_scope="module")

NODES, LARGE, DAYS = 4, 3000, 7
# Prometheus' own --query.max-samples; and its --query.timeout at a few million samples a second.
MOST_SAMPLES, MOST_READ = 50_000_000, 400_000_000
# As many points as the bars ask for.
STEP: Final = DAYS * DAY // 100
CHOICE: Final = CHOSEN | {
    "__range": f"{DAYS * DAY}s",
    "__rate_interval": f"{STEP}s",
    "__interval": f"{STEP}s",
    "__interval_ms": f"{1000 * STEP}",
}
FLEET: Final = [each for each in ASKED if each.board == LINKS.fleet_uid]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    """A Prometheus that knows a week of a few of the nodes, as rules keep it."""
    for each in PARTS:
        part(each)
    folder = tmp_path_factory.mktemp("weeks")
    week = write_recorded_fleet(folder / "week", NODES, DAYS)
    closing = aiohttp.TCPConnector(force_close=True)
    async with knowing(week) as url, aiohttp.ClientSession(connector=closing) as session:
        week.unlink()
        yield Asker(url, session, START + STEP, START + DAYS * DAY)


@pytest.mark.parametrize("asked", FLEET, ids=str)
async def test_a_week_of_thousands_of_nodes_can_be_asked(asker: Asker, asked: Asked) -> None:
    """By how much a query about a few of them reads, and has in memory."""
    sent = {"query": filled(asked.expr, CHOICE), "stats": "all"}
    times = {"start": asker.began, "end": asker.ended, "step": STEP}
    how = "query" if asked.instant else "query_range"
    sent |= {name: str(at) for name, at in times.items()} | {"time": str(asker.ended)}
    async with asker.session.post(f"{asker.url}/api/v1/{how}", data=sent) as got:
        samples = (await got.json())["data"]["stats"]["samples"]
    # What is about the end is read once, and counted for each point.
    points = 100 if "@ end()" in asked.expr else 1
    assert samples["totalQueryableSamples"] // points * LARGE // NODES < MOST_READ
    assert samples["peakSamples"] * LARGE // NODES < MOST_SAMPLES


async def test_a_week_shows_what_was_lost(asker: Asker) -> None:
    """One node in so many lost exits."""
    expr = {asked.place: asked.expr for asked in FLEET}["Lost by node A"]
    (found,) = await asker.ranged(filled(expr, CHOICE), STEP)
    assert NODES < BAD_ONE_IN
    assert [float(bar) for _, bar in found["values"] if bar != "0"] == [LOST]
