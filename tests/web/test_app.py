"""Routes, formats, probes and addresses, over real sockets."""

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port
from prometheus_client import CollectorRegistry
from prometheus_client import exposition as text_format
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics_format
from prometheus_client.registry import Collector

from exporter.errors import ConfigError
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress, url_path
from exporter.web.app import WebApp
from exporter.web.rendered import as_openmetrics, as_text
from testbed.waiting import until
from tests.support.commands import DEADLINE, fetch
from tests.support.stage import Stage
from tests.support.virtual_time import work
from tests.support.web import (
    ALICE,
    CONFIG,
    LOCAL,
    MTLS,
    WebFiles,
    app_of,
    connection,
    pages_of,
    port_of,
    probed,
    users,
)

pytestmark = pytest.mark.quick

TEXT = "text/plain; version=0.0.4; charset=utf-8"


async def test_no_page_can_be_hidden_by_the_metrics() -> None:
    app = app_of()
    pages = {*app.pages(), *app.probes()} - {CONFIG.web_telemetry_path}
    assert len(pages) > 6
    for path in pages:
        with pytest.raises(ConfigError, match="is the path of another page"):
            url_path(path)


async def test_the_telemetry_path_can_be_chosen() -> None:
    config = replace(CONFIG, web_telemetry_path="/pleg/metrics")
    async with pages_of(config=config) as url:
        assert (await fetch(url + "pleg/metrics")).headers["Content-Type"] == TEXT
        assert (await fetch(url + "metrics")).status == 404
        assert '<a href="./pleg/metrics">/pleg/metrics</a>' in (await fetch(url)).text


@contextlib.asynccontextmanager
async def lossy(config: Config = CONFIG) -> AsyncIterator[str]:
    stage = Stage.watching()
    stage.lose(1, NAME)
    async with pages_of(stage, config) as url:
        yield url


NOWHERE = ("no-store", "no-referrer")


async def test_no_page_is_kept_by_browsers_and_proxies() -> None:
    async with lossy() as url:
        for path in ("", "metrics", "debug/misses", "debug/misses?format=html", "livez", "nothing"):
            headers = (await fetch(url + path)).headers
            assert (headers["Cache-Control"], headers["Referrer-Policy"]) == NOWHERE, path


NAME = "cart-7d9f8"


async def test_pages_that_name_pods_can_be_switched_off() -> None:
    async with lossy() as url:
        for path in ("", "debug/misses", "metrics"):
            assert NAME in (await fetch(url + path, Accept=PROMETHEUS)).text, path
    async with lossy(replace(CONFIG, web_debug_pages=False)) as url:
        assert (await fetch(url + "debug/misses")).status == 404
        for path in ("", "metrics", "livez", "readyz"):
            assert NAME not in (await fetch(url + path, Accept=PROMETHEUS)).text, path
        page = (await fetch(url)).text
        assert "Metrics and health only" in page
        links = re.findall(r'href="\.([^"?]+)', page)
        assert links == ["/static/icon.svg", "/static/page.css", "/metrics", "/livez", "/readyz"]
        assert 404 not in [(await fetch(url + path[1:])).status for path in links]


async def test_other_methods_are_refused() -> None:
    async with pages_of() as url:
        for path in ("", "metrics", "livez", "readyz"):
            for method in ("POST", "PUT", "DELETE"):
                answer = await fetch(url + path, method)
                assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")


@contextlib.asynccontextmanager
async def probes_apart(files: WebFiles, text: str) -> AsyncIterator[tuple[str, str]]:
    probing = ListenAddress(LOCAL.host, unused_port())
    async with files.served(text, config=replace(CONFIG, web_probe_address=probing)) as url:
        yield url, f"http://{probing}/"


