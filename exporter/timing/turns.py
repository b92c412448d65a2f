"""Runs long work in slices, so that the event loop is never blocked for long.

Only this loop reads the socket: while it is blocked, events pile up, first in this process and then
in the runtime.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Final, TypeVar

_Step = TypeVar("_Step")

_SLICE: Final = 0.001


async def taking_turns(steps: Iterable[_Step | None]) -> list[_Step]:
    """Run every step, yielding to other tasks after each millisecond; the results, without None."""
    done = []
    due = time.monotonic() + _SLICE
    for step in steps:
        if step is not None:
            done.append(step)
        if time.monotonic() >= due:
            await asyncio.sleep(0)
            due = time.monotonic() + _SLICE
    return done
