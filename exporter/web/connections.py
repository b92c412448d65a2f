"""Accepts connections, with limits in number and time.

asyncio's own server accepts as fast as it can: a flood of connections kept the loop from the event
stream for up to 0.9 s, and its TLS handshakes could be neither counted nor closed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from exporter.web.access.limits import WebLimits, peer_of
from exporter.web.access.policy import WebPolicy
from exporter.web.refusals import Refusal, WebState

# 500 connections a second: fewer would delay a scraper behind a flood, more would cost CPU.
_PAUSE_SECONDS: Final = 0.002
_PAUSE_AFTER_ERROR_SECONDS: Final = 0.1
# Connections that are closed where there is no descriptor left.
_FREED: Final = 8
_TLS_GOODBYE_SECONDS: Final = 1.0
# A request from Prometheus has a few hundred bytes.
_REQUEST_BYTES: Final = 16 * 1024
_HTTP_LIMITS: Final = {"max_line_size": 4096, "max_field_size": 8190, "max_headers": 64}

_log = logging.getLogger("aiohttp.server")


class Connection(web.RequestHandler):
    """HTTP over one connection, from accept on. Closes itself when its time is up."""

    __slots__ = ("_accepted", "_due", "_listener", "_opening", "_received", "_timer", "peer")

    def __init__(self, listener: LimitedListener, accepted: socket.socket, peer: str) -> None:
        loop, limits = asyncio.get_running_loop(), listener.limits
        super().__init__(
            listener.server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # as aiohttp's own runner has it
            keepalive_timeout=limits.idle_seconds,
            lingering_time=0,
            **_HTTP_LIMITS,  # type: ignore[arg-type] # a mapping of int
        )
        self.peer = peer
        self._listener = listener
        self._accepted: socket.socket | None = accepted
        self._received = 0
        self._due = loop.time() + limits.handshake_seconds + limits.first_request_seconds
        self._timer = loop.call_at(self._due, self._expire)
        self._opening = loop.create_task(self._open(accepted))
        self._opening.add_done_callback(self._opened)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit or reject: a request may come with the last bytes of the handshake."""
        super().connection_made(transport)
        tls = self._listener.access.policy.tls
        if tls and not tls.admits(transport.get_extra_info("peercert")):
            self._listener.state.refuse(Refusal.HANDSHAKE)
            self.force_close()
            self.close_now()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection was closed by either side."""
        super().connection_lost(exc)
        self._gone()

    def data_received(self, data: bytes) -> None:
        """Take part of a request, as long as the total stays small."""
        self._received += len(data)
        if self._received > _REQUEST_BYTES:
            self._listener.state.refuse(Refusal.MALFORMED)
            self.close_now()
            return
        super().data_received(data)

    def stay(self) -> None:
        """Restart the idle timeout: a complete request has arrived, or a viewer was sent news."""
        self._received = 0
        self._due = asyncio.get_running_loop().time() + self._listener.limits.idle_seconds

    def close_now(self) -> None:
        """Close at once, whatever is in progress."""
        self._opening.cancel()
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        self._gone()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Handle bad requests. They are counted, not logged: there is no end to them."""
        if isinstance(exc, HttpProcessingError):
            self._listener.state.refuse(Refusal.MALFORMED)
            text = f"{HTTPStatus(status).phrase.lower()}\n"
            answer: web.StreamResponse = web.Response(status=status, text=text)
            answer.force_close()
        else:
            answer = super().handle_error(request, status, exc, message)
        answer.headers["Server"] = "shadow-pleg"
        return answer

    async def _open(self, accepted: socket.socket) -> None:
        self._accepted = None
        tls = self._listener.access.policy.tls
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self,
            accepted,
            ssl=tls.context if tls else None,
            ssl_handshake_timeout=self._listener.limits.handshake_seconds if tls else None,
            ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS if tls else None,
        )

    def _opened(self, opening: asyncio.Task[None]) -> None:
        if self._accepted:
            self._accepted.close()
        if opening.cancelled():
            self._gone()
        elif error := opening.exception():
            self._listener.state.refuse(Refusal.HANDSHAKE)
            if not isinstance(error, OSError | TimeoutError):
                _log.error("a connection could not be opened", exc_info=error)
            self._gone()

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._due:
            self._timer = loop.call_at(self._due, self._expire)
            return
        self._listener.state.refuse(Refusal.TIMEOUT)
        self.close_now()

    def _gone(self) -> None:
        self._timer.cancel()
        self._listener.forget(self)


class LimitedListener:
    """All connections of one address."""

    def __init__(
        self, server: web.Server, access: WebPolicy, state: WebState, limits: WebLimits
    ) -> None:
        self.server = server
        self.access = access
        self.state = state
        self.limits = limits
        self._all: dict[Connection, None] = {}

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)  # noqa: FBT003 - its only argument
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                # Aborted in the meantime, or no file descriptor left: the watch needs them, too.
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    for _ in tuple(self._all)[:_FREED]:
                        self._make_room()
                await asyncio.sleep(_PAUSE_AFTER_ERROR_SECONDS)
                continue
            if len(self._all) >= self.limits.connections:
                self._make_room()
            self._all[Connection(self, accepted, peer_of(address))] = None
            await asyncio.sleep(_PAUSE_SECONDS)

    def close_all(self) -> None:
        """Close every connection; legitimate clients reconnect."""
        for connection in tuple(self._all):
            connection.close_now()

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._all.pop(connection, None)

    def _make_room(self) -> None:
        """Close the oldest connection of the peer with the most: never a scraper's only one."""
        [(greediest, _)] = Counter(each.peer for each in self._all).most_common(1)
        self.state.refuse(Refusal.CONNECTIONS)
        next(each for each in self._all if each.peer == greediest).close_now()
