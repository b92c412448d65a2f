"""Long work in slices, so that the event loop is never held for long.

Nothing but this loop reads the socket: while it stands still, events pile up,
first with us and then in the runtime.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final, TypeVar

_Step = TypeVar("_Step")

_SLICE: Final = 0.001


async def taking_turns(steps: Iterable[_Step]) -> list[_Step]:
    """Every step, with a turn for the others after each millisecond."""
    done = []
    due = time.monotonic() + _SLICE
    for step in steps:
        done.append(step)
        if time.monotonic() >= due:
            await asyncio.sleep(0)
            due = time.monotonic() + _SLICE
    return done
