"""Accepts a bounded number of connections, and serves client addresses in turn.

asyncio's own server accepts as fast as it can: a flood of connections kept the loop from the event
stream for up to 0.9 s. Connections are closed only when the limit is reached: first those of the
address with the most, then those that wait for nothing, then those of clients that were never
answered, so that a flood displaces itself. Blind spot: in a flood from many addresses, faster than
they are served, a client that was never answered needs several attempts.
"""

import asyncio
import functools
import itertools
import logging
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from exporter.errors import ConfigError
from exporter.model.labels import Refusal
from exporter.node.state import Node
from exporter.settings.flags import ListenAddress
from exporter.web.access.guard import Guard, peer_of
from exporter.web.access.policy import WebPolicy

Handlers = Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]

# 500 handshakes and requests a second: fewer would delay a scraper, more would cost CPU.
_TURN_SECONDS: Final = 0.002
_ACCEPT_SECONDS: Final = 0.0005
_PAUSE_AFTER_ERROR_SECONDS: Final = 0.1
# Open connections of each listen address, and those that the kernel keeps until accepted.
MOST_CONNECTIONS: Final = 128
_BACKLOG: Final = 1024
# What one client may have before it is the first to lose some: two scrapers and a browser.
_FEW: Final = 4
_HANDSHAKE_SECONDS: Final = 5.0
# How long a connection counts as waiting after its turn, for its handshake and first request. At
# 500 turns a second, these are less than half of all connections.
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


class _Connection(NamedTuple):
    peer: str
    # For its turn or its answer, which the client cannot speed up.
    waits: bool
    close: Callable[[], object]


class Server:
    """Answers on a listening socket from entry to exit, which closes it."""

    def __init__(
        self, pages: Handlers, listening: socket.socket, access: WebPolicy, node: Node
    ) -> None:
        self._listening = listening
        self._access = access
        self._node = node
        self._queue = FairQueue()
        self._guard = Guard(access, node, self._queue.wait)
        app = web.Application(middlewares=[self._guard.middleware()])
        app.on_response_prepare.append(self._set_headers)
        app.add_routes([web.get(path, page) for path, page in pages.items()])
        self._runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN_SECONDS)
        # Connections before their turn or in their handshake, and their peers.
        self._opening: dict[asyncio.Task[None], str] = {}
        # Tasks of `_opening`, then aiohttp's protocols, until shortly after their turn.
        self._beginning: set[object] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        # A line of the log for each bad request would fill a disk.
        _log.addFilter(_is_no_bad_request)
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101 - it was set up
        self._server = self._runner.server
        self._access.on_change = self._close_all
        jobs = self._queue.serve(), self._accept(), self._access.keep_up()
        self._tasks = [asyncio.create_task(job) for job in jobs]
        return self

    async def __aexit__(self, *_: object) -> None:
        # The queue ends after the last request, which may wait in it though its client is gone.
        queue, *others = self._tasks
        await _cancel(*others)
        self._listening.close()
        await self._runner.cleanup()
        self._close_all()
        await _cancel(queue)
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
                # Aborted in the meantime, or no descriptor left.
                await asyncio.sleep(_PAUSE_AFTER_ERROR_SECONDS)
                continue
            peer = peer_of(address)
            if self._has_room(_Connection(peer, waits=True, close=accepted.close)):
                opening = loop.create_task(self._open(accepted, peer))
                self._opening[opening] = peer
                opening.add_done_callback(self._opening.pop)
                self._beginning.add(opening)
                opening.add_done_callback(self._beginning.discard)
            await asyncio.sleep(_ACCEPT_SECONDS)

    async def _open(self, accepted: socket.socket, peer: str) -> None:
        try:
            await self._queue.wait(peer)
        except asyncio.CancelledError:
            accepted.close()
            raise
        self._begins(asyncio.current_task())
        tls, loop = self._access.policy.tls, asyncio.get_running_loop()
        try:
            _, connection = await loop.connect_accepted_socket(
                functools.partial(_Protocol, self._server, loop=loop, **_HANDLING),
                accepted,
                ssl=tls.context if tls else None,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if tls else None,
                ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS if tls else None,
            )
            self._begins(connection)
        except OSError as error:
            self._node.refusals[Refusal.HANDSHAKE] += 1
            # Break the cycle error -> traceback -> frame -> error: the collector runs rarely.
            error.__traceback__ = None

    def _begins(self, opened: object) -> None:
        self._beginning.add(opened)
        loop = asyncio.get_running_loop()
        loop.call_later(_BEGINNING_SECONDS, self._beginning.discard, opened)

    def _close_all(self) -> None:
        for each in self._connections():
            each.close()

    def _connections(self) -> list[_Connection]:
        """The oldest first."""
        waiting = self._beginning | self._guard.answering
        return [
            *(
                _Connection(peer_of(each.peername), each in waiting, each.transport.abort)
                for each in self._server.connections
                if isinstance(each.transport, asyncio.WriteTransport)
            ),
            *(_Connection(peer, it in waiting, it.cancel) for it, peer in self._opening.items()),
        ]

    def _has_room(self, newest: _Connection) -> bool:
        """Whether it may stay; closes the one that has to go, if any."""
        connections = [*self._connections(), newest]
        if len(connections) <= MOST_CONNECTIONS:
            return True
        self._node.refusals[Refusal.CONNECTIONS] += 1
        numbers = Counter(each.peer for each in connections)
        known = {peer for peer in numbers if peer in self._guard.known}
        ranks = [(-max(_FEW, numbers[it.peer]), it.waits, it.peer in known) for it in connections]
        lowest = min(ranks)
        alike = [each for each, rank in zip(connections, ranks, strict=True) if rank == lowest]
        # Of those that wait the newest goes: the oldest is the next to be served.
        gone = alike[-1] if alike[0].waits else alike[0]
        gone.close()
        return gone is not newest


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


class _Protocol(web.RequestHandler):
    """One connection. The answer to a malformed request repeats nothing and names no version."""

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


class FairQueue:
    """Serves a limited number a second, one address after the other: a flood waits for itself."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._asked = asyncio.Event()

    async def wait(self, peer: str) -> None:
        """Wait until it is the turn of that address."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer, deque()).append(turn)
        self._asked.set()
        await turn

    async def serve(self) -> None:
        """Serve until cancelled, which cancels all that wait."""
        try:
            while await self._asked.wait():
                turn = self._next()
                if not self._waiting:
                    self._asked.clear()
                # It is done if the client has left.
                if not turn.done():
                    turn.set_result(None)
                    await asyncio.sleep(_TURN_SECONDS)
        finally:
            for turn in itertools.chain(*self._waiting.values()):
                turn.cancel()

    def _next(self) -> asyncio.Future[None]:
        """Take the first of the address that has waited longest, which goes to the end."""
        peer = next(iter(self._waiting))
        waiting = self._waiting.pop(peer)
        turn = waiting.popleft()
        if waiting:
            self._waiting[peer] = waiting
        return turn


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
        # create_server() adds in brackets what the flag says already.
        why = (error.strerror or str(error)).partition(" (while")[0]
    raise ConfigError(f"{flag}: cannot listen on {address}: {why}")
