"""When to subscribe again, after an attempt has ended.

Never more than one attempt per second at one socket. After an outage the next attempt comes with
the runtime's new socket, or after the first relist that works. States that only an operator changes
are retried slowly, and as soon as another runtime may answer.
"""

import asyncio
import math
import random
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from exporter.cri.endpoint import Endpoint, Seen
from exporter.model.labels import BY_CHOICE, StreamState
from exporter.process.event_loop import first_of
from exporter.timing import MIN_SPACING, Backoff

Sign = Coroutine[Any, Any, object]

_SLOW_RETRY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt ended: the resulting state, the reason, seconds of streaming.

    `ended_at`: when the stream ended, if before this was noticed. `absent`: nothing listened.
    """

    state: StreamState
    note: str
    reason: str = ""
    streamed: float = 0.0
    ended_at: float = math.inf
    absent: bool = False


async def wait_for_runtime(
    endpoint: Endpoint, tried: tuple[float, Seen | None], pause: float, *signs: Sign
) -> None:
    """Wait for another socket, or for one of the signs of the runtime, but at most `pause` seconds.

    `tried`: when the last attempt began, and the socket that was there then.
    """
    began, seen = tried
    await first_of(pause, endpoint.another(seen), *signs)
    if not endpoint.is_another(seen):
        await asyncio.sleep(max(0.0, began + MIN_SPACING - time.monotonic()))


class Retrying:
    """The pauses between attempts.

    `answered`, `recovered`: as in `LoopContext`.
    """

    def __init__(
        self, endpoint: Endpoint, answered: asyncio.Event, recovered: asyncio.Event
    ) -> None:
        self._endpoint = endpoint
        self._answered = answered
        self._recovered = recovered
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
        return ending.state in BY_CHOICE

    def pause(self, ending: Ending, began: float) -> float:
        """Seconds until the next attempt, at most, after one that began at `began`."""
        dice = random.random()  # noqa: S311 - jitter, not a secret
        first, self._last = self._last is not ending.state, ending.state
        now, absent = time.monotonic(), ending.absent
        delay = self._backoff.delay(began, now, ending.streamed, dice, absent=absent)
        # A runtime that is shutting down may end one stream cleanly, so check again before taking
        # its events for disabled.
        if ending.state not in BY_CHOICE or (ending.state is StreamState.DISABLED and first):
            return delay
        return _SLOW_RETRY_SECONDS * (1 + dice / 2)

    async def rest(self, ending: Ending, tried: tuple[float, Seen | None], pause: float) -> None:
        """Wait until the runtime seems to be back, or for `pause` seconds; `tried` as above."""
        signs: list[Sign] = []
        if ending.state is not StreamState.BACKOFF:
            # The runtime may have been only half up when it answered.
            signs.append(self._recovered.wait())
        elif not self._hurried:
            self._answered.clear()
            signs.append(self._relisted())
        await wait_for_runtime(self._endpoint, tried, pause, *signs)
        self._recovered.clear()

    async def _relisted(self) -> None:
        await self._answered.wait()
        self._hurried = True
