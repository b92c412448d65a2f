"""Waits for the first of several things."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_of(seconds: float, *waiting: Coroutine[Any, Any, object]) -> None:
    """Return as soon as one of them is done, or after that many seconds; cancels the others."""
    tasks = [asyncio.create_task(each) for each in waiting]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
