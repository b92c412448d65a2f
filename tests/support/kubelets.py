"""A kubelet's page of metrics as real ones write it, and a server for it with scripted answers.

The families that matter are among all others; in virtual time it is on unix sockets.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import pytest
from aiohttp import web

from tests.support.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

MIB: Final = 1 << 20
_BUCKETS: Final = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10")
_GATES: Final = {"AllAlpha": "ALPHA", "CPUManagerPolicyOptions": "", "ImageVolume": "BETA"}


def _family(kind: str, name: str, *samples: str) -> str:
    """A family; each sample is what follows its name."""
    head = f"# HELP {name} [ALPHA] What a kubelet says.\n# TYPE {name} {kind}\n"
    return head + "".join(f"{name}{sample}\n" for sample in samples)


def _histogram(labels: str = "", count: int = 90210) -> tuple[str, ...]:
    inner, outer = (f"{labels},", f"{{{labels}}}") if labels else ("", "")
    buckets = (f'_bucket{{{inner}le="{le}"}} {count}' for le in (*_BUCKETS, "+Inf"))
    return (*buckets, f"_sum{outer} 123.4", f"_count{outer} {count}")


def _operations(size: int) -> str:
    """What fills a page: a histogram of one operation, as often as on a full node of many."""
    name, one = (
        "kubelet_runtime_operations_duration_seconds",
        _histogram('operation_type="version"'),
    )
    times = size // sum(len(name) + len(sample) for sample in one) + 1
    return _family("histogram", name, *one * times)


@dataclass(frozen=True, slots=True)
class KubeletPage:
    """One page. `gate`: None where the kubelet does not list it. `bytes`: at least so large."""

    gate: bool | None = False
    bytes: int = 0
    version: str = "v1.33.4"
    stream_errors: int | None = None
    events: int | None = None
    connections: int = 1

    def text(self) -> str:
        """The page, families in the order of their names."""
        return "".join(
            (
                _family("counter", "aggregator_discovery_aggregation_count_total", " 0"),
                _family("gauge", "go_goroutines", " 412"),
                self._evented(),
                _family("gauge", "kubelet_node_name", '{node="node-7"} 1'),
                _family("counter", "kubelet_pleg_discard_events", " 3"),
                _family("gauge", "kubelet_pleg_last_seen_seconds", " 1.7637001e+09"),
                _family("histogram", "kubelet_pleg_relist_duration_seconds", *_histogram()),
                _operations(self.bytes),
                self._features(),
                _family("gauge", "process_start_time_seconds", " 1.76370000025e+09"),
            )
        )

    def _evented(self) -> str:
        if self.stream_errors is None and self.events is None:
            return ""
        name, latencies = "kubelet_evented_pleg_connection", _histogram(count=self.events or 0)
        return (
            _family("counter", f"{name}_error_count", f" {self.stream_errors or 0}")
            + _family("histogram", f"{name}_latency_seconds", *latencies)
            + _family("counter", f"{name}_success_count", f" {self.connections}")
        )

    def _features(self) -> str:
        gates = _GATES if self.gate is None else _GATES | {"EventedPLEG": "ALPHA"}
        samples = (
            f'{{name="{name}",stage="{stage}"}} {self.gate if name == "EventedPLEG" else 1:d}'
            for name, stage in sorted(gates.items())
        )
        build = f'{{build_date="2026-08-12T08:21:42Z",git_version="{self.version}",major="1"}} 1'
        features = _family("gauge", "kubernetes_feature_enabled", *samples)
        return _family("gauge", "kubernetes_build_info", build) + features


_ports: Final = itertools.count(1)

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class FakeKubelet:
    """`answer` beats `page`. `requests`: when, and the headers of each; `most`: at one time."""

    page: KubeletPage = field(default_factory=KubeletPage)
    answer: Answer | None = None
    url: str = ""
    port: int = 0
    requests: list[tuple[float, dict[str, str]]] = field(default_factory=list)
    in_flight: int = 0
    most: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Note the request, and answer it."""
        self.requests.append((time.monotonic(), dict(request.headers)))
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if self.answer is not None:
                return await self.answer(request)
            return web.Response(text=self.page.text())
        finally:
            self.in_flight -= 1


def _socket_of(port: int | None) -> str:
    return str(Path(tempfile.gettempdir()) / f"kubelet-{port}.sock")


class _UnixConnector(aiohttp.UnixConnector):
    """Connects to the unix socket that replaces a port."""

    def __init__(self, *, ssl: object, **others: Any) -> None:  # noqa: ANN401 - handed on
        assert ssl is True
        super().__init__("", **others)

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        *others: Any,  # noqa: ANN401 - handed on
    ) -> ResponseHandler:
        self._path = _socket_of(req.url.port)
        return await super()._create_connection(req, *others)


@asynccontextmanager
async def kubelet(
    page: KubeletPage | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeKubelet]:
    """It listens until the block ends."""
    fake = FakeKubelet(page or KubeletPage())
    app = web.Application()
    app.router.add_get("/metrics", fake.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    with pytest.MonkeyPatch.context() as patch:
        try:
            if isinstance(asyncio.get_running_loop(), VirtualLoop):
                patch.setattr(aiohttp, "TCPConnector", _UnixConnector)
                fake.port = next(_ports)
                await web.UnixSite(runner, _socket_of(fake.port)).start()
            else:
                site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
                await site.start()
                _, fake.port = runner.addresses[0]
            fake.url = f"{'https' if tls else 'http'}://127.0.0.1:{fake.port}/metrics"
            yield fake
        finally:
            await runner.cleanup()


def answering(**response: Any) -> Answer:  # noqa: ANN401 - of aiohttp's Response
    """That response."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(**response)

    return answer


def status(number: int, **headers: str) -> Answer:
    """That status, with a text that looks like no page."""
    return answering(status=number, text="no\n", headers=headers)


def slowly(seconds: float) -> Answer:
    """The usual page, so much later."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response(text=KubeletPage().text())

    return answer


def pouring(piece: bytes, every: float) -> Answer:
    """That again and again, without an end, after so many seconds."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(piece)
            # Writing to a closed connection never waits: without this the loop would not notice.
            await asyncio.sleep(every)

    return answer


hangs: Final = slowly(86_400)
# A line every now and then; and a page as fast as it is read.
dribbles: Final = pouring(b"go_goroutines 1\n", 0.02)
endless: Final = pouring(b'kubelet_running_pods{some="label"} 1\n' * (MIB // 40), 0)


async def breaks_off(request: web.Request) -> web.StreamResponse:
    """The first half of a page, and the connection is gone."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(KubeletPage().text().encode()[:2000])
    assert request.transport is not None
    request.transport.abort()
    return response
