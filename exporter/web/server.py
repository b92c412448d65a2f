"""Accepts a bounded number of connections, and serves client addresses in turn.

asyncio's own server accepts as fast as it can: a flood of connections kept the loop from the event
stream for up to 0.9 s. This one rests after each connection that it keeps, and after a millisecond
of CPU time of turning others away. Only at the limit are connections closed: first those of the
address with the most, then those that wait for nothing, then those of clients that were never
answered. So a flood displaces itself. Blind spot: if a flood comes from many addresses, faster than
they are served, a client that was never answered needs several attempts.
"""

import asyncio
import ipaddress
import logging
import math
import socket
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from exporter.errors import ConfigError
from exporter.model.labels import Refusal
from exporter.node.state import Node
from exporter.process.event_loop import meanwhile
from exporter.settings.flags import ListenAddress
from exporter.web.access.guard import Guard, Page
from exporter.web.access.policy import WebPolicy

Handlers = Mapping[str, Page]

# 500 handshakes and requests a second: fewer would delay a scraper, more would cost CPU.
_TURN_SECONDS: Final = 0.002
_ACCEPT_SECONDS: Final = 0.0005
# Of CPU time, before a rest of three times as long. Turned away one at a time, 1000 connections a
# second filled the kernel's queue, and a kubelet's probes timed out behind them.
_REFUSING_SECONDS: Final = 0.001
_REST: Final = 3
_PAUSE_AFTER_ERROR_SECONDS: Final = 0.1
# For each listen address: open connections, and connections that wait in the kernel's queue.
MOST_CONNECTIONS: Final = 128
_BACKLOG: Final = 1024
# A client with more connections than this loses some first: two scrapers and a browser have less.
_FEW: Final = 4
_HANDSHAKE_SECONDS: Final = 5.0
# How long a connection counts as waiting after its turn, for its handshake and first request. At
# 500 turns a second, these are less than half of all connections.
_BEGINNING_SECONDS: Final = 0.1
_TLS_GOODBYE_SECONDS: Final = 1.0
# Longer than any scrape interval.
IDLE_SECONDS: Final = 180.0
_SHUTDOWN_SECONDS: Final = 0.5
# The longest line of a request; one from Prometheus has a few hundred bytes in all.
_LINE_BYTES: Final = 4096
_MOST_HEADERS: Final = 64
# No cache may keep pages that name pods, and no page needs more than our own style, script, icon.
_HEADERS: Final = {
    "Server": "shadow-pleg",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_log = logging.getLogger("aiohttp.server")
_HANDLING: Final[dict[str, Any]] = {
    "access_log": None,
    "logger": _log,
    "keepalive_timeout": IDLE_SECONDS,
    "lingering_time": 0,
    "max_line_size": _LINE_BYTES,
    "max_field_size": 2 * _LINE_BYTES,
    "max_headers": _MOST_HEADERS,
}


def peer_of(address: object) -> str:
    """The client behind a socket's address: IPv4, or the /64 of IPv6, which belongs to one host."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    if ":" not in host:
        return host
    own = ipaddress.IPv6Address(host)
    return str(own.ipv4_mapped or ipaddress.IPv6Network((own.packed, 64), strict=False))


class _Connection(web.RequestHandler):
    """One connection. The answer to a malformed request repeats nothing and names no version."""

    __slots__ = ("opening", "peer", "waits_until")

    def __init__(self, server: web.Server, peer: str) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **_HANDLING)
        self.peer = peer
        # Until this monotonic time it waits for something that its client cannot speed up.
        self.waits_until = math.inf
        self.opening: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """Close the connection without waiting for anything."""
        if self.transport:
            self.transport.abort()
        elif self.opening:
            self.opening.cancel()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes what was sent
    ) -> web.StreamResponse:
        """Answer with the status and our own headers."""
        response = super().handle_error(request, status, exc)
        response.headers.update(_HEADERS)
        return response


class Server:
    """Answers on a listening socket from entry to exit; closes the socket on exit."""

    def __init__(
        self, pages: Handlers, listening: socket.socket, access: WebPolicy, node: Node
    ) -> None:
        self._listening = listening
        self._access = access
        self._node = node
        self._turns = Turns()
        self._guard = Guard(access, node)
        app = web.Application(middlewares=[self._answer])
        app.on_response_prepare.append(self._set_headers)
        app.add_routes([web.get(path, page) for path, page in pages.items()])
        self._runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN_SECONDS)
        # Connections before their turn or in their handshake, the oldest first.
        self._opening: dict[asyncio.Task[None], _Connection] = {}
        # Requests without an answer; their clients may have left.
        self._answering: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        # A log line for each bad request would fill a disk.
        _log.addFilter(_is_no_bad_request)
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101 - it was set up
        self._server = self._runner.server
        self._access.on_change = self._close_all
        self._jobs = meanwhile(self._accept(), self._access.keep_up())
        await self._jobs.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> None:  # noqa: ANN401, PYI036 - a block's three
        try:
            await self._jobs.__aexit__(*why)
        finally:
            self._listening.close()
            # Not by aiohttp, which fails if an answer comes just when it stops to wait.
            if self._answering:
                await asyncio.wait(self._answering, timeout=_SHUTDOWN_SECONDS)
            await _cancel(*self._answering, *self._opening)
            await self._runner.cleanup()
            self._close_all()
            self._guard.close()

    async def _set_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        response.headers.update(self._access.policy.headers)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        self._listening.setblocking(False)  # noqa: FBT003 - its only argument
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listening)
            except OSError:
                # The client has gone already, or no descriptor is left.
                await asyncio.sleep(_PAUSE_AFTER_ERROR_SECONDS)
                continue
            began, refused = time.thread_time(), set[str]()
            with suppress(OSError):
                while not self._keep(accepted, address, refused):
                    if time.thread_time() - began >= _REFUSING_SECONDS:
                        break
                    accepted, address = self._listening.accept()
            spent = time.thread_time() - began
            await asyncio.sleep(max(_ACCEPT_SECONDS, _REST * spent))

    def _keep(self, accepted: socket.socket, address: object, refused: set[str]) -> bool:
        """Keep a new connection if there is room. `refused`: clients that had none just now."""
        peer = peer_of(address)
        if peer in refused:
            self._node.refusals[Refusal.CONNECTIONS] += 1
        elif self._has_room(peer):
            accepted.setblocking(False)  # noqa: FBT003 - as above
            connection = _Connection(self._server, peer)
            connection.opening = asyncio.create_task(self._open(accepted, connection))
            self._opening[connection.opening] = connection
            connection.opening.add_done_callback(self._opening.pop)
            return True
        refused.add(peer)
        accepted.close()
        return False

    async def _open(self, accepted: socket.socket, connection: _Connection) -> None:
        try:
            await self._turns.wait(connection.peer)
        except asyncio.CancelledError:
            accepted.close()
            raise
        connection.waits_until = time.monotonic() + _BEGINNING_SECONDS
        tls, loop = self._access.policy.tls, asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls.context if tls else None,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if tls else None,
                ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS if tls else None,
            )
            connection.waits_until = time.monotonic() + _BEGINNING_SECONDS
        except OSError as error:
            self._node.refusals[Refusal.HANDSHAKE] += 1
            # Break the cycle error -> traceback -> frame -> error: the collector runs rarely.
            error.__traceback__ = None

    @web.middleware
    async def _answer(self, request: web.Request, handler: Page) -> web.StreamResponse:
        connection, task = request.protocol, asyncio.current_task()
        assert task and isinstance(connection, _Connection)  # noqa: S101, PT018 - always
        connection.waits_until = math.inf
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        try:
            await self._turns.wait(connection.peer)
            return await self._guard.answer(request, handler, connection.peer)
        finally:
            connection.waits_until = 0.0

    def _close_all(self) -> None:
        for each in self._connections():
            each.abort()

    def _connections(self) -> list[_Connection]:
        """All connections: the open ones, then those that are opening; each the oldest first."""
        opened = (each for each in self._server.connections if isinstance(each, _Connection))
        return [*(each for each in opened if each.transport), *self._opening.values()]

    def _has_room(self, peer: str) -> bool:
        """Whether a new connection may stay; if so, close another one for it if needed."""
        connections = self._connections()
        if len(connections) < MOST_CONNECTIONS:
            return True
        self._node.refusals[Refusal.CONNECTIONS] += 1
        numbers, now = Counter([peer, *(each.peer for each in connections)]), time.monotonic()

        def rank(peer: str, *, waits: bool) -> tuple[int, bool, bool]:
            return -max(_FEW, numbers[peer]), waits, peer in self._guard.known

        ranks = [rank(each.peer, waits=each.waits_until > now) for each in connections]
        lowest = min(ranks)
        if rank(peer, waits=True) <= lowest:
            return False
        alike = [each for each, its in zip(connections, ranks, strict=True) if its == lowest]
        # Among waiting ones the newest is closed: the oldest is the next to be served.
        gone = alike[-1] if alike[0].waits_until > now else alike[0]
        gone.abort()
        return True


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


class Turns:
    """Gives a limited number of turns a second, one address at a time: a flood delays itself."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._of: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def wait(self, peer: str) -> None:
        """Wait for a turn; of each address, one request at a time competes with other addresses."""
        one_of_it = self._of.setdefault(peer, asyncio.Lock())
        async with one_of_it, self._one_at_a_time:
            await asyncio.sleep(_TURN_SECONDS)


def listen(address: ListenAddress, flag: str = "--web.listen-address") -> socket.socket:
    """Bind and listen; an empty host means all addresses of both families, if available."""
    host, both = address.host, not address.host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        if host:
            family = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server(
            (host, address.port), family=family, backlog=_BACKLOG, dualstack_ipv6=both
        )
    except UnicodeError:
        why = "no such name"
    except OSError as error:
        # create_server() adds the address in brackets.
        why = (error.strerror or str(error)).partition(" (while")[0]
    raise ConfigError(f"{flag}: cannot listen on {address}: {why}")
