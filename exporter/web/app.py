"""Routes and the server's lifetime. Handlers only read; none of them waits for the runtime."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from exporter import __version__
from exporter.evidence.cases import Cases
from exporter.node.history import History
from exporter.node.state import Node
from exporter.settings.config import Config
from exporter.web.access.guard import PROBES
from exporter.web.access.policy import WebPolicy
from exporter.web.assets import FOLDER, NAMES, asset
from exporter.web.exposition import Exposition
from exporter.web.host import HttpServer, Pages
from exporter.web.listen import listen
from exporter.web.probes import not_alive, not_ready
from exporter.web.refusals import FaceCollector, FaceState
from exporter.web.rendering import POLICY, templates
from exporter.web.status.board import Board, View
from exporter.web.status.live import MOST, Live
from exporter.web.status.misses import Misses
from exporter.web.status.timeline import timeline_of
from exporter.web.status.view import Comparison, status_of

# Seconds between reloads for a page that gets no live updates.
_RELOAD: Final = 10
_RELOAD_WHERE_FULL: Final = 30
# Shown on the status page, in one line each.
_CASES: Final = 10


@dataclass(frozen=True, slots=True)
class WebApp:
    """The data behind the pages. `compare`: what an embedded runtime lost, if there is one.

    `queue`: length and capacity. Without a `history` the timeline begins with the first page.
    """

    config: Config
    node: Node
    registry: CollectorRegistry
    compare: Callable[[], tuple[Comparison, ...]] = tuple
    cases: Cases | None = None
    history: History | None = None
    queue: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def board(self) -> Board:
        """The dynamic part of the status page."""
        history = self.history or History(self.node)

        def look(now: float) -> View:
            status = status_of(self.node, self.config, now, self.compare(), self.queue())
            period = max(self.config.relist_period, self.node.relist_period)
            timeline = timeline_of(history, now, time.time(), period)
            cases = self.cases.newest[:_CASES] if self.cases is not None else ()
            return View(status, timeline, cases)

        return Board(look)

    async def livez(self, _request: web.Request) -> web.Response:
        """Whether this process works; getting a response at all shows that the loop runs."""
        return _answer(not_alive(self.node, self.config, time.monotonic()))

    async def readyz(self, _request: web.Request) -> web.Response:
        """Whether the last successful relist is recent enough to trust the metrics."""
        return _answer(not_ready(self.node, self.config, time.monotonic()))


def _answer(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")


class Index:
    """`/`: the board in its frame, live if there is room for one more viewer."""

    def __init__(self, config: Config, board: Board, live: Live) -> None:
        self._config = config
        self._board = board
        self._live = live

    async def page(self, _request: web.Request) -> web.Response:
        """Render the page; it is complete without scripts, which only keep it up to date."""
        full = self._live.is_full
        page = (
            templates()
            .get_template("index.html")
            .render(
                version=__version__,
                node_name=self._config.node_name,
                metrics_path=self._config.web_telemetry_path,
                probes=PROBES if self._config.web_probe_address is None else (),
                board=self._board.page(time.monotonic()),
                as_of=datetime.now(UTC),
                live=not full,
                most=MOST,
                reload=_RELOAD_WHERE_FULL if full else _RELOAD,
            )
        )
        # Names come from the runtime, and a lone surrogate cannot be encoded.
        body = page.encode("utf-8", "backslashreplace")
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=POLICY)


@asynccontextmanager
async def serving(face: WebApp) -> AsyncIterator[str]:
    """Serve HTTP; yields the URL. ConfigError if an address or the web configuration is invalid."""
    config, state = face.config, FaceState()
    access = WebPolicy(config.web_config_file, state)
    collector = FaceCollector(state)
    face.registry.register(collector)
    try:
        async with contextlib.AsyncExitStack() as stack:
            host = HttpServer(access, state)
            board = face.board()
            live = Live(board, state)
            pages: Pages = {
                "/": Index(config, board, live).page,
                "/events": live.page,
                **{FOLDER + name: asset for name in NAMES},
            }
            probes: Pages = {"/livez": face.livez, "/readyz": face.readyz}
            pages[config.web_telemetry_path] = Exposition(face.registry).page
            if face.cases is not None:
                pages["/debug/misses"] = Misses(config, face.node, face.cases).page
            if config.web_probe_address is None:
                pages |= probes
            else:
                apart = HttpServer(WebPolicy("", state), state)
                probing = listen(config.web_probe_address, "--web.probe-address")
                await stack.enter_async_context(apart.open(probing, probes))
            listening = listen(config.web_listen_address)
            port = listening.getsockname()[1]
            await stack.enter_async_context(host.open(listening, pages, config.web_telemetry_path))
            # This runs before the server waits for connections to end.
            stack.callback(live.close)
            name = config.web_listen_address.host or "localhost"
            scheme = "https" if access.policy.tls else "http"
            yield f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}/"
    finally:
        face.registry.unregister(collector)
