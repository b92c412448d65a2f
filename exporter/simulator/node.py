"""A complete simulated node: a populated runtime, its socket, its churn, its schedule."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from exporter.simulator.churn import Churn
from exporter.simulator.options import Options
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.server import SimulatedServer, serve
from exporter.simulator.truth import Summary


@dataclass(frozen=True, slots=True)
class Node:
    """A running node. Created by `run`."""

    server: SimulatedServer
    _churn: Churn
    _schedule: asyncio.Event

    @property
    def endpoint(self) -> str:
        """The socket, in the form that `--runtime-endpoint` accepts."""
        return self.server.endpoint

    def summary(self) -> Summary:
        """The truth as of now."""
        return self.server.runtime.truth.summary()

    async def quiesce(self) -> None:
        """End churn and faults. After this the observer's counts converge to the truth's."""
        self._schedule.set()
        self.server.runtime.outbox.calm()
        self.server.faults.resume()
        await self._churn.quiesce()


@contextlib.asynccontextmanager
async def run(options: Options, socket: Path) -> AsyncIterator[Node]:
    """A populated node on `socket`, running until exit. OSError if it cannot listen."""
    runtime = SimulatedRuntime(options)
    churn = Churn(runtime)
    churn.populate()
    quiet = asyncio.Event()
    async with serve(runtime, socket) as server:
        tasks = [
            asyncio.create_task(churn.live()),
            asyncio.create_task(_every(options.restart_every, server.restart, quiet)),
            asyncio.create_task(_every(options.disconnect_every, _disconnect(server), quiet)),
        ]
        try:
            yield Node(server, churn, quiet)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _every(
    seconds: float, action: Callable[[], Awaitable[None]], quiet: asyncio.Event
) -> None:
    while seconds and not quiet.is_set():
        try:
            await asyncio.wait_for(quiet.wait(), seconds)
        except TimeoutError:
            await action()


def _disconnect(server: SimulatedServer) -> Callable[[], Awaitable[None]]:
    async def disconnect() -> None:
        server.disconnect()

    return disconnect
