"""One continuous watch made of subscriptions that each end by themselves.

The runtime's gRPC server honours a call's deadline even when this whole
process is frozen, so a leased subscription cannot hold the runtime for longer
than that. The next one is open before the last one ends; copies that the
overlap brings carry another stream number, which is how the ledger knows them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final, Protocol

import structlog

from exporter.cri.client import CriClient, Subscription
from exporter.errors import CriError

_log = structlog.get_logger()

ANSWER_TIMEOUT: Final = 5.0
# A disabled stream ends within this time of being asked for.
_SETTLE: Final = 0.25
_LONGEST_OVERLAP: Final = 5.0


class Sink(Protocol):
    """Takes raw events; neither waits nor raises."""

    def offer(self, raw: bytes, stream: int) -> None:
        """Take one event that subscription number `stream` brought."""


Reader = asyncio.Task[CriError | None]


class LeasedStream:
    """Subscriptions over one connection. `lease`: seconds, 0 for no deadline.

    `numbers` gives each subscription its number.
    """

    def __init__(self, client: CriClient, sink: Sink, lease: float, numbers: Iterator[int]) -> None:
        self._client = client
        self._sink = sink
        self._lease = lease
        self._numbers = numbers
        self._readers: set[Reader] = set()
        self.answered_at = 0.0

    async def open(self) -> Reader:
        """Subscribe; the reader is done already if the runtime ended the stream at once."""
        subscription = self._client.subscribe(next(self._numbers), self._lease or None)
        reader: Reader = asyncio.create_task(self._read(subscription))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        # A later call answered on the same connection: ours has been received.
        await self._client.version(ANSWER_TIMEOUT)
        self.answered_at = time.monotonic()
        await asyncio.wait({reader}, timeout=_SETTLE)
        return reader

    async def hold(self, reader: Reader) -> CriError | None:
        """Renew until the watch ends: None for a clean end, else why."""
        pause = self._renewal()
        while not reader.done():
            await asyncio.wait({reader}, timeout=pause)
            if not reader.done():
                renewed = await self._renew()
                pause = self._renewal() if renewed else 1.0
                reader = renewed or reader
        return reader.result()

    async def close(self) -> None:
        """Give up every subscription."""
        readers = set(self._readers)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    def _renewal(self) -> float | None:
        if not self._lease:
            return None
        return self._lease - min(_LONGEST_OVERLAP, self._lease / 4)

    async def _renew(self) -> Reader | None:
        try:
            reader = await self.open()
        except CriError as error:
            _log.debug("lease not renewed yet", error=str(error))
            return None
        return None if reader.done() else reader

    async def _read(self, subscription: Subscription) -> CriError | None:
        try:
            async for raw in subscription.messages():
                self._sink.offer(raw, subscription.number)
        except CriError as error:
            return error
        finally:
            subscription.cancel()
        return None
