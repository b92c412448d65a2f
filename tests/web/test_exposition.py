"""However many ask for the metrics, they are rendered for a small share of the time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from exporter.web.exposition import Exposition

Client = TestClient[web.Request, web.Application]

_RENDERING = 0.02
_OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}


class Slow(Collector):
    """One gauge: how often it was collected, for which each time takes a while."""

    def __init__(self) -> None:
        self.collected = 0

    def describe(self) -> Iterator[Metric]:
        """A registry asks this once."""
        yield GaugeMetricFamily("collected", "Times.")

    def collect(self) -> Iterator[Metric]:
        """The gauge."""
        until_then = time.monotonic() + _RENDERING
        while time.monotonic() < until_then:
            pass
        self.collected += 1
        yield GaugeMetricFamily("collected", "Times.", self.collected)


@pytest.fixture
def slow() -> Slow:
    """What is exposed."""
    return Slow()


@pytest.fixture
async def client(slow: Slow) -> AsyncIterator[Client]:
    """Asks for it."""
    registry = CollectorRegistry()
    registry.register(slow)
    app = web.Application()
    app.router.add_get("/metrics", Exposition(registry).page)
    async with TestClient(TestServer(app)) as asking:
        yield asking


async def asked(client: Client, query: str = "", **headers: str) -> str:
    """The page."""
    async with client.get("/metrics" + query, headers=headers) as response:
        assert response.status == 200
        return await response.text()


async def test_who_asks_again_at_once_gets_the_page_that_is_there(
    client: Client, slow: Slow
) -> None:
    """A page that took 20 ms is kept for 400 ms."""
    began = time.monotonic()
    pages = {await asked(client) for _ in range(5)}
    assert time.monotonic() - began < 0.4, "the machine is too slow for this test"
    assert slow.collected == 1
    assert len(pages) == 1


async def test_who_asks_later_gets_what_is_true_by_then(client: Client) -> None:
    """Nothing is kept for longer than a moment."""
    assert "collected 1.0" in await asked(client)

    async def renewed() -> bool:
        return "collected 2.0" in await asked(client)

    began = time.monotonic()
    while not await renewed():
        assert time.monotonic() - began < 10, "it was never rendered again"


async def test_each_format_has_its_own_page(client: Client, slow: Slow) -> None:
    """OpenMetrics is not what a reader of plain text gets, nor is a part the whole."""
    plain, open_metrics = await asked(client), await asked(client, **_OPENMETRICS)
    assert open_metrics.endswith("# EOF\n")
    assert "# EOF" not in plain
    async with client.get("/metrics?name[]=other") as response:
        assert await response.text() == ""
    assert slow.collected == 2


async def test_what_is_kept_is_bounded(client: Client, slow: Slow) -> None:
    """Whoever invents questions fills no memory: the fifth drops the first."""
    for number in (0, 1, 2, 3, 4, 0):
        await asked(client, f"?n={number}")
    assert slow.collected == 6


async def test_it_is_compressed_for_who_likes_that(client: Client) -> None:
    """The kept page as well as the first."""
    for _ in range(2):
        async with client.get("/metrics", headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert "collected 1.0" in await response.text()
