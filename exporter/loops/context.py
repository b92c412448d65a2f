"""What the loops have in common."""

import asyncio
from dataclasses import dataclass, field

from exporter.cri.decode import Decoder
from exporter.cri.endpoint import Endpoint
from exporter.cri.lists import ListDecoder
from exporter.loops.inquiring import Inquiring
from exporter.metrics.collector import Histograms
from exporter.node.chronicle import Chronicle
from exporter.node.state import Node
from exporter.settings.config import Config


@dataclass(frozen=True, slots=True)
class LoopContext:
    """The objects that more than one loop uses."""

    config: Config
    endpoint: Endpoint
    node: Node
    chronicle: Chronicle
    histograms: Histograms
    inquiring: Inquiring
    decoder: Decoder
    lists: ListDecoder
    # Set by each relist that the runtime answers; `recovered`: only if the one before had failed.
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    recovered: asyncio.Event = field(default_factory=asyncio.Event)
