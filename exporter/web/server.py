"""Accepts connections in a bounded number, and gives each client's address its turn.

asyncio's own server accepts as fast as it can: a flood of connections kept the loop from the event
stream for up to 0.9 s. A connection that says nothing stays until its place is wanted: it costs a
descriptor and some KiB. Then those go first that are many, wait for nothing or were never answered:
a flood takes places from itself. Blind spot: a flood from many addresses, faster than there are
turns, makes a client that was never answered need several attempts.
"""

import asyncio
import functools
import itertools
import logging
import socket
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from exporter.errors import ConfigError
from exporter.model.labels import Refusal
from exporter.node.state import Node
from exporter.settings.flags import ListenAddress
from exporter.web.access.guard import Guard, peer_of
from exporter.web.access.policy import WebPolicy

Handlers = Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]

# 500 handshakes and requests a second: fewer would make a scraper wait, more would cost CPU.
_TURN_SECONDS: Final = 0.002
_ACCEPT_SECONDS: Final = 0.0005
_PAUSE_AFTER_ERROR_SECONDS: Final = 0.1
# How many may be open at each address, and wait to be accepted.
MOST_CONNECTIONS: Final = 128
# What one client may have before it is the first to lose some: two scrapers and a browser.
_FEW: Final = 4
_WAITING: Final = 1024
_HANDSHAKE_SECONDS: Final = 5.0
# For a handshake and the first request after its turn, before which a client cannot send them. At
# 500 turns a second, that is less than half of all connections.
_BEGINNING_SECONDS: Final = 0.1
_TLS_GOODBYE_SECONDS: Final = 1.0
# Longer than any scrape interval.
IDLE_SECONDS: Final = 180.0
_SHUTDOWN_SECONDS: Final = 0.5
# A request from Prometheus has a few hundred bytes.
_LINE_BYTES: Final = 4096
_MOST_HEADERS: Final = 64
# Most pages name pods, and none needs anything but our own style, script and picture.
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


