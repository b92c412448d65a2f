"""A web server whose node, configuration and limits a test chooses."""

import contextlib
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from prometheus_client import CollectorRegistry

from exporter.collector import Histograms, NodeCollector, new_registry
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.state import Node, StreamState
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from exporter.web.access.limits import WebLimits
from exporter.web.app import WebApp, answering, serving
from exporter.web.status.view import InjectedLosses

LOCAL = ListenAddress("127.0.0.1", 0)
CONFIG = Config(web_listen_address=LOCAL, node_name="node-7")
# On a busy machine a thread of low priority waits long.
EAGER = WebLimits(reload_check_seconds=0.02, password_priority=0)


def streaming_node() -> Node:
    """One that was listed just now."""
    return Node(stream=StreamState.STREAMING, relist_succeeded=time.monotonic())


def judging(node: Node, history: History | None = None) -> Judge:
    """Who judges that node, on which nothing is mislisted."""
    return Judge(node, history or History(node), lambda _: 0)


def web_app(
    node: Node | None = None,
    config: Config = CONFIG,
    limits: WebLimits = EAGER,
    registry: CollectorRegistry | None = None,
    history: History | None = None,
) -> WebApp:
    """The pages of that node; its metrics, or those of `registry`."""
    node = node or Node()
    if registry is None:
        registry = new_registry()
        Histograms(registry)
        queue = (0, config.event_queue_capacity)
        registry.register(NodeCollector(node, Ledger(profile_of("", ""), 5.0), lambda: queue))
    return WebApp(config, judging(node, history), registry, limits=limits)


@contextlib.asynccontextmanager
async def pages_of(
    node: Node | None = None,
    config: Config = CONFIG,
    limits: WebLimits = EAGER,
    history: History | None = None,
) -> AsyncIterator[str]:
    """Serve that node's pages on a free port; gives the URL."""
    async with serving(web_app(node, config, limits, history=history)) as url:
        yield url


@contextlib.asynccontextmanager
async def pages_in_virtual_time(
    node: Node | None = None,
    config: Config = CONFIG,
    registry: CollectorRegistry | None = None,
    injected: tuple[InjectedLosses, ...] = (),
) -> AsyncIterator[str]:
    """The same on a unix socket, with the limits of the product."""
    app = replace(web_app(node, config, WebLimits(), registry), compare=lambda: injected)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder) / "web.sock"
        listening.bind(str(path))
        listening.listen()
        async with answering(app, listening):
            yield f"http://{quote(str(path), safe='')}/"
