"""Between the socket and the ledger: a bounded queue that never presses back.

Law: `offer` neither waits nor raises. What does not fit is dropped, counted,
and told to the ledger. Here: the queue and its draining. Not here: the
subscription (`streaming`).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from exporter.collector import Histograms
from exporter.cri.decode import Decoder
from exporter.loops.inquiring import Inquiring
from exporter.loops.report import Reporter
from exporter.pleg.events import Announcement
from exporter.pleg.findings import Verdict
from exporter.pleg.ledger import Ledger
from exporter.pleg.node import Node

_BATCH: Final = 64
_MOMENT: Final = 0.005
_LONGEST_SETTLE: Final = 50
_SECOND_NS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Witnessing:
    """What every loop shares: the ledger, what is known, and where findings go."""

    node: Node
    ledger: Ledger
    histograms: Histograms
    reporter: Reporter
    inquiring: Inquiring
    decoder: Decoder


class Intake:
    """Takes raw events from a subscription and feeds them to the ledger in order."""

    def __init__(self, shared: Witnessing, capacity: int) -> None:
        self._shared = shared
        self._queue: asyncio.Queue[Announcement] = asyncio.Queue(capacity)
        self._taken = 0

    @property
    def fill(self) -> tuple[int, int]:
        """Length and capacity of the queue."""
        return self._queue.qsize(), self._queue.maxsize

    def offer(self, raw: bytes, stream: int) -> None:
        """Take one event off the socket; dropped and counted if there is no room."""
        now, wall_ns = time.monotonic(), time.time_ns()
        self._taken += 1
        node = self._shared.node
        node.stream_last_seen_wall = wall_ns / _SECOND_NS
        announcement = self._shared.decoder.announcement(raw, now, wall_ns, stream)
        if announcement is None:
            return
        try:
            self._queue.put_nowait(announcement)
        except asyncio.QueueFull:
            node.discards += 1
            node.discards_unreconciled += 1
            self._shared.ledger.discarded(now)

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

    def drain(self) -> None:
        """Feed everything that waits to the ledger now: a relist must find it there."""
        while not self._queue.empty():
            self._take(self._queue.get_nowait())

    async def run(self) -> None:
        """Feed the ledger as events come, letting others have their turn between batches."""
        while True:
            self._take(await self._queue.get())
            for _ in range(min(_BATCH, self._queue.qsize())):
                self._take(self._queue.get_nowait())
            await asyncio.sleep(0)

    def _take(self, event: Announcement) -> None:
        shared = self._shared
        copy = shared.ledger.is_copy(event)
        findings = shared.ledger.announced(event)
        shared.reporter.report(findings)
        shared.inquiring.ask(shared.ledger.take_doubts())
        if copy:
            return
        shared.node.received[event.type, shared.ledger.kind_of(event.container_id)] += 1
        shared.node.without_status += event.kind is None
        backlog = any(finding.verdict is Verdict.BACKLOG for finding in findings)
        if event.created_at_ns and not backlog:
            delay = (event.received_wall_ns - event.created_at_ns) / _SECOND_NS
            shared.histograms.event_delivery.observe(max(0.0, delay))