@asynccontextmanager
async def answering(
    pages: Handlers, listening: socket.socket, access: WebPolicy, node: Node
) -> AsyncIterator[None]:
    """Answer on that socket, which is closed at the end."""

    async def set_headers(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        response.headers.update(access.policy.headers)

    turns = Turns()
    guard = Guard(access, node, turns.mine)
    app = web.Application(middlewares=[guard.middleware()])
    app.on_response_prepare.append(set_headers)
    app.add_routes([web.get(path, page) for path, page in pages.items()])
    # A line of the log for each bad request would fill a disk.
    _log.addFilter(_is_no_bad_request)
    runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    assert runner.server is not None  # noqa: S101 - it was set up
    listener = _Listener(runner.server, access, node, turns.mine, guard)
    access.on_change = listener.close_all
    giving = asyncio.create_task(turns.give())
    tasks = [asyncio.create_task(each) for each in (listener.accept(listening), access.keep_up())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        listening.close()
        await runner.cleanup()
        listener.close_all()
        # After the last request, which may wait for its turn though its client is gone.
        giving.cancel()
        await asyncio.gather(giving, return_exceptions=True)
        guard.close()


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


class _Protocol(web.RequestHandler):
    """One connection. An answer to what is no request repeats nothing, and names no version."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes what was sent
    ) -> web.StreamResponse:
        """Answer with the status and our headers."""
        response = super().handle_error(request, status, exc)
        response.headers.update(_HEADERS)
        return response


class Turns:
    """So many turns a second, one address after the other: a flood waits for itself."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._asked = asyncio.Event()

    async def mine(self, peer: str) -> None:
        """Wait for a turn of that address."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer, deque()).append(turn)
        self._asked.set()
        await turn

    async def give(self) -> None:
        """Give turns until cancelled; then there are no more."""
        try:
            await self._give()
        finally:
            for turn in itertools.chain(*self._waiting.values()):
                turn.cancel()

    async def _give(self) -> None:
        while await self._asked.wait():
            peer, waiting = next(iter(self._waiting.items()))
            turn = waiting.popleft()
            del self._waiting[peer]
            if waiting:
                self._waiting[peer] = waiting
            elif not self._waiting:
                self._asked.clear()
            # Who has left needs none.
            if not turn.done():
                turn.set_result(None)
                await asyncio.sleep(_TURN_SECONDS)


class _Connection(NamedTuple):
    """`waits`: for its turn or its answer, which the client cannot hasten."""

    peer: str
    waits: bool
    close: Callable[[], object]


@dataclass(slots=True)
class _Listener:
    """All connections of one listening socket."""

    server: web.Server
    access: WebPolicy
    node: Node
    turn: Callable[[str], Awaitable[None]]
    guard: Guard
    # Those that wait for their turn or are in their handshake: the client's address.
    _opening: dict[asyncio.Task[None], str] = field(default_factory=dict)
    # Those that wait for their turn, or had it a moment ago: tasks, then aiohttp's protocols.
    _beginning: set[object] = field(default_factory=set)

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)  # noqa: FBT003 - its only argument
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                # Aborted in the meantime, or no descriptor left.
                await asyncio.sleep(_PAUSE_AFTER_ERROR_SECONDS)
                continue
            peer = peer_of(address)
            newest = _Connection(peer, waits=True, close=accepted.close)
            if self._has_room(newest):
                opening = loop.create_task(self._open(accepted, peer))
                self._opening[opening] = peer
                opening.add_done_callback(self._opening.pop)
                self._beginning.add(opening)
                opening.add_done_callback(self._beginning.discard)
            await asyncio.sleep(_ACCEPT_SECONDS)

    def close_all(self) -> None:
        """Close every connection; legitimate clients reconnect."""
        for each in self._all():
            each.close()

    async def _open(self, accepted: socket.socket, peer: str) -> None:
        try:
            await self.turn(peer)
        except asyncio.CancelledError:
            accepted.close()
            raise
        self._begins(asyncio.current_task())
        tls, loop = self.access.policy.tls, asyncio.get_running_loop()
        try:
            _, connection = await loop.connect_accepted_socket(
                functools.partial(_Protocol, self.server, loop=loop, **_HANDLING),
                accepted,
                ssl=tls.context if tls else None,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if tls else None,
                ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS if tls else None,
            )
            self._begins(connection)
        except OSError as error:
            self.node.refusals[Refusal.HANDSHAKE] += 1
            # It holds the frames of the connection, one of which holds it: the collector is slow.
            error.__traceback__ = None

    def _begins(self, opened: object) -> None:
        self._beginning.add(opened)
        loop = asyncio.get_running_loop()
        loop.call_later(_BEGINNING_SECONDS, self._beginning.discard, opened)

    def _all(self) -> list[_Connection]:
        """The oldest first."""
        waiting = self._beginning | self.guard.answering
        return [
            *(
                _Connection(peer_of(each.peername), each in waiting, each.transport.abort)
                for each in self.server.connections
                if isinstance(each.transport, asyncio.WriteTransport)
            ),
            *(_Connection(peer, it in waiting, it.cancel) for it, peer in self._opening.items()),
        ]

    def _has_room(self, newest: _Connection) -> bool:
        """Whether it may stay; close the one that has to go, if any."""
        connections = [*self._all(), newest]
        if len(connections) <= MOST_CONNECTIONS:
            return True
        self.node.refusals[Refusal.CONNECTIONS] += 1
        of = Counter(each.peer for each in connections)
        known = {peer for peer in of if peer in self.guard.known}
        stay = [(-max(_FEW, of[it.peer]), it.waits, it.peer in known) for it in connections]
        least = min(stay)
        alike = [each for each, stays in zip(connections, stay, strict=True) if stays == least]
        # Of those that wait the newest goes: the oldest is the next to be served.
        gone = alike[-1 if alike[0].waits else 0]
        gone.close()
        return gone is not newest


def listen(address: ListenAddress, flag: str = "--web.listen-address") -> socket.socket:
    """Bind and listen; an empty host means all addresses of both families, if available."""
    try:
        if not address.host:
            both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            return socket.create_server(
                ("", address.port), family=family, backlog=_WAITING, dualstack_ipv6=both
            )
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family, backlog=_WAITING)
    except UnicodeError:
        why = "no such name"
    except OSError as error:
        # create_server() adds in brackets what the flag says already.
        why = (error.strerror or str(error)).partition(" (while")[0]
    raise ConfigError(f"{flag}: cannot listen on {address}: {why}")
