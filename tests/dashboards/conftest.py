"""Fleets that have run for a minute: one that loses events, and a healthy one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dashboards.queries import LINKS
from tests.support.fleet_lives import APART, HEALTHY, LOSSY, SCRAPE, ScrapedFleet, asking, lived
from tests.support.prometheus import Asker

# Seconds between two points of a panel.
STEP = 5
# What Grafana would put in; the rate interval is a step and a scrape.
CHOSEN = dict.fromkeys(("cluster", "job", "node"), ".*") | {
    "__rate_interval": f"{STEP + SCRAPE}s",
    "__interval": f"{STEP}s",
    "__interval_ms": f"{1000 * STEP}",
    "runbooks": LINKS.runbooks,
    "__range": "60s",
}
SECONDS = 60


@pytest.fixture(scope="session")
def both_lives(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScrapedFleet, ScrapedFleet]:
    """A fleet with every kind of trouble, and one that loses nothing."""
    home = tmp_path_factory.mktemp("lives")
    return (
        lived(home / "lossy", LOSSY, seconds=SECONDS, churn=8),
        lived(home / "healthy", HEALTHY, seconds=SECONDS, churn=8, after=APART),
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def both_fleets(both_lives: tuple[ScrapedFleet, ScrapedFleet]) -> AsyncIterator[list[Asker]]:
    """Both, in one Prometheus."""
    async with asking(*both_lives) as both:
        yield both


@pytest.fixture(scope="session")
def lossy(both_fleets: list[Asker]) -> Asker:
    """The fleet that loses."""
    return both_fleets[0]


@pytest.fixture(scope="session")
def healthy(both_fleets: list[Asker]) -> Asker:
    """The fleet that loses nothing."""
    return both_fleets[1]
