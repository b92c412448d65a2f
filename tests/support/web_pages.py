"""A web server whose node and configuration a test chooses."""

import contextlib
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

from prometheus_client import CollectorRegistry

from exporter.collector import Histograms, NodeCollector, new_registry
from exporter.evidence.cases import Cases, Observer
from exporter.model.labels import StreamState
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.state import Node
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from exporter.web.access.policy import WebPolicy, WebState
from exporter.web.app import WebApp, serving
from exporter.web.server import answering

LOCAL = ListenAddress("127.0.0.1", 0)
CONFIG = Config(web_listen_address=LOCAL, node_name="node-7")


def streaming_node() -> Node:
    """One that was listed just now."""
    return Node(stream=StreamState.STREAMING, relist_succeeded=time.monotonic())


def web_app(
    node: Node | None = None,
    config: Config = CONFIG,
    registry: CollectorRegistry | None = None,
    history: History | None = None,
    cases: Cases | None = None,
) -> WebApp:
    """The pages of that node; its metrics, or those of `registry`."""
    node, ledger = node or Node(), Ledger(profile_of("", ""), 5.0)
    if registry is None:
        registry = new_registry()
        Histograms(registry)
        queue = (0, config.event_queue_capacity)
        registry.register(NodeCollector(node, ledger, lambda: queue))
    judge = Judge(node, history or History(node), lambda _: 0)
    nothing = Cases(ledger, Observer(node, 5.0, lambda: (0, 0), {}))
    return WebApp(config, judge, registry, cases or nothing)


@contextlib.asynccontextmanager
async def pages_of(
    node: Node | None = None, config: Config = CONFIG, history: History | None = None
) -> AsyncIterator[str]:
    """Serve that node's pages on a free port; gives the URL."""
    async with serving(web_app(node, config, history=history)) as url:
        yield url


@contextlib.asynccontextmanager
async def pages_in_virtual_time(
    app: WebApp | None = None, access: WebPolicy | None = None
) -> AsyncIterator[str]:
    """The same on a unix socket."""
    state, app = WebState(), app or web_app()
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder) / "web.sock"
        listening.bind(str(path))
        listening.listen()
        pages = {**app.pages(), **app.probes()}
        async with answering(pages, listening, access or WebPolicy("", state), state):
            yield f"http://{quote(str(path), safe='')}/"
