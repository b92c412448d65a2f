"""A leased watch without a daemon around it: what it hears, and what a ledger makes of that."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from exporter.cri.client import CriClient
from exporter.cri.decode import Decoder
from exporter.loops.lease import LeasedStream
from exporter.pleg.events import Announcement
from exporter.pleg.findings import Verdict
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of

_CONTAINERD = profile_of("containerd", "2.1.9")


@dataclass(slots=True)
class Heard:
    """A sink: everything that came, and what a ledger made of it."""

    ledger: Ledger = field(
        default_factory=lambda: Ledger(profile_of("containerd", "2.1.9"), grace=5.0)
    )
    events: list[Announcement] = field(default_factory=list)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    streams: set[int] = field(default_factory=set)

    def offer(self, raw: bytes, stream: int) -> None:
        """Take one event."""
        event = Decoder().announcement(raw, 0.0, 2**62, stream)
        assert event is not None
        self.events.append(event)
        self.streams.add(stream)
        self.verdicts.update(finding.verdict for finding in self.ledger.take(event).findings)

    @property
    def steps(self) -> set[tuple[str, str]]:
        """Who took which step, as far as was heard."""
        return {(event.container_id, event.type.name) for event in self.events}

    @property
    def said(self) -> Counter[tuple[str, str, int]]:
        """What was announced, and how many copies came."""
        return Counter((e.container_id, e.type.name, e.created_at_ns) for e in self.events)


@asynccontextmanager
async def watch(
    socket: Path, lease: float, numbers: Iterator[int] | None = None
) -> AsyncIterator[Heard]:
    """One leased watch over a connection of its own; it must last until it is left."""
    heard, client = Heard(), CriClient(socket)
    stream = LeasedStream(client, heard, lease, numbers or itertools.count())
    holding = asyncio.create_task(stream.hold(await stream.open()))
    try:
        yield heard
        assert not holding.done(), holding.result()
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await stream.close()
        await client.close()
