"""Runs a command until SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from exporter.errors import ConfigError


async def until_signalled(run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run something that ends when its event is set, which SIGTERM and SIGINT do.

    A ConfigError from one of its tasks is raised as is, not in a group.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    try:
        await run(stop)
    except ExceptionGroup as group:
        mistakes, others = group.split(ConfigError)
        if mistakes is None or others is not None:
            raise
        raise mistakes.exceptions[0] from None
