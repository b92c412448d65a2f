"""The HTTP face of a node whose state a test chooses.

Here: a server on a free port, in the test's own loop. Not here: what it should say.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from exporter.collector import Histograms, NodeCollector, new_registry
from exporter.node.state import Node
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from exporter.web.app import WebApp, serving
from exporter.web.status.view import Comparison

LOCAL = ListenAddress("127.0.0.1", 0)
CONFIG = Config(web_listen_address=LOCAL, node_name="node-7")


@contextlib.asynccontextmanager
async def face_of(
    node: Node, config: Config = CONFIG, comparisons: tuple[Comparison, ...] = ()
) -> AsyncIterator[str]:
    """Serve that node's face; gives the URL."""
    registry = new_registry()
    Histograms(registry)
    registry.register(NodeCollector(node, lambda: 0, lambda: (0, config.event_queue_capacity)))
    async with serving(WebApp(config, node, registry, lambda: comparisons)) as url:
        yield url
