"""Between the socket and the ledger: a bounded queue that never presses back.

Law: `offer` never waits, and looks into nothing: many events decoded together, while code and
data are in the caches, cost a third of what each costs alone. What does not fit is dropped,
counted, and told to the ledger; where nothing fits for seconds, the subscription is given up
rather than left to press back on the runtime. Here: the queue and its draining. Not here: the
subscription (`streaming`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from exporter.collector import Histograms
from exporter.cri.client import StreamEnd
from exporter.cri.decode import Decoder
from exporter.loops.inquiring import Inquiring
from exporter.node.state import Node
from exporter.pleg.chronicle import Chronicle
from exporter.pleg.facts import Discarded

# A queue of large events must not take the memory that the window of the channel is given.
QUEUE_BYTES: Final = 16 * 1024 * 1024
_BATCH: Final = 64
_GATHER: Final = 0.01
_MOMENT: Final = 0.005
_LONGEST_SETTLE: Final = 50
_SECOND_NS: Final = 1e9
# Seconds with discards and never an empty queue after which no more is read.
_DROWNED_SECONDS: Final = 5.0


# More comes than can be taken: to read on would only press back on the runtime.
_DROWNED: Final = StreamEnd(
    "overflow", f"the queue could not be drained for {_DROWNED_SECONDS:g} s"
)


@dataclass(frozen=True, slots=True)
class Witnessing:
    """What every loop shares: the ledger's door, what is known, and who asks."""

    node: Node
    chronicle: Chronicle
    histograms: Histograms
    inquiring: Inquiring
    decoder: Decoder


class Intake:
    """Takes raw events from a subscription and feeds them to the ledger in order."""

    def __init__(self, shared: Witnessing, capacity: int) -> None:
        self._shared = shared
        self._capacity = capacity
        # Bytes of an event, when it came (monotonic seconds, wall nanoseconds), its subscription.
        self._queue: deque[tuple[bytes, float, int, int]] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        self._taken = 0
        self._drowning_since: float | None = None

    @property
    def fill(self) -> tuple[int, int]:
        """Length and capacity of the queue."""
        return len(self._queue), self._capacity

    def offer(self, raw: bytes, stream: int) -> StreamEnd | None:
        """Take one event off the socket; dropped and counted if there is no room.

        The end of the subscription, if there has been none for so long that there will be none.
        """
        now, wall_ns = time.monotonic(), time.time_ns()
        self._taken += 1
        self._shared.node.stream_last_seen_wall = wall_ns / _SECOND_NS
        queue, size = self._queue, len(raw)
        if len(queue) >= self._capacity or (queue and self._bytes + size > QUEUE_BYTES):
            return self._discard(now)
        if not queue:
            self._some.set()
        queue.append((raw, now, wall_ns, stream))
        self._bytes += size
        return None

    async def settle(self) -> None:
        """Wait until the stream is silent for a moment, but not for long.

        What a relist shows may still be on its way to us, above all after this
        process stood still: it must not be judged before it is read.
        """
        for _ in range(_LONGEST_SETTLE):
            taken = self._taken
            await asyncio.sleep(_MOMENT)
            if self._taken == taken:
                return

    @contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile events wait in the queue: a relist is judged as of one moment."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def feed(self) -> Iterator[None]:
        """Feed to the ledger, one by one, what waits by now: a relist must find it there."""
        for _ in range(len(self._queue)):
            self._feed_one()
            yield

    async def run(self) -> None:
        """Feed the ledger as events come, letting others have their turn between batches."""
        while True:
            await self._some.wait()
            self._some.clear()
            # One wake-up for many events; when each of them came is noted already.
            await asyncio.sleep(_GATHER)
            while self._queue:
                await self._free.wait()
                for _ in range(min(_BATCH, len(self._queue))):
                    self._feed_one()
                await asyncio.sleep(0)

    def _discard(self, now: float) -> StreamEnd | None:
        node = self._shared.node
        node.discards += 1
        node.discards_unreconciled += 1
        self._shared.chronicle.take(Discarded(now))
        if self._drowning_since is None:
            self._drowning_since = now
        elif now - self._drowning_since > _DROWNED_SECONDS:
            self._drowning_since = None
            return _DROWNED
        return None

    def _feed_one(self) -> None:
        raw, now, wall_ns, stream = self._queue.popleft()
        self._bytes -= len(raw)
        if not self._queue:
            self._drowning_since = None
        shared = self._shared
        event = shared.decoder.announcement(raw, now, wall_ns, stream)
        if event is None:
            return
        taken = shared.chronicle.take(event)
        if taken.doubts:
            shared.inquiring.ask(taken.doubts)
        if taken.copy:
            return
        shared.node.received[event.type, taken.kind] += 1
        shared.node.without_status += event.kind is None
        if event.created_at_ns and not taken.backlog:
            delay = (event.received_wall_ns - event.created_at_ns) / _SECOND_NS
            shared.histograms.event_delivery.observe(max(0.0, delay))
