"""Routes and the server's lifetime. Handlers only read; none of them waits for the runtime."""

import asyncio
import contextlib
import errno
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from prometheus_client.registry import CollectorRegistry

from exporter.errors import ConfigError
from exporter.evidence.cases import Cases
from exporter.node.judgement import Judge
from exporter.node.state import Node
from exporter.settings import routes
from exporter.settings.conditions import Condition
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from exporter.web.access.guard import AccessMiddleware
from exporter.web.access.limits import WebLimits
from exporter.web.access.policy import WebPolicy
from exporter.web.conditions import Conditions, response_of
from exporter.web.connections import LimitedListener
from exporter.web.exposition import Exposition
from exporter.web.pages import Pages
from exporter.web.refusals import WebCollector, WebState
from exporter.web.rendering import STATIC_TYPES, static_file
from exporter.web.status.live import Live
from exporter.web.status.misses import Misses
from exporter.web.status.page import Board, LandingPage, StatusPage, View
from exporter.web.status.timeline import timeline_of
from exporter.web.status.view import Beside, InjectedLosses, not_alive, not_ready, status_of

_SHUTDOWN_SECONDS: Final = 0.5
# Shown on the status page, in one line each.
_CASES: Final = 10

_Routes = dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]


@dataclass(frozen=True, slots=True)
class WebApp:
    """The data behind the pages. `compare`: what an embedded runtime lost, if there is one.

    `queue`: length and capacity.
    """

    config: Config
    judge: Judge
    registry: CollectorRegistry
    compare: Callable[[], tuple[InjectedLosses, ...]] = tuple
    cases: Cases | None = None
    queue: Callable[[], tuple[int, int]] = lambda: (0, 0)
    limits: WebLimits = field(default_factory=WebLimits)

    @property
    def node(self) -> Node:
        """The node's state."""
        return self.judge.node

    def board(self) -> Board:
        """The dynamic part of the status page."""

        def look(now: float) -> View:
            status = status_of(self.judge, self.config, now, Beside(self.queue(), self.compare()))
            period = max(self.config.relist_period, self.node.relist_period)
            timeline = timeline_of(self.judge.history, now, time.time(), period)
            cases = self.cases.newest[:_CASES] if self.cases is not None else ()
            return status, timeline, cases

        return Board(look)

    def pages(self, live: Live, state: WebState) -> _Routes:
        """All pages but the probes, by path."""
        config, budget = self.config, Pages(state)
        exposition = Exposition(self.registry, budget, exemplars=config.web_debug_pages)
        pages: _Routes = {
            **{routes.STATIC + name: static_file for name in STATIC_TYPES},
            config.web_telemetry_path: exposition.page,
        }
        if not config.web_debug_pages:
            return pages | {routes.STATUS: LandingPage(config).page}
        if self.cases is not None:
            pages[routes.MISSES] = Misses(config, self.node, self.cases, budget).page
        status = StatusPage(config, live.board, budget, live.is_full)
        return pages | {routes.STATUS: status.page, routes.EVENTS: live.page}

    async def livez(self, _request: web.Request) -> web.Response:
        """Whether this process works; getting a response at all shows that the loop runs."""
        return _answer(not_alive(self.node, self.config, time.monotonic()))

    async def readyz(self, _request: web.Request) -> web.Response:
        """Whether the last successful relist is recent enough to trust the metrics."""
        return _answer(not_ready(self.node, self.config, time.monotonic()))


def _of_conditions(app: WebApp) -> _Routes:
    """The pages of the node conditions."""
    conditions = Conditions(app.judge)

    def page(condition: Condition) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(_request: web.Request) -> web.Response:
            return response_of(conditions.answer(condition, time.monotonic()))

        return answer

    return {condition.path: page(condition) for condition in Condition}


def _answer(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")


@asynccontextmanager
async def serving(app: WebApp) -> AsyncIterator[str]:
    """Serve HTTP; yields the URL. ConfigError if an address or the web configuration is invalid."""
    config = app.config
    async with contextlib.AsyncExitStack() as stack:
        probing = None
        if config.web_probe_address is not None:
            probing = listen(config.web_probe_address, "--web.probe-address")
            stack.callback(probing.close)
        listening = stack.enter_context(listen(config.web_listen_address))
        scheme = await stack.enter_async_context(answering(app, listening, probing))
        name = config.web_listen_address.host or "localhost"
        name = f"[{name}]" if ":" in name else name
        yield f"{scheme}://{name}:{listening.getsockname()[1]}/"


@asynccontextmanager
async def answering(
    app: WebApp, listening: socket.socket, probing: socket.socket | None = None
) -> AsyncIterator[str]:
    """Answer on these sockets; yields the scheme. `probing`: one for probes alone."""
    state = WebState()
    access = WebPolicy(app.config.web_config_file, state, app.limits.reload_check_seconds)
    live = Live(app.board(), state)
    pages = app.pages(live, state)
    probes: _Routes = {
        routes.LIVEZ: app.livez,
        routes.READYZ: app.readyz,
        **_of_conditions(app),
    }
    collector = WebCollector(state)
    app.registry.register(collector)
    try:
        async with contextlib.AsyncExitStack() as stack:
            if probing is None:
                pages |= probes
            else:
                public = WebPolicy("", state)
                apart = _serving(app, probing, probes, public, state)
                await stack.enter_async_context(apart)
            own = _serving(app, listening, pages, access, state)
            await stack.enter_async_context(own)
            # This runs before the server waits for connections to end.
            stack.callback(live.close)
            yield "https" if access.policy.tls else "http"
    finally:
        app.registry.unregister(collector)


@asynccontextmanager
async def _serving(
    face: WebApp, listening: socket.socket, pages: _Routes, access: WebPolicy, state: WebState
) -> AsyncIterator[None]:
    """Serve the pages on that socket."""

    async def set_headers(_request: web.Request, response: web.StreamResponse) -> None:
        # Reveal no versions.
        response.headers["Server"] = "shadow-pleg"
        # Most pages name pods; the others change with each scrape.
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.update(access.policy.headers)

    guard = AccessMiddleware(access, state, face.limits, face.config.node_name)
    app = web.Application(middlewares=[guard.middleware()])
    app.on_response_prepare.append(set_headers)
    for path, page in pages.items():
        app.router.add_get(path, page)
    runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    assert runner.server is not None  # noqa: S101 - it was set up
    listener = LimitedListener(runner.server, access, state, face.limits)
    access.on_change = listener.close_all
    tasks = [
        asyncio.create_task(listener.accept(listening)),
        asyncio.create_task(access.keep_up()),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        listening.close()
        await runner.cleanup()
        listener.close_all()
        guard.close()


def listen(address: ListenAddress, flag: str = "--web.listen-address") -> socket.socket:
    """Bind and listen; an empty host means all addresses of both families, if available."""
    try:
        if not address.host:
            if socket.has_dualstack_ipv6():
                return socket.create_server(
                    ("", address.port), family=socket.AF_INET6, dualstack_ipv6=True
                )
            return socket.create_server(("", address.port))
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family)
    except UnicodeError:
        why = f"{address.host!r} is no address of this machine: no such name"
    except OSError as error:
        why = _why_not(address, error)
    raise ConfigError(f"{flag}: {why}")


def _why_not(address: ListenAddress, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"{address.host!r} is no address of this machine: {error.strerror}"
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use by another process: stop it, or choose another port"
    if error.errno == errno.EACCES:
        return f"no permission to listen on {address}: choose a port above 1023"
    return f"cannot listen on {address}: {os.strerror(error.errno or 0)}"
