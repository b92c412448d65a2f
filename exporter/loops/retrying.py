"""When to subscribe again, after an attempt has ended.

Never more than one attempt per second. After an outage the next attempt follows the first relist
that works; states that only an operator changes are retried slowly.
"""

import asyncio
import math
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from exporter.node.state import StreamState
from exporter.timing.backoff import MIN_SPACING, Backoff

SLOW: Final = (StreamState.DISABLED, StreamState.UNSUPPORTED, StreamState.REFUSED)
_SLOW_RETRY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt ended: the resulting state, the reason, seconds of streaming.

    `ended_at`: when it ended, if that was earlier than it was noticed.
    """

    state: StreamState
    note: str
    reason: str = ""
    streamed: float = 0.0
    ended_at: float = math.inf


class Retrying:
    """The pauses between attempts. `answered`: set by each relist that the runtime answers."""

    def __init__(self, answered: asyncio.Event) -> None:
        self._answered = answered
        # Whether a relist that worked has already led to an attempt since the stream was lost.
        self._hurried = False
        self._backoff = Backoff()
        self._last = StreamState.CONNECTING

    def subscribed(self) -> None:
        """An attempt has succeeded."""
        self._hurried = False

    def has_no_stream(self, ending: Ending) -> bool:
        """Whether there is no stream to judge; a single clean end may be a restart."""
        if ending.state is StreamState.DISABLED:
            return self._last is StreamState.DISABLED
        return ending.state in SLOW

    def pause(self, ending: Ending, tried_at: float) -> float:
        """Seconds until the next attempt, at most."""
        dice = random.random()  # noqa: S311 - jitter, not a secret
        first, self._last = self._last is not ending.state, ending.state
        delay = self._backoff.delay(tried_at, time.monotonic(), ending.streamed, dice)
        # A runtime that is shutting down may end one stream cleanly, so check again before
        # believing it.
        if ending.state not in SLOW or (ending.state is StreamState.DISABLED and first):
            return delay
        return _SLOW_RETRY_SECONDS * (1 + dice / 2)

    async def rest(self, ending: Ending, tried_at: float, pause: float) -> None:
        """Wait for at most `pause` seconds."""
        if ending.state is StreamState.BACKOFF and not self._hurried:
            await self._wait_for_relist(pause, tried_at)
        else:
            await asyncio.sleep(pause)

    async def _wait_for_relist(self, pause: float, tried_at: float) -> None:
        """Wait for a relist that works, which shows that the runtime is back, or for `pause`."""
        self._answered.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                self._hurried = await self._answered.wait()
        await asyncio.sleep(max(0.0, tried_at + MIN_SPACING - time.monotonic()))
