"""Runs a command until SIGTERM or SIGINT, and keeps the garbage collector from blocking the loop.

The image sets glibc's memory variables (Containerfile).
"""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from exporter.errors import ShadowPlegError

_T = TypeVar("_T")

# A relist of 4 000 items creates and drops as many objects: that must not start a collection. A
# collection of the young objects of 100 000 items would block the loop for 50 ms.
_GC_THRESHOLDS: Final = (10_000, 5, 200)


async def until_signalled(
    run: Callable[[asyncio.Event], Awaitable[_T]], *, outlives: bool = False
) -> _T:
    """Call `run` with an event that SIGTERM and SIGINT set; `run` ends once that is set.

    `outlives`: ignore SIGHUP, which a closed terminal or a request to reload sends. An error of
    this package from a task is raised as is, not in a group.
    """
    # Objects from the imports live until exit: to scan them would only block the loop.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    loop.add_signal_handler(signal.SIGHUP, _carry_on if outlives else stop.set)
    try:
        return await run(stop)
    except ExceptionGroup as group:
        ours, others = group.split(ShadowPlegError)
        if ours is None or others is not None:
            raise
        raise ours.exceptions[0] from None


def _carry_on() -> None:
    """Ignore the signal; SIG_IGN would be inherited by child processes."""
