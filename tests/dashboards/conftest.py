"""Fleets that have run for a minute: one that loses events, and a healthy one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dashboards.queries import LINKS
from tests.support.fleet_lives import APART, HEALTHY, LOSSY, SCRAPE, ScrapedFleet, asking, lived
from tests.support.prometheus import Asker

# Seconds between two points of a panel.
STEP = 5
SECONDS = 60


def chosen(step: int, span: float, rate: int = 0) -> dict[str, str]:
    """What Grafana would put in for points so many seconds apart, `span` of them.

    `rate`: the rate interval, else a step and a scrape.
    """
    return dict.fromkeys(("cluster", "job", "node"), ".*") | {
        "__rate_interval": f"{rate or step + SCRAPE}s",
        "__interval": f"{step}s",
        "__interval_ms": f"{1000 * step}",
        "__range": f"{span:.0f}s",
        "runbooks": LINKS.runbooks,
    }


CHOSEN = chosen(STEP, SECONDS)


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
    return both_fleets[0]


@pytest.fixture(scope="session")
def healthy(both_fleets: list[Asker]) -> Asker:
    return both_fleets[1]
