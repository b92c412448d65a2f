"""Fleets that were scraped for a while: one that loses events, and a healthy one."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest_asyncio

from dashboards import queries
from exporter import metrics
from tests.dashboards import boards
from tests.dashboards.stand import HEALTHY, LOSSY, Node, Prometheus, watched
from tests.grounds import debian
from tests.grounds.fixtures import unavailable
from tests.grounds.waiting import until

# What Grafana would put in; a rate needs some scrapes.
CHOSEN = {
    "cluster": ".*",
    "job": ".*",
    "node": ".*",
    "group": "canary",
    "__rate_interval": "10s",
}
STEP = 5.0


async def scraped(nodes: tuple[Node, ...], *enough: str) -> AsyncIterator[Prometheus]:
    """Watch the fleet until all expressions are true at once, and leave it alone from then on."""
    if debian.find("prometheus") is None:
        unavailable("prometheus was not fetched (python -m tests.grounds.debian fetch prometheus)")
    async with watched(nodes) as (prometheus, fleet):

        async def held() -> bool:
            chosen = span(prometheus)
            return all([await prometheus.number(boards.filled(e, chosen)) == 1 for e in enough])

        # So long for each, one after the other in the worst case.
        await until(held, " and ".join(enough), seconds=150 * len(enough), every=1)
        prometheus.ended = time.time()
        await fleet.ends.aclose()
        yield prometheus


def span(prometheus: Prometheus) -> dict[str, str]:
    """Values for the variables; the range is all that was scraped."""
    seconds = (prometheus.ended or time.time()) - prometheus.began
    return CHOSEN | {"__range": f"{max(seconds, 5):.0f}s"}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lossy() -> AsyncIterator[Prometheus]:
    """A fleet with every kind of trouble, after some of each."""
    begun = queries.own(f"{metrics.STREAM_CONNECTIONS.name}_total", 'node="node-2"')
    ended = queries.own(f"{metrics.STREAM_DISCONNECTS.name}_total", 'node="node-2"')
    async for prometheus in scraped(
        LOSSY,
        f"{queries.silent()} > bool 40",
        f"{queries.increase(ended, queries.RANGE)} > bool 0",
        'count(max_over_time(ALERTS{alertstate="firing"}[1m])) > bool 0',
        # Again, after it ended: the first may be older than the first scrape. And for longer than a
        # step: what came after the last one is on no picture.
        f"max(min_over_time({begun}[8s])) > bool 1",
    ):
        yield prometheus


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def healthy() -> AsyncIterator[Prometheus]:
    """A fleet that loses nothing, after enough transitions to say so."""
    async for prometheus in scraped(HEALTHY, f"{queries.judged()} > bool 3600"):
        yield prometheus
