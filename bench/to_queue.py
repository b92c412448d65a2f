"""The exporter's own reader and nothing behind it: from the socket into the queue.

Each line on stdin is answered with how many events it has read.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

from bench.control import obey
from exporter.collector import Histograms, new_registry
from exporter.cri.decode import Decoder
from exporter.cri.endpoint import Endpoint
from exporter.loops.inquiring import Inquiring
from exporter.loops.intake import Intake, Shared
from exporter.node.state import Node
from exporter.pleg.chronicle import Chronicle
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of
from exporter.process.footprint import keep_small
from exporter.settings.config import Config

_ENOUGH: Final = 1_000_000
_GATHER: Final = 0.01


class ToQueue:
    """What `exporter.daemon` builds, without the loops that take from the queue."""

    def __init__(self, endpoint: Endpoint) -> None:
        node = Node()
        chronicle = Chronicle(Ledger(profile_of("", ""), 0.0))
        self._shared = Shared(
            config=Config(event_queue_capacity=_ENOUGH),
            endpoint=endpoint,
            node=node,
            chronicle=chronicle,
            histograms=Histograms(new_registry()),
            inquiring=Inquiring(endpoint, chronicle),
            decoder=Decoder(node.malformed),
        )
        self._intake = Intake(self._shared)
        self._read = 0

    def take(self, raw: bytes) -> None:
        """One event."""
        self._intake.offer(raw, 0)

    async def empty(self) -> None:
        """For ever: the exporter's queue, too, is empty every few milliseconds."""
        while True:
            await asyncio.sleep(_GATHER)
            self._read += self._intake.fill[0]
            self._intake = Intake(self._shared)

    async def command(self, _word: str, _numbers: list[float]) -> dict[str, Any]:
        """How many so far."""
        return {"read": self._read}


async def _main(given: argparse.Namespace) -> None:
    keep_small()
    endpoint = Endpoint(Path(given.socket))
    reader = ToQueue(endpoint)
    subscription = (await endpoint.separate()).subscribe(0, None)
    reading = asyncio.create_task(subscription.read(reader.take))
    emptying = asyncio.create_task(reader.empty())
    await obey(reader.command)
    reading.cancel()
    emptying.cancel()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.to_queue")
    parser.add_argument("--socket", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(_main(_arguments()))
