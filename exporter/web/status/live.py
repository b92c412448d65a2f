"""`/events`: keeps the status page up to date for a few viewers.

Law: nothing waits for a viewer. Each has at most one frame in flight; until that is sent, newer
ones are skipped for it, and a viewer that reads nothing for seconds is disconnected. aiohttp-sse is
not used, because it would encode each message per viewer, and run a ping task for each.
"""

import asyncio
import contextlib
import socket
import time
from typing import Final

from aiohttp import web

from exporter.web.connections import Connection
from exporter.web.refusals import Refusal, WebState
from exporter.web.status.page import LOOK_SECONDS, MOST_VIEWERS, Board, event_of

# Without a change, a viewer gets a heartbeat after this time.
_BEAT_SECONDS: Final = 10.0
# Within which a frame must be sent.
_SENDING_SECONDS: Final = 5.0
# After which a browser reconnects.
_RECONNECT_MS: Final = 2000
# What the kernel buffers per viewer, and when it drops a dead one.
_KERNEL_BUFFER_BYTES: Final = 32 * 1024
_DEAD_MS: Final = 30_000
_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # For proxies that would buffer the stream.
    "X-Accel-Buffering": "no",
}


class Live:
    """All viewers of one board."""

    def __init__(self, board: Board, state: WebState) -> None:
        self.board = board
        self._state = state
        self._viewers: set[web.RequestHandler] = set()
        self._over = asyncio.Event()

    def is_full(self) -> bool:
        """Whether the limit is reached; viewers that have left do not count."""
        return sum(not _has_left(each) for each in self._viewers) >= MOST_VIEWERS

    def close(self) -> None:
        """Disconnect every viewer."""
        self._over.set()

    async def page(self, request: web.Request) -> web.StreamResponse:
        """Send frames as they change, until either side ends it."""
        if request.method == "HEAD":
            return web.Response(headers=_HEADERS)
        if self.is_full():
            self._state.refuse(Refusal.BUSY)
            text = f"{MOST_VIEWERS} pages are live already: reload, or look again later\n"
            return web.Response(status=503, text=text, headers={"Retry-After": "10"})
        response = web.StreamResponse(headers=_HEADERS)
        self._viewers.add(request.protocol)
        # A viewer that leaves in the middle ends like any other.
        with contextlib.suppress(ConnectionError):
            try:
                await response.prepare(request)
                _limit_buffers(request.transport)
                await response.write(f"retry: {_RECONNECT_MS}\n\n".encode())
                await self._show(request, response)
            except TimeoutError:
                self._state.refuse(Refusal.TIMEOUT)
                if request.transport is not None:
                    request.transport.abort()
            finally:
                self._viewers.remove(request.protocol)
        return response

    async def _show(self, request: web.Request, response: web.StreamResponse) -> None:
        """Send frames; TimeoutError if the viewer reads nothing."""
        number, sent = 0, float("-inf")
        while not self._over.is_set() and not _has_left(request.protocol):
            now = time.monotonic()
            frame = self.board.frame(now)
            if frame.number != number or now - sent >= _BEAT_SECONDS:
                news = frame.event if frame.number != number else b""
                number, sent = frame.number, now
                if isinstance(request.protocol, Connection):
                    request.protocol.stay()
                async with asyncio.timeout(_SENDING_SECONDS):
                    await response.write(event_of("beat", f"{time.time():.3f}") + news)
                    await request.writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK_SECONDS)


def _has_left(viewer: web.RequestHandler) -> bool:
    return viewer.transport is None or viewer.transport.is_closing()


def _limit_buffers(transport: asyncio.BaseTransport | None) -> None:
    """Limit what is buffered for a viewer: one frame here, some bytes in the kernel."""
    if isinstance(transport, asyncio.WriteTransport):
        # Writing ends when the buffer is empty. For TLS, 0 would mean that it never does.
        transport.set_write_buffer_limits(high=1, low=0)
        opened = transport.get_extra_info("socket")
        # The viewer may have left already.
        with contextlib.suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER_BYTES)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_MS)
