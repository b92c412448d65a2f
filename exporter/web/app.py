"""Routes and the server's life. Handlers read; none of them waits for the runtime."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from exporter.collector import FaceCollector
from exporter.config import Config
from exporter.evidence.cases import Cases
from exporter.pleg.node import Node
from exporter.refusals import FaceState
from exporter.web.access import Access
from exporter.web.exposition import Exposition
from exporter.web.host import Host, Pages
from exporter.web.listen import listen
from exporter.web.misses import Misses
from exporter.web.rendering import templates
from exporter.web.status import Comparison, status_of

# A relist may take its timeout and rest for its period before the task must turn again.
_SLACK: Final = 10.0
_JITTER: Final = 1.1


@dataclass(frozen=True, slots=True)
class Face:
    """What the pages show. `compare`: what an embedded runtime lost, where there is one."""

    config: Config
    node: Node
    registry: CollectorRegistry
    compare: Callable[[], tuple[Comparison, ...]] = tuple
    cases: Cases | None = None

    async def index(self, _request: web.Request) -> web.Response:
        """The landing page."""
        status = status_of(self.node, self.config, time.monotonic(), self.compare())
        template = templates().get_template("index.html")
        page = template.render(status=status, metrics_path=self.config.web_telemetry_path)
        return web.Response(text=page, content_type="text/html")

    async def livez(self, _request: web.Request) -> web.Response:
        """Whether this process works; that this answers at all shows that the loop turns."""
        rest = max(self.config.relist_period, self.node.relist_period)
        patience = self.config.relist_timeout + _JITTER * rest + _SLACK
        if self.node.is_alive(time.monotonic(), patience):
            return web.Response(text="ok\n")
        return web.Response(status=503, text=f"no relist was begun for {patience:g} s\n")

    async def readyz(self, _request: web.Request) -> web.Response:
        """Whether the last successful relist is young enough to believe the metrics."""
        if self.node.is_ready(time.monotonic(), self.config.relist_threshold):
            return web.Response(text="ok\n")
        why = self.node.relist_note or "no relist has succeeded recently"
        return web.Response(status=503, text=f"{why}\n")


@asynccontextmanager
async def serving(face: Face) -> AsyncIterator[str]:
    """Serve HTTP; gives the URL. ConfigError if an address or the web configuration is no good."""
    config, state = face.config, FaceState()
    access = Access(config.web_config_file, state)
    collector = FaceCollector(state)
    face.registry.register(collector)
    try:
        async with contextlib.AsyncExitStack() as stack:
            host = Host(access, state)
            pages: Pages = {"/": face.index}
            probes: Pages = {"/livez": face.livez, "/readyz": face.readyz}
            pages[config.web_telemetry_path] = Exposition(face.registry).page
            if face.cases is not None:
                pages["/debug/misses"] = Misses(config, face.node, face.cases).page
            if config.web_probe_address is None:
                pages |= probes
            else:
                apart = Host(Access("", state), state)
                probing = listen(config.web_probe_address, "--web.probe-address")
                await stack.enter_async_context(apart.open(probing, probes))
            listening = listen(config.web_listen_address)
            port = listening.getsockname()[1]
            await stack.enter_async_context(host.open(listening, pages, config.web_telemetry_path))
            name = config.web_listen_address.host or "localhost"
            scheme = "https" if access.policy.tls else "http"
            yield f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}/"
    finally:
        face.registry.unregister(collector)
