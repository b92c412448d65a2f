"""A complete simulated node: a populated runtime, its socket, its churn, its schedule."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from exporter.simulator.churn import Churn
from exporter.simulator.options import Options
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.server import SimulatedServer
from exporter.simulator.service import RuntimeService


@contextlib.asynccontextmanager
async def run(options: Options, socket: Path) -> AsyncIterator[SimulatedServer]:
    """A populated node on `socket`, running until exit. OSError if it cannot listen."""
    runtime = SimulatedRuntime(options)
    churn = Churn(runtime)
    churn.populate()
    async with SimulatedServer(RuntimeService(runtime), socket) as server:

        async def disconnect() -> None:
            server.disconnect()

        tasks = [
            asyncio.create_task(churn.run()),
            asyncio.create_task(_every(options.restart_every, server.restart)),
            asyncio.create_task(_every(options.disconnect_every, disconnect)),
        ]
        try:
            yield server
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _every(seconds: float, action: Callable[[], Awaitable[None]]) -> None:
    while seconds:
        await asyncio.sleep(seconds)
        await action()
