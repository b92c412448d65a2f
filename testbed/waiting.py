"""Wait for a condition with a deadline, instead of sleeping and hoping."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(
    condition: Callable[[], bool | Awaitable[bool]],
    what: str,
    *,
    seconds: float = 60,
    every: float = 0.01,
) -> None:
    """Return as soon as `condition()` holds; raise TimeoutError naming `what` after `seconds`."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            while True:
                held = condition()
                if await held if inspect.isawaitable(held) else held:
                    return
                await asyncio.sleep(every)
    except TimeoutError:
        # What the condition itself waited for has a limit of its own.
        if not limit.expired():
            raise
        raise TimeoutError(f"not within {seconds:g} s: {what}") from None
