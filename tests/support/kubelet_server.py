"""A kubelet's HTTP server with scripted answers; on unix sockets in virtual time."""

from __future__ import annotations

import asyncio
import gzip
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

from tests.support.kubelet_pages import MIB, KubeletPage
from tests.support.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

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
    page: KubeletPage | None = None, tls: ssl.SSLContext | None = None, port: int = 0
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
                fake.port = port or next(_ports)
                await web.UnixSite(runner, _socket_of(fake.port)).start()
            else:
                site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls, reuse_address=True)
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


def body(content: bytes, **headers: str) -> Answer:
    """That content."""
    return answering(body=content, headers=headers)


def zipped(content: bytes) -> Answer:
    """That content, compressed."""
    return body(gzip.compress(content), **{"Content-Encoding": "gzip"})


def slowly(seconds: float) -> Answer:
    """The usual page, so much later."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response(text=KubeletPage().text())

    return answer


async def hangs(_request: web.Request) -> web.StreamResponse:
    """Never an answer."""
    await asyncio.Event().wait()
    raise AssertionError("it goes on")


async def _begun(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    return response


async def dribbles(request: web.Request) -> web.StreamResponse:
    """A line every now and then, without an end."""
    response = await _begun(request)
    while True:
        await response.write(b"go_goroutines 1\n")
        await asyncio.sleep(0.02)


async def endless(request: web.Request) -> web.StreamResponse:
    """A page that does not end, as fast as it is read."""
    response = await _begun(request)
    lines = b'kubelet_running_pods{some="label"} 1\n' * (MIB // 40)
    while True:
        await response.write(lines)
        # Writing to a closed connection never waits: without this the loop would not notice.
        await asyncio.sleep(0)


async def breaks_off(request: web.Request) -> web.StreamResponse:
    """The first half of a page, and the connection is gone."""
    response = await _begun(request)
    await response.write(KubeletPage().text().encode()[:2000])
    assert request.transport is not None
    request.transport.abort()
    return response
