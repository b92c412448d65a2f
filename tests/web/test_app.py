"""Routes, formats, probes and addresses, over real sockets."""

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from exporter.collector import Histograms, new_registry
from exporter.errors import ConfigError
from exporter.node.state import Counting, Node
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress, url_path
from exporter.web.app import serving
from testbed.servers import free_port
from tests.support.commands import DEADLINE, fetch
from tests.support.recorded_node import Stage
from tests.support.secured import ALICE, MTLS, WebFiles, users
from tests.support.web_clients import PROBE, connection, port_of
from tests.support.web_pages import CONFIG, LOCAL, pages_of, web_app

pytestmark = pytest.mark.quick

TEXT = "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("debug", [True, False])
async def test_no_page_can_be_hidden_by_the_metrics(*, debug: bool) -> None:
    """The path of each is refused as that of the metrics."""
    config = replace(CONFIG, web_debug_pages=debug)
    app = web_app(config=config)
    pages = {*app.pages(), *app.probes()} - {config.web_telemetry_path}
    assert len(pages) > 6
    for path in pages:
        with pytest.raises(ConfigError, match="is taken by another page"):
            url_path(path)


async def test_the_telemetry_path_can_be_chosen() -> None:
    """Then it is there, linked from the status page, and nowhere else."""
    config = replace(CONFIG, web_telemetry_path="/pleg/metrics")
    async with pages_of(config=config) as url:
        assert (await fetch(url + "pleg/metrics")).headers["Content-Type"] == TEXT
        assert (await fetch(url + "metrics")).status == 404
        assert '<a href="./pleg/metrics">/pleg/metrics</a>' in (await fetch(url)).text


@contextlib.asynccontextmanager
async def lossy(config: Config = CONFIG) -> AsyncIterator[str]:
    """The pages of a node that has lost a start; gives the URL."""
    stage = Stage()
    histograms = Histograms(new_registry())
    delivered = histograms.event_delivery.observe
    stage.chronicle.listen(Counting(stage.node, time.time, delivered, histograms.exit_measured))
    stage.lose(1, NAME)
    async with serving(web_app(stage.node, config, cases=stage.cases)) as url:
        yield url


async def test_no_page_is_kept_by_browsers_and_proxies() -> None:
    """Most name pods."""
    async with lossy() as url:
        for path in ("", "metrics", "debug/misses", "debug/misses?format=html", "livez", "nothing"):
            assert (await fetch(url + path)).headers["Cache-Control"] == "no-store", path


NAME = "cart-7d9f8"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


async def test_pages_that_name_pods_can_be_switched_off() -> None:
    """Metrics, health and a page with links to them remain; exemplars name pods, too."""
    async with lossy() as url:
        for path in ("", "debug/misses", "metrics"):
            assert NAME in (await fetch(url + path, Accept=OPENMETRICS)).text, path
    async with lossy(replace(CONFIG, web_debug_pages=False)) as url:
        assert (await fetch(url + "debug/misses")).status == 404
        for path in ("", "metrics", "livez", "readyz"):
            assert NAME not in (await fetch(url + path, Accept=OPENMETRICS)).text, path
        page = (await fetch(url)).text
        assert "Metrics and health only" in page
        links = re.findall(r'href="\.([^"?]+)', page)
        assert links == ["/static/icon.svg", "/static/page.css", "/metrics", "/livez", "/readyz"]
        assert 404 not in [(await fetch(url + path[1:])).status for path in links]


async def test_unknown_paths_and_methods_are_refused() -> None:
    """The pages, their parts, and no files; all of them can only be read."""
    async with pages_of() as url:
        for path in ("nothing", "metrics/", "livez/x", "../etc/passwd"):
            assert (await fetch(url + path)).status == 404
        for path in ("", "metrics", "livez", "readyz"):
            for method in ("POST", "PUT", "DELETE"):
                answer = await fetch(url + path, method)
                assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")


NEVER = "no relist has succeeded recently\n"


@pytest.mark.parametrize(
    ("node", "livez", "readyz"),
    [
        # Just started: nothing to believe yet, and no reason to restart.
        (Node(), "ok\n", NEVER),
        (Node(relist_succeeded=0.0, relist_turned=0.0), "ok\n", "ok\n"),
        (
            Node(relist_note="ListPodSandbox: gone", relist_turned=0.0),
            "ok\n",
            "ListPodSandbox: gone\n",
        ),
        (Node(relist_succeeded=-175.0), "ok\n", "ok\n"),
        (Node(relist_succeeded=-185.0), "ok\n", NEVER),
        (Node(relist_turned=-46.0), "ok\n", NEVER),
        (Node(relist_turned=-56.0), "no relist was begun for 51 s\n", NEVER),
        # A slow runtime stretches the period.
        (Node(relist_turned=-150.0, relist_period=120.0), "ok\n", NEVER),
    ],
    ids=["new", "good", "failing", "ready", "too old", "alive", "hung", "stretched"],
)
async def test_probes_say_what_is_wrong(node: Node, livez: str, readyz: str) -> None:
    """A dead runtime makes it not ready, and only a hung process makes it not alive."""
    now = time.monotonic()
    node = replace(
        node,
        relist_succeeded=None if node.relist_succeeded is None else now + node.relist_succeeded,
        relist_turned=None if node.relist_turned is None else now + node.relist_turned,
    )
    async with pages_of(node) as url:
        for path, said in (("livez", livez), ("readyz", readyz)):
            answer = await fetch(url + path)
            assert (answer.status, answer.text) == (200 if said == "ok\n" else 503, said)


@contextlib.asynccontextmanager
async def probes_apart(files: WebFiles, text: str) -> AsyncIterator[tuple[str, str]]:
    """Pages under that configuration, and the URL of their probes."""
    probing = ListenAddress(LOCAL.host, free_port())
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
    """Scrapers keep their connections."""
    async with asyncio.timeout(DEADLINE), contextlib.AsyncExitStack() as stack:
        async with pages_of() as url:
            reader, writer = await stack.enter_async_context(connection(url))
            writer.write(PROBE)
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK")
        assert await reader.read() == b""
