"""The HTTP face: routes, formats and health, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from exporter.node.state import Node
from exporter.settings.flags import ListenAddress
from exporter.web.listen import listen
from tests.support.commands import DEADLINE, Answer, fetch
from tests.support.exposition import openmetrics
from tests.support.web_pages import CONFIG, LOCAL, face_of

pytestmark = pytest.mark.quick

TEXT = "text/plain; version=0.0.4; charset=utf-8"
# What Prometheus 3 sends.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def port_of(url: str) -> int:
    """The port of a URL that has one."""
    return int(url.rsplit(":", 1)[1].strip("/"))


async def ask(path: str, node: Node | None = None, method: str = "GET", **headers: str) -> Answer:
    """One request to the face of a node."""
    async with face_of(node or Node()) as url:
        return await fetch(url.rstrip("/") + path, method, **headers)


async def test_metrics_come_as_text_by_default() -> None:
    """A person with curl, and every scraper of old."""
    answer = await ask("/metrics")
    assert (answer.status, answer.headers["Content-Type"]) == (200, TEXT)
    assert "# TYPE kube_pod_missed_events_total counter" in answer.text


async def test_metrics_come_as_openmetrics_to_who_asks_for_it() -> None:
    """Prometheus does; exemplars come no other way."""
    answer = await ask("/metrics", Accept=PROMETHEUS)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    assert "kube_pod_missed_events" in {family.name for family in openmetrics(answer.text)}


async def test_metrics_are_compressed_for_who_can_unpack_them() -> None:
    """Two hundred series are mostly the same few words."""
    plain = await ask("/metrics", Accept_Encoding="identity")
    packed = await ask("/metrics", Accept_Encoding="gzip")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) < int(plain.headers["Content-Length"]) / 4
    assert "kube_pod_missed_events_total" in packed.text


async def test_metrics_can_be_asked_for_by_name() -> None:
    """`name[]` as every exporter with Prometheus' client has it."""
    answer = await ask("/metrics?name[]=shadow_pleg_pods&name[]=shadow_pleg_containers")
    samples = {line.split("{")[0].split()[0] for line in answer.text.splitlines() if line[0] != "#"}
    assert samples == {"shadow_pleg_pods", "shadow_pleg_containers"}


async def test_the_process_itself_is_measured() -> None:
    """What every Python exporter has: memory, CPU, file descriptors."""
    text = (await ask("/metrics")).text
    for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "python_info"):
        assert f"\n{name}" in text


async def test_the_telemetry_path_can_be_chosen() -> None:
    """Then it is there, linked from the landing page, and nowhere else."""
    config = replace(CONFIG, web_telemetry_path="/pleg/metrics")
    async with face_of(Node(), config) as url:
        assert (await fetch(url + "pleg/metrics")).headers["Content-Type"] == TEXT
        assert (await fetch(url + "metrics")).status == 404
        assert '<a href="./pleg/metrics">/pleg/metrics</a>' in (await fetch(url)).text


@pytest.mark.parametrize("path", ["/nothing", "/metrics/", "/livez/x", "/../etc/passwd"])
async def test_an_unknown_path_is_not_found(path: str) -> None:
    """The pages, their parts, and no files."""
    assert (await ask(path)).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/metrics", "/livez", "/readyz"])
async def test_nothing_can_be_changed(path: str, method: str) -> None:
    """The face reads."""
    answer = await ask(path, method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")


@pytest.mark.parametrize("path", ["/", "/metrics", "/livez"])
async def test_head_tells_of_a_page_without_sending_it(path: str) -> None:
    """What probes and load balancers ask."""
    answer = await ask(path, method="HEAD")
    assert (answer.status, answer.text) == (200, "")
    assert int(answer.headers["Content-Length"]) > 0


async def test_a_process_that_has_just_begun_is_alive_and_not_ready() -> None:
    """Nothing to believe yet, nothing to restart."""
    alive, ready = await ask("/livez"), await ask("/readyz")
    assert (alive.status, alive.text) == (200, "ok\n")
    assert (ready.status, ready.text) == (503, "no relist has succeeded recently\n")


async def test_a_recent_relist_makes_ready() -> None:
    """The metrics can be believed."""
    node = Node(relist_succeeded=time.monotonic(), relist_turned=time.monotonic())
    assert (await ask("/readyz", node)).text == "ok\n"
    assert (await ask("/livez", node)).text == "ok\n"


async def test_a_relist_that_fails_is_the_reason_for_not_ready_and_none_for_not_alive() -> None:
    """A dead runtime must not restart its observer."""
    node = Node(relist_note="ListPodSandbox: unavailable: gone", relist_turned=time.monotonic())
    ready, alive = await ask("/readyz", node), await ask("/livez", node)
    assert (ready.status, ready.text) == (503, "ListPodSandbox: unavailable: gone\n")
    assert alive.status == 200


@pytest.mark.parametrize(("age", "status"), [(175.0, 200), (185.0, 503)])
async def test_ready_ends_at_the_threshold(age: float, status: int) -> None:
    """One failed relist is no news, three minutes without one are."""
    node = Node(relist_succeeded=time.monotonic() - age)
    assert (await ask("/readyz", node)).status == status


@pytest.mark.parametrize(("age", "status"), [(46.0, 200), (56.0, 503)])
async def test_alive_ends_when_the_relist_task_no_longer_turns(age: float, status: int) -> None:
    """Later than period, timeout and some slack together explain, the process hangs."""
    answer = await ask("/livez", Node(relist_turned=time.monotonic() - age))
    assert answer.status == status
    if status == 503:
        assert answer.text == "no relist was begun for 51 s\n"


async def test_a_stretched_period_is_no_hang() -> None:
    """Resting for long, because the runtime is slow, is what it should do."""
    node = Node(relist_turned=time.monotonic() - 150.0, relist_period=120.0)
    assert (await ask("/livez", node)).status == 200


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
    """Port 0 becomes a real one, an IPv6 address is in brackets, every address has a name."""
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    config = replace(CONFIG, web_listen_address=ListenAddress(host, 0))
    async with face_of(Node(), config) as url:
        assert url.startswith(begins)
        assert (await fetch(url + "livez")).status == 200


async def test_all_addresses_are_those_of_both_families() -> None:
    """`:13386` answers who comes by IPv4 and who comes by IPv6."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    config = replace(CONFIG, web_listen_address=ListenAddress("", 0))
    async with face_of(Node(), config) as url:
        for host in ("127.0.0.1", "[::1]"):
            assert (await fetch(f"http://{host}:{port_of(url)}/livez")).status == 200


async def test_the_port_is_free_again_at_once() -> None:
    """A restarted exporter finds its port."""
    async with face_of(Node()) as url:
        await fetch(url)
        port = port_of(url)
    with listen(ListenAddress(LOCAL.host, port)) as again:
        assert again.getsockname()[1] == port


async def test_an_open_connection_does_not_hold_up_the_end() -> None:
    """A scraper that keeps its connection is no reason to live on."""
    async with asyncio.timeout(DEADLINE):
        async with face_of(Node()) as url:
            reader, writer = await asyncio.open_connection(LOCAL.host, port_of(url))
            writer.write(b"GET /livez HTTP/1.1\r\nHost: node-7\r\n\r\n")
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK")
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
