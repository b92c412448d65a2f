"""What waits for a subscriber of `filter`: bounded, and never waited for."""

import asyncio
from collections import deque
from typing import Final

_MOST_EVENTS: Final = 4000
MOST_BYTES: Final = 4 * 1024 * 1024


class Backlog:
    """Events that a client has not taken yet, within bounds."""

    def __init__(self) -> None:
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._ended = False

    def put(self, event: bytes) -> bool:
        """Add an event without waiting; False if there is no room."""
        if len(self._events) >= _MOST_EVENTS or self._bytes + len(event) > MOST_BYTES:
            return False
        self._events.append(event)
        self._bytes += len(event)
        self._news.set()
        return True

    def end(self) -> None:
        """Nothing more will be added."""
        self._ended = True
        self._news.set()

    async def take(self) -> bytes | None:
        """The oldest event; None after the last one."""
        while not self._events:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        event = self._events.popleft()
        self._bytes -= len(event)
        return event