async def test_probes_have_an_address_without_certificates_and_users(web_files: WebFiles) -> None:
    """The kubelet has neither; nothing else is there, and they are nowhere else."""
    async with probes_apart(web_files, MTLS + users(ALICE)) as (url, probes):
        assert (await fetch(probes + "livez")).text == "ok\n"
        assert (await fetch(probes + "readyz")).status == 503
        for path in ("", "metrics", "livez/x"):
            assert (await fetch(probes + path)).status == 404
        tls = web_files.client("x")
        assert (await fetch(url + "metrics", tls=tls, login=ALICE)).status == 200
        assert '/livez"' not in (await fetch(url, tls=tls, login=ALICE)).text
        for path in ("livez", "readyz"):
            assert (await fetch(url + path, tls=tls, login=ALICE)).status == 404


@pytest.mark.parametrize(
    ("host", "begins"),
    [
        ("127.0.0.1", "http://127.0.0.1:"),
        ("::1", "http://[::1]:"),
        ("", "http://localhost:"),
        ("localhost", "http://localhost:"),
    ],
)
async def test_the_url_that_is_logged_can_be_opened(host: str, begins: str) -> None:
    """Port 0 becomes a real one; without a host, both families are answered."""
    if host in ("", "::1") and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    config = replace(CONFIG, web_listen_address=ListenAddress(host, 0))
    async with pages_of(config=config) as url:
        assert url.startswith(begins)
        assert (await fetch(url + "livez")).status == 200
        for each in ("127.0.0.1", "[::1]") if not host else ():
            assert (await fetch(f"http://{each}:{port_of(url)}/livez")).status == 200


async def test_an_open_connection_does_not_delay_the_end() -> None:
    async with asyncio.timeout(DEADLINE), contextlib.AsyncExitStack() as stack:
        async with pages_of() as url:
            reader, writer = await stack.enter_async_context(connection(url))
            await probed(reader, writer)
        assert await reader.read() == b""


async def test_an_answer_that_comes_as_the_wait_for_it_ends_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was one in aiohttp's own wait, seen on a busy machine."""
    asked = asyncio.Event()

    async def page(request: web.Request) -> web.Response:
        asked.set()
        its: Any = request.protocol
        await until(lambda: its._handler_waiter and its._handler_waiter.cancelled(), "", every=0)
        return web.Response()

    monkeypatch.setattr(WebApp, "pages", lambda _: {"/": page})
    async with pages_of() as url:
        answer = asyncio.create_task(fetch(url))
        await asked.wait()
    await asyncio.gather(answer, return_exceptions=True)
    assert caplog.messages == []


_RENDERING_SECONDS = 0.02
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

    def collect(self) -> Iterator[Metric]:
        work(_RENDERING_SECONDS)
        self.collected += 1
        yield GaugeMetricFamily("collected", "Times.", self.collected)


@contextlib.asynccontextmanager
async def exposed() -> AsyncIterator[tuple[Slow, str]]:
    stage, slow = Stage(), Slow()
    stage.registry = CollectorRegistry()
    stage.registry.register(slow)
    async with pages_of(stage) as url:
        yield slow, url + "metrics"


@pytest.mark.virtual_time
async def test_however_many_ask_a_page_is_rendered_twice_a_second() -> None:
    async with exposed() as (slow, url):
        began = time.monotonic()
        while time.monotonic() < began + 5:
            plain = await fetch(f"{url}?{time.monotonic()}", Accept_Encoding="gzip")
            assert plain.headers["Content-Encoding"] == "gzip"
            assert plain.headers["Content-Type"] == TEXT
            answer = await fetch(url, Accept=PROMETHEUS, Accept_Encoding="identity")
            assert answer.headers["Content-Type"] == OPENMETRICS
            assert "Content-Encoding" not in answer.headers
            assert answer.text.endswith("# EOF\n")
            await asyncio.sleep(0.05)
        assert 14 <= slow.collected <= 22


def test_no_name_needs_to_be_escaped() -> None:
    """What we serve is, byte for byte, what the library writes of the same values."""
    families = list(Stage().registry.collect())
    same: Any = SimpleNamespace(collect=lambda: families)
    library: Any = openmetrics_format
    assert as_text(same) == text_format.generate_latest(same)
    assert as_openmetrics(same) == library.generate_latest(same)
    assert len(families) > 40
