"""`/events`: keeps the status page up to date for a few viewers.

Law: nothing waits for a viewer. Each has at most one frame in flight; until that is sent, newer
ones are skipped for it, and a viewer that reads nothing for seconds is disconnected. aiohttp-sse is
not used, because it would encode each message per viewer, and run a ping task for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from typing import Final

from aiohttp import web

from exporter.web.connections import Handler
from exporter.web.refusals import FaceState, Refusal
from exporter.web.status.board import EVERY, Board, event_of

# More viewers than one node normally has at a time.
MOST: Final = 4
# Seconds without a change after which a viewer gets a heartbeat.
_BEAT: Final = 10.0
# Seconds within which a frame must be sent.
_PATIENCE: Final = 5.0
# Milliseconds after which a browser reconnects.
_AGAIN: Final = 2000
# Bytes that the kernel buffers per viewer, and milliseconds until it drops a dead one.
_HELD: Final = 32 * 1024
_GONE: Final = 30_000
_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # For proxies that would buffer the stream.
    "X-Accel-Buffering": "no",
}


class Live:
    """All viewers of one board."""

    def __init__(self, board: Board, state: FaceState) -> None:
        self._board = board
        self._state = state
        self._viewers: dict[int, web.Request] = {}
        self._numbers = itertools.count()
        self._over = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached; viewers that have left do not count."""
        return sum(not _is_gone(each) for each in self._viewers.values()) >= MOST

    def close(self) -> None:
        """Disconnect every viewer."""
        self._over.set()

    async def page(self, request: web.Request) -> web.StreamResponse:
        """Send frames as they change, until either side ends it."""
        if request.method == "HEAD":
            return web.Response(headers=_HEADERS)
        if self.is_full:
            self._state.refuse(Refusal.BUSY)
            text = f"{MOST} pages are live already: reload, or look again later\n"
            return web.Response(status=503, text=text, headers={"Retry-After": "10"})
        number = next(self._numbers)
        self._viewers[number] = request
        try:
            return await self._serve(request)
        finally:
            del self._viewers[number]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=_HEADERS)
        # A viewer that leaves in the middle ends like any other.
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            _bound(request.transport)
            await response.write(f"retry: {_AGAIN}\n\n".encode())
            await self._show(request, response)
        return response

    async def _show(self, request: web.Request, response: web.StreamResponse) -> None:
        number, told = 0, float("-inf")
        while not self._over.is_set() and not _is_gone(request):
            now = time.monotonic()
            frame = self._board.frame(now)
            if _is_under_way(request):
                if now - told > _PATIENCE:
                    self._show_out(request)
            elif frame.number != number or now - told >= _BEAT:
                news = frame.event if frame.number != number else b""
                number, told = frame.number, now
                _stays(request)
                if not await _written(response, event_of("beat", f"{time.time():.3f}") + news):
                    self._show_out(request)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), EVERY)

    def _show_out(self, request: web.Request) -> None:
        self._state.refuse(Refusal.TIMEOUT)
        if request.transport is not None:
            request.transport.abort()


async def _written(response: web.StreamResponse, data: bytes) -> bool:
    """Send the data; False on timeout. A frame larger than the transport's buffer waits."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await response.write(data)
    except TimeoutError:
        return False
    return True


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _is_under_way(request: web.Request) -> bool:
    """Whether part of the last frame is still buffered in this process."""
    transport = request.transport
    return isinstance(transport, asyncio.WriteTransport) and bool(transport.get_write_buffer_size())


def _stays(request: web.Request) -> None:
    """Restart the idle timeout for a viewer, as it sends no further requests."""
    if isinstance(request.protocol, Handler):
        request.protocol.asked()


def _bound(transport: asyncio.BaseTransport | None) -> None:
    """Bound what the kernel buffers for a viewer, and for how long."""
    opened = transport.get_extra_info("socket") if transport else None
    if opened is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _HELD)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE)
