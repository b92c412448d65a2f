"""Fleets that have lived for a minute: one that loses events, and a healthy one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.fleet_lives import APART, HEALTHY, LOSSY, Life, lived
from tests.support.fleet_prometheus import Prometheus, knowing
from tests.support.real.fixtures import part

# What Grafana would put in; a rate needs some scrapes.
CHOSEN = {
    "cluster": ".*",
    "job": ".*",
    "node": ".*",
    "group": "canary",
    "__rate_interval": "10s",
}
STEP = 5.0
SECONDS = 60


def span(prometheus: Prometheus) -> dict[str, str]:
    """Values for the variables; the range is all that was scraped."""
    return CHOSEN | {"__range": f"{prometheus.ended - prometheus.began:.0f}s"}


@pytest.fixture(scope="session")
def both_lives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Life, Life]:
    """A fleet with every kind of trouble, and one that loses nothing: enough of each to say so."""
    for each in ("prometheus", "promtool"):
        part(each)
    home = tmp_path_factory.mktemp("lives")
    return (
        lived(home / "lossy", LOSSY, seconds=SECONDS, churn=8),
        lived(home / "healthy", HEALTHY, seconds=SECONDS, churn=8, after=APART),
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def both_fleets(both_lives: tuple[Life, Life]) -> AsyncIterator[list[Prometheus]]:
    """Both, in one Prometheus."""
    async with knowing(*both_lives) as both:
        yield both


@pytest.fixture(scope="session")
def lossy(both_fleets: list[Prometheus]) -> Prometheus:
    """The fleet that loses."""
    return both_fleets[0]


@pytest.fixture(scope="session")
def healthy(both_fleets: list[Prometheus]) -> Prometheus:
    """The fleet that loses nothing."""
    return both_fleets[1]
