"""However many requests there are, the metrics are rendered for a small share of the time."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client import exposition as text_format
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics_format
from prometheus_client.registry import Collector

from exporter.web.exposition import Format, encoded, format_for
from exporter.web.status.view import Status, status_of
from tests.support.commands import fetch
from tests.support.exposition import measured
from tests.support.searching import examples
from tests.support.virtual_time import work
from tests.support.web_clients import refusals
from tests.support.web_pages import pages_in_virtual_time

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


def slow_status(*arguments: Any) -> Status:  # noqa: ANN401 - handed on
    """What the status page shows, which takes as long."""
    work(_RENDERING_SECONDS)
    return status_of(*arguments)


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
    """The cached page is compressed as well as the first; a filtered one is rendered each time."""
    async with exposed() as (slow, url):
        for _ in range(2):
            plain = await fetch(url, Accept_Encoding="gzip")
            assert plain.headers["Content-Encoding"] == "gzip"
            assert plain.headers["Content-Type"] == TEXT
            assert "collected 1.0" in plain.text
            openmetrics = await fetch(url, Accept=PROMETHEUS, Accept_Encoding="identity")
            assert openmetrics.headers["Content-Type"] == OPENMETRICS
            assert "Content-Encoding" not in openmetrics.headers
            assert openmetrics.text.endswith("# EOF\n")
        assert slow.collected == 2
        assert (await fetch(f"{url}?name[]=other")).text == ""
        assert "\ncollected " in (await fetch(f"{url}?name[]=other&name[]=collected")).text
        assert slow.collected == 3


def test_no_name_needs_to_be_escaped() -> None:
    """What we serve is, byte for byte, what the library writes of the same values."""
    families = list(measured().registry.collect())
    same: Any = SimpleNamespace(collect=lambda: families)
    for form, library in ((Format.TEXT, text_format), (Format.OPENMETRICS, openmetrics_format)):
        assert encoded(same, form) == library.generate_latest(same)
    assert len(families) > 40


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html, */*;q=0.1", TEXT),
        (PROMETHEUS, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0; q=0.5, text/plain;q=0.5", OPENMETRICS),
        ("text/plain;version=0.0.4;q=0.8,application/openmetrics-text;q=0.7", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("application/openmetrics-text;version=1.0.0-rc.0", TEXT),
        ("application/openmetrics-text;version=x", TEXT),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;q=nan", TEXT),
        ("application/openmetrics-text;q=2", TEXT),
        ("application/openmetrics-text;escaping=no;version", OPENMETRICS),
        (",;=,;;q", TEXT),
    ],
)
async def test_there_are_two_formats(accept: str, content_type: str) -> None:
    """Whatever a client accepts, it gets one of them."""
    async with exposed() as (_, url):
        answer = await fetch(url, Accept=accept)
    assert (answer.status, answer.headers["Content-Type"]) == (200, content_type)


@examples(1)
@given(
    accept=st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=80)
    | st.lists(
        st.sampled_from(
            [
                *("application/openmetrics-text", "text/plain", "*/*", "version", "q", "escaping"),
                *(",", ";", "=", "1.0.0", "0.0.4", "0.5", "1e9", "-1", "x", " ", "allow-utf-8"),
            ]
        ),
        max_size=12,
    ).map("".join)
)
def test_any_accept_header_leads_to_one_of_them(accept: str) -> None:
    """Nothing raises."""
    assert format_for(accept) in Format


async def test_invented_headers_render_nothing_twice() -> None:
    """All that strangers accept together makes two pages."""
    async with exposed() as (slow, url):
        for number in range(20):
            for accept in ("text/plain;version=0.0.{}", "application/openmetrics-text;escaping={}"):
                assert (await fetch(url, Accept=accept.format(number))).status == 200
        assert slow.collected == 2


async def test_invented_queries_drop_no_page_from_the_cache() -> None:
    """They are not kept, and the scraper's page is."""
    async with exposed() as (slow, url):
        await fetch(url)
        for number in range(4):
            await fetch(f"{url}?n={number}")
        assert "collected 1.0" in (await fetch(url)).text
        await fetch(f"{url}?n=0")
        assert slow.collected == 6


async def test_all_pages_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one took delays the other; what is fresh waits for nobody."""
    monkeypatch.setattr("exporter.web.app.status_of", slow_status)
    async with exposed() as (_, url):
        status, took = url.removesuffix("metrics"), 4 * _RENDERING_SECONDS
        await fetch(f"{url}?0")
        for first, second in ((f"{url}?1", status), (status, f"{url}?2")):
            await asyncio.sleep(2)
            began = time.monotonic()
            await fetch(first)
            await fetch(second)
            assert time.monotonic() - began == pytest.approx(took + _RENDERING_SECONDS, abs=0.01)
        for fresh in (status, url):
            await fetch(fresh)
            began = time.monotonic()
            await fetch(fresh)
            assert time.monotonic() - began < 0.01


async def test_rendering_takes_a_quarter_of_the_time() -> None:
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
        assert rendered * _RENDERING_SECONDS <= 0.25 * took + _RENDERING_SECONDS
        assert statuses[503] == (await refusals(url.removesuffix("metrics")))["busy"] > 0
