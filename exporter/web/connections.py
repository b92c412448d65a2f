"""Accepts connections, with limits in number and time so that none can block the loop.

Handles accepting, handshakes, and closing connections that take too long or too much. Blind spot:
peers are identified by address; a flood from a scraper's address, or from very many addresses, uses
up the scraper's share, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections import Counter
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from exporter.web.access.pacing import Allowance, peer_of
from exporter.web.access.policy import WebPolicy
from exporter.web.refusals import FaceState, Refusal

# In total. The peer with the most connections loses its oldest to a new one.
_MOST: Final = 128
# New connections per peer: rate per second, and burst.
_RATE: Final = 50.0
_BURST: Final = 200.0
# After each accepted or rejected connection: the loop has other things to do.
_AFTER_ACCEPTING: Final = 0.005
_AFTER_REFUSING: Final = 0.001
_AFTER_AN_ERROR: Final = 0.1
_HANDSHAKE: Final = 5.0
_TLS_GOODBYE: Final = 1.0
# Deadline for the first request; later ones get longer than any scrape interval.
_FIRST_REQUEST: Final = 10.0
_IDLE: Final = 180.0
# A request from Prometheus has a few hundred bytes.
_LARGEST_REQUEST: Final = 16 * 1024
_LIMITS: Final = {"max_line_size": 4096, "max_field_size": 8190, "max_headers": 64}

_log = logging.getLogger("aiohttp.server")


class Connection:
    """One connection, from accept on. Closes itself when its time is up."""

    def __init__(self, doorway: LimitedListener, accepted: socket.socket, peer: str) -> None:
        self.peer = peer
        self._doorway = doorway
        self._loop = asyncio.get_running_loop()
        self._unopened: socket.socket | None = accepted
        self._transport: asyncio.Transport | None = None
        self._due = self._loop.time() + _HANDSHAKE + _FIRST_REQUEST
        self._timer = self._loop.call_at(self._due, self._expire)
        self._opening = self._loop.create_task(self._open(accepted))
        self._opening.add_done_callback(self._opened)

    def established(self, transport: asyncio.Transport) -> None:
        """The handshake is complete."""
        self._transport = transport

    def asked(self) -> None:
        """A complete request has arrived."""
        self._due = self._loop.time() + _IDLE

    def close(self) -> None:
        """Close at once, whatever is in progress."""
        self._opening.cancel()
        if self._transport:
            self._transport.abort()
        self.gone()

    def gone(self) -> None:
        """The connection is closed."""
        self._timer.cancel()
        self._doorway.forget(self)

    async def _open(self, accepted: socket.socket) -> None:
        self._unopened = None
        tls = self._doorway.access.policy.tls
        await self._loop.connect_accepted_socket(
            lambda: Handler(self, self._doorway),
            accepted,
            ssl=tls.context if tls else None,
            ssl_handshake_timeout=_HANDSHAKE if tls else None,
            ssl_shutdown_timeout=_TLS_GOODBYE if tls else None,
        )

    def _opened(self, opening: asyncio.Task[None]) -> None:
        if self._unopened:
            self._unopened.close()
        if opening.cancelled():
            self.gone()
        elif error := opening.exception():
            self._doorway.state.refuse(Refusal.HANDSHAKE)
            if not isinstance(error, OSError | TimeoutError):
                _log.error("a connection could not be opened", exc_info=error)
            self.gone()

    def _expire(self) -> None:
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._expire)
            return
        self._doorway.state.refuse(Refusal.TIMEOUT)
        self.close()


class Handler(web.RequestHandler):
    """HTTP over one connection, for clients whose certificate has an allowed name."""

    __slots__ = ("_doorway", "_received", "connection")

    def __init__(self, connection: Connection, doorway: LimitedListener) -> None:
        super().__init__(
            doorway.server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # as aiohttp's own runner has it
            keepalive_timeout=_IDLE,
            lingering_time=0,
            **_LIMITS,  # type: ignore[arg-type] # a mapping of int
        )
        self.connection = connection
        self._doorway = doorway
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit or reject: a request may come with the last bytes of the handshake."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream socket
        self.connection.established(transport)
        super().connection_made(transport)
        tls = self._doorway.access.policy.tls
        if tls and not tls.admits(transport.get_extra_info("peercert")):
            self._doorway.state.refuse(Refusal.HANDSHAKE)
            self.force_close()
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection was closed by either side."""
        super().connection_lost(exc)
        self.connection.gone()

    def data_received(self, data: bytes) -> None:
        """Take part of a request, as long as the total stays small."""
        self._received += len(data)
        if self._received > _LARGEST_REQUEST:
            self._doorway.state.refuse(Refusal.MALFORMED)
            self.connection.close()
            return
        super().data_received(data)

    def asked(self) -> None:
        """A complete request has arrived."""
        self._received = 0
        self.connection.asked()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Handle bad requests. They are counted, not logged: there is no end to them."""
        if isinstance(exc, HttpProcessingError):
            self._doorway.state.refuse(Refusal.MALFORMED)
            text = f"{HTTPStatus(status).phrase.lower()}\n"
            answer: web.StreamResponse = web.Response(status=status, text=text)
            answer.force_close()
        else:
            answer = super().handle_error(request, status, exc, message)
        answer.headers["Server"] = "shadow-pleg"
        return answer


class LimitedListener:
    """All connections of one address."""

    def __init__(self, server: web.Server, access: WebPolicy, state: FaceState) -> None:
        self.server = server
        self.access = access
        self.state = state
        self._all: dict[Connection, None] = {}
        self._of: Counter[str] = Counter()
        self._arrivals = Allowance(_RATE, _BURST)

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)  # noqa: FBT003 - its only argument
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                # Aborted in the meantime, or no file descriptor left: both are temporary.
                await asyncio.sleep(_AFTER_AN_ERROR)
                continue
            peer = peer_of(address)
            if self._arrivals.take(peer):
                self._take_in(accepted, peer)
                await asyncio.sleep(_AFTER_ACCEPTING)
            else:
                self.state.refuse(Refusal.RATE)
                _slam(accepted)
                await asyncio.sleep(_AFTER_REFUSING)

    def close_all(self) -> None:
        """Close every connection; legitimate clients reconnect."""
        for connection in tuple(self._all):
            connection.close()

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        if self._all.pop(connection, self) is self:
            return
        self._of[connection.peer] -= 1
        if not self._of[connection.peer]:
            del self._of[connection.peer]

    def _take_in(self, accepted: socket.socket, peer: str) -> None:
        if len(self._all) >= _MOST:
            [(greediest, _)] = self._of.most_common(1)
            oldest = next(each for each in self._all if each.peer == greediest)
            self.state.refuse(Refusal.CONNECTIONS)
            oldest.close()
        self._all[Connection(self, accepted, peer)] = None
        self._of[peer] += 1


def _slam(accepted: socket.socket) -> None:
    """Close with a reset, so that the kernel keeps nothing of it."""
    with contextlib.suppress(OSError):
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    accepted.close()
