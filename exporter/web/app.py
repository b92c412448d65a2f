"""The pages by path. Handlers only read; none of them waits for the runtime."""

import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aiohttp import web
from prometheus_client.registry import CollectorRegistry

from exporter import __version__
from exporter.conditions.condition import NodeCondition
from exporter.evidence.cases import Cases
from exporter.node.judgement import Judge, not_alive, not_ready
from exporter.settings import routes
from exporter.settings.config import Config
from exporter.web.access.policy import WebPolicy
from exporter.web.probes import NodeConditions, answer_of
from exporter.web.rendered import CasesPage, Exposition, RenderedPage, html_page
from exporter.web.server import Handlers, Server, listen
from exporter.web.status_page import cards_of, headline_of, lanes_of, last_day_of

# Cases on the status page.
_CASES: Final = 10
_STATIC_TYPES: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class WebApp:
    """The data behind the pages."""

    config: Config
    judge: Judge
    registry: CollectorRegistry
    cases: Cases

    def pages(self) -> Handlers:
        """All pages but the probes, by path."""
        config = self.config
        exposition = Exposition(self.registry, exemplars=config.web_debug_pages)
        pages = {
            config.web_telemetry_path: exposition.page,
            routes.STATUS: html_page("status.html", self._status).page,
            **{f"{routes.STATIC}{name}": _static(name).page for name in _STATIC_TYPES},
        }
        if config.web_debug_pages:
            pages[routes.MISSES] = CasesPage(config, self.judge.node, self.cases).page
        return pages

    def probes(self) -> Handlers:
        """The probes, by path."""
        node, config, conditions = self.judge.node, self.config, NodeConditions(self.judge)

        async def livez(_request: web.Request) -> web.Response:
            return answer_of(not_alive(node, config, time.monotonic()))

        async def readyz(_request: web.Request) -> web.Response:
            return answer_of(not_ready(node, config, time.monotonic()))

        async def condition(request: web.Request) -> web.Response:
            asked = NodeCondition(request.path.rpartition("/")[2])
            return conditions.answer(asked, time.monotonic()).response

        paths = {each.path: condition for each in NodeCondition}
        return {routes.LIVEZ: livez, routes.READYZ: readyz, **paths}

    def _status(self) -> dict[str, object]:
        """The values for the status page; only links if pages must not name pods."""
        config, now, wall = self.config, time.monotonic(), time.time()
        shown: dict[str, object] = {
            "version": __version__,
            "node_name": config.node_name,
            "metrics_path": config.web_telemetry_path,
            "probes": () if config.web_probe_address else (routes.LIVEZ, routes.READYZ),
            "headline": None,
        }
        if not config.web_debug_pages:
            return shown
        node, judgement = self.judge.node, self.judge.at(now)
        return shown | {
            "headline": headline_of(judgement, config.web_runbooks_url),
            "quarter": lanes_of(self.judge.history, judgement, now),
            "day": last_day_of(self.judge.history.day, judgement.conditions, now, wall),
            "cases": self.cases.first(_CASES),
            "older": max(0, len(self.cases.newest) - _CASES),
            "cards": cards_of(node, config, now),
            "as_of": datetime.fromtimestamp(wall, UTC),
            "since": datetime.fromtimestamp(node.began_wall, UTC),
        }


def _static(name: str) -> RenderedPage:
    content = Path(__file__).with_name("static") / name
    return RenderedPage(f"{_STATIC_TYPES[name]}; charset=utf-8", content.read_bytes)


@asynccontextmanager
async def serving(app: WebApp) -> AsyncIterator[str]:
    """Serve HTTP; yields the URL. ConfigError if an address or the web configuration is invalid."""
    config, node = app.config, app.judge.node
    names = config.node_name, config.web_listen_address.host
    access = WebPolicy(config.web_config_file, node, names)
    await access.settle()
    pages, probes = app.pages(), app.probes()
    async with contextlib.AsyncExitStack() as stack:
        if config.web_probe_address is None:
            pages = {**pages, **probes}
        else:
            probing = stack.enter_context(listen(config.web_probe_address, "--web.probe-address"))
            await stack.enter_async_context(Server(probes, probing, WebPolicy("", node), node))
        listening = stack.enter_context(listen(config.web_listen_address))
        await stack.enter_async_context(Server(pages, listening, access, node))
        scheme = "https" if access.policy.tls else "http"
        name = config.web_listen_address.host or "localhost"
        name = f"[{name}]" if ":" in name else name
        yield f"{scheme}://{name}:{listening.getsockname()[1]}/"
