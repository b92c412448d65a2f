"""Shares the event loop: waits for the first of several things, and runs long work in slices.

While the loop is blocked, gRPC's own thread reads on until 40 MiB wait; then events pile up in the
runtime.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

_Step = TypeVar("_Step")

_SLICE: Final = 0.001


async def in_slices(steps: Iterable[_Step | None]) -> list[_Step]:
    """Run all steps, yielding to other tasks each millisecond; return the results but None."""
    done = []
    due = time.monotonic() + _SLICE
    for step in steps:
        if step is not None:
            done.append(step)
        if time.monotonic() >= due:
            await asyncio.sleep(0)
            due = time.monotonic() + _SLICE
    return done


async def first_of(seconds: float, *waiting: Coroutine[Any, Any, object]) -> None:
    """Return as soon as one of `waiting` is done, or after `seconds`; cancel the others."""
    tasks = [asyncio.create_task(each) for each in waiting]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
