"""Clients of runtimes, closed at the end; and how long tests wait for them.

Here: connecting. Not here: what is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from exporter.cri.client import CriClient
from exporter.simulator.server import SimulatedServer
from tests.support.odd_runtimes import simulated

SOON = 0.2
PATIENT = 10.0
# One byte more than a client takes.
TOO_LARGE = b"\0" * (64 * 1024 * 1024 + 1)


@asynccontextmanager
async def client_of(socket: Path) -> AsyncIterator[CriClient]:
    """A client of that socket, closed at the end."""
    client = CriClient(socket)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[SimulatedServer, CriClient]]:
    """A simulated runtime and a client of it."""
    async with simulated() as server, client_of(server.socket) as client:
        yield server, client
