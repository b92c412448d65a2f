"""However many requests there are, the metrics are rendered for a small share of the time."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tests.support.commands import fetch
from tests.support.virtual_time import work
from tests.support.web_clients import refusals
from tests.support.web_pages import pages_in_virtual_time

pytestmark = pytest.mark.virtual_time

_RENDERING_SECONDS = 0.02
# What Prometheus 3 sends.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


class Slow(Collector):
    """One gauge: how often it was collected, which takes a while each time."""

    def __init__(self) -> None:
        self.collected = 0

    def describe(self) -> Iterator[Metric]:
        """A registry asks this once."""
        yield GaugeMetricFamily("collected", "Times.")

    def collect(self) -> Iterator[Metric]:
        """The gauge."""
        work(_RENDERING_SECONDS)
        self.collected += 1
        yield GaugeMetricFamily("collected", "Times.", self.collected)


@asynccontextmanager
async def exposed() -> AsyncIterator[tuple[Slow, str]]:
    """A slow collector, and the URL of its metrics."""
    registry, slow = CollectorRegistry(), Slow()
    registry.register(slow)
    async with pages_in_virtual_time(registry=registry) as url:
        yield slow, url + "metrics"


async def test_a_page_is_cached_for_twenty_times_what_it_took() -> None:
    """After 400 ms there is another one."""
    async with exposed() as (slow, url):
        assert len({(await fetch(url)).text for _ in range(5)}) == 1
        assert slow.collected == 1
        await asyncio.sleep(20 * _RENDERING_SECONDS)
        assert "collected 2.0" in (await fetch(url)).text


async def test_each_format_and_filter_has_its_own_page() -> None:
    """The cached page is compressed as well as the first."""
    async with exposed() as (slow, url):
        for _ in range(2):
            plain = await fetch(url, Accept_Encoding="gzip")
            assert plain.headers["Content-Encoding"] == "gzip"
            assert "collected 1.0" in plain.text
            assert "# EOF" not in plain.text
            openmetrics = await fetch(url, Accept=PROMETHEUS, Accept_Encoding="identity")
            kind = openmetrics.headers["Content-Type"]
            assert kind.startswith("application/openmetrics-text; version=1.0.0")
            assert "Content-Encoding" not in openmetrics.headers
            assert openmetrics.text.endswith("# EOF\n")
            assert (await fetch(f"{url}?name[]=other")).text == ""
            assert "\ncollected " in (await fetch(f"{url}?name[]=other&name[]=collected")).text
        assert slow.collected == 3


async def test_the_cache_is_bounded() -> None:
    """Invented queries fill no memory: the fifth drops the first."""
    async with exposed() as (slow, url):
        for number in (0, 1, 2, 3, 4, 0):
            await fetch(f"{url}?n={number}")
        assert slow.collected == 6


async def test_rendering_takes_at_most_half_of_the_time() -> None:
    """Four queries of one peer may wait, others get 503 at once; the cached page is not delayed."""
    async with exposed() as (slow, url):
        await fetch(url)
        began = time.monotonic()
        asked = [asyncio.create_task(fetch(f"{url}?n={number}")) for number in range(20)]
        assert (await fetch(url)).status == 200
        statuses = Counter([(await each).status for each in asked])
        took = time.monotonic() - began
        rendered = slow.collected - 1
        assert statuses[200] == rendered >= 4
        assert rendered * _RENDERING_SECONDS <= 0.5 * took + _RENDERING_SECONDS
        assert statuses[503] == (await refusals(url.removesuffix("metrics")))["busy"] > 0
