"""`/events`: the status page, kept up to date for the few who look at it.

Law: nothing waits for a viewer. Each has at most one frame under way; while that is not out,
newer ones are left out for it, and a viewer that takes nothing for seconds is shown out. Here:
who gets a frame when. Not here: frames (`board`). That aiohttp-sse would encode each message for
each viewer, and ping each from a task of its own, is why it is not used.
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

# More than look at one node at a time.
MOST: Final = 4
# Seconds without news after which a viewer is told that there is none.
_BEAT: Final = 10.0
# Seconds in which a frame must be out.
_PATIENCE: Final = 5.0
# Milliseconds after which a browser comes again.
_AGAIN: Final = 2000
# Bytes that the kernel holds for a viewer, and milliseconds until it gives up one that is gone.
_HELD: Final = 32 * 1024
_GONE: Final = 30_000
_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # Proxies that would collect it first.
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
        """Whether one more would be too many; who has left does not count."""
        return sum(not _is_gone(each) for each in self._viewers.values()) >= MOST

    def close(self) -> None:
        """Let every viewer go."""
        self._over.set()

    async def page(self, request: web.Request) -> web.StreamResponse:
        """Frames as they change, until either side has enough."""
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
        # Whoever leaves in the middle ends it like everybody else.
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
    """Whether it is on its way in time; a frame larger than the transport's buffer waits."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await response.write(data)
    except TimeoutError:
        return False
    return True


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _is_under_way(request: web.Request) -> bool:
    """Whether something of the last frame still waits in this process."""
    transport = request.transport
    return isinstance(transport, asyncio.WriteTransport) and bool(transport.get_write_buffer_size())


def _stays(request: web.Request) -> None:
    """A viewer asks for nothing more, and is no idle connection."""
    if isinstance(request.protocol, Handler):
        request.protocol.asked()


def _bound(transport: asyncio.BaseTransport | None) -> None:
    """What the kernel holds for a viewer, and for how long."""
    opened = transport.get_extra_info("socket") if transport else None
    if opened is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _HELD)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE)
