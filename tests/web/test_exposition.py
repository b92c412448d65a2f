"""However many requests there are, the metrics are rendered for a small share of the time."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client import exposition as text_format
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics_format
from prometheus_client.registry import Collector

from exporter.web.exposition import as_openmetrics, as_text
from tests.support.commands import fetch
from tests.support.exposition import measured
from tests.support.virtual_time import work
from tests.support.web_pages import pages_in_virtual_time, web_app

pytestmark = pytest.mark.virtual_time

_RENDERING_SECONDS = 0.02
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
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
    async with pages_in_virtual_time(web_app(registry=registry)) as url:
        yield slow, url + "metrics"


async def test_however_many_ask_a_page_is_rendered_twice_a_second() -> None:
    """In each format; a query makes no other page."""
    async with exposed() as (slow, url):
        began = time.monotonic()
        while time.monotonic() < began + 5:
            plain = await fetch(f"{url}?{time.monotonic()}", Accept_Encoding="gzip")
            assert (plain.headers["Content-Encoding"], plain.headers["Content-Type"]) == (
                "gzip",
                TEXT,
            )
            answer = await fetch(url, Accept=PROMETHEUS, Accept_Encoding="identity")
            assert answer.headers["Content-Type"] == OPENMETRICS
            assert "Content-Encoding" not in answer.headers
            assert answer.text.endswith("# EOF\n")
            await asyncio.sleep(0.05)
        assert 14 <= slow.collected <= 22


def test_no_name_needs_to_be_escaped() -> None:
    """What we serve is, byte for byte, what the library writes of the same values."""
    families = list(measured().registry.collect())
    same: Any = SimpleNamespace(collect=lambda: families)
    library: Any = openmetrics_format
    assert as_text(same) == text_format.generate_latest(same)
    assert as_openmetrics(same) == library.generate_latest(same)
    assert len(families) > 40


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", TEXT),
        (PROMETHEUS, OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=0.0.1, text/plain;q=0.5", OPENMETRICS),
        (",;=,;;q", TEXT),
    ],
)
async def test_there_are_two_formats(accept: str, content_type: str) -> None:
    """Whatever a client accepts, it gets one of them."""
    async with exposed() as (_, url):
        answer = await fetch(url, Accept=accept)
    assert (answer.status, answer.headers["Content-Type"]) == (200, content_type)
