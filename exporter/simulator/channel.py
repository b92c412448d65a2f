"""Delivers announcements to subscribers, the way each runtime does it.

Subscribers, their bounded queues, and what is kept while there are none. Not imitated: containerd 2
blocks all clients when a subscriber does not read; here a full queue drops and counts the
announcement.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from typing import Final

from exporter.simulator.manners import Delivery, Manners
from exporter.simulator.records import Notice
from exporter.simulator.truth import Truth

QUEUE: Final = 1000
_HELD_NS: Final = 300 * 1_000_000_000


class End(Enum):
    """How the runtime ends a stream."""

    CLEAN = "clean"
    UNAVAILABLE = "unavailable"


class Subscriber:
    """One stream: announcements in the order in which they will be written.

    `began_ns`: the time since which there has always been a subscriber.
    """

    def __init__(self, number: int, began_ns: int, truth: Truth) -> None:
        self.number = number
        self.began_ns = began_ns
        self.end: End | None = None
        self.left = False
        self._truth = truth
        self._queue: deque[Notice] = deque()
        self._wake = asyncio.Event()

    def offer(self, notice: Notice) -> bool:
        """Queue a copy; False if the queue is full."""
        if len(self._queue) >= QUEUE:
            return False
        self.push(notice)
        return True

    def push(self, notice: Notice) -> None:
        """Queue a copy, however full the queue is."""
        self._truth.offered(notice)
        self._queue.append(notice)
        self._wake.set()

    def close(self, end: End | None) -> None:
        """End the stream; queued announcements are lost."""
        self.end = end
        for notice in self._queue:
            self._truth.lost(notice)
        self._queue.clear()
        self._wake.set()

    def take(self) -> Notice | None:
        """The next queued announcement; None if there is none now."""
        return self._queue.popleft() if self._queue else None

    async def next(self) -> Notice | None:
        """Wait for the next announcement to write; None when the stream should end."""
        while not self._queue and self.end is None:
            self._wake.clear()
            await self._wake.wait()
        return self.take()


class Channel:
    """All streams of one runtime."""

    def __init__(self, manners: Manners, truth: Truth) -> None:
        self._manners = manners
        self._truth = truth
        self._subscribers: list[Subscriber] = []
        self._kept: deque[Notice] = deque()
        self._numbers = 0
        self._keeping = True
        self.overflowed = 0

    @property
    def subscribers(self) -> int:
        """Number of open streams, as the clients see it."""
        return sum(not subscriber.left for subscriber in self._subscribers)

    @property
    def subscriptions(self) -> int:
        """Number of streams ever opened."""
        return self._numbers

    def subscribe(self, now_ns: int) -> Subscriber:
        """Open a stream. It receives what was kept for the first subscriber."""
        live = [other for other in self._subscribers if not other.left]
        began_ns = live[0].began_ns if live else now_ns
        self._numbers += 1
        subscriber = Subscriber(self._numbers, began_ns, self._truth)
        self._subscribers.append(subscriber)
        while self._kept:
            notice = self._kept.popleft()
            fresh = notice.created_at_ns > now_ns - _HELD_NS
            if fresh or self._manners.delivery is not Delivery.HELD:
                subscriber.push(notice)
            self._truth.lost(notice)
        self._keeping = self._manners.delivery is not Delivery.FIRST
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """The client disconnected. Some runtimes notice only at the next announcement."""
        subscriber.left = True
        subscriber.close(None)
        if not self._manners.drops_ghosts and subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    def end_all(self, end: End) -> None:
        """The runtime ends all streams."""
        for subscriber in self._subscribers:
            subscriber.close(end)
        self._subscribers.clear()

    def lose_all(self) -> None:
        """The runtime dies: what it kept is gone, and it starts keeping again."""
        for notice in self._kept:
            self._truth.lost(notice)
        self._kept.clear()
        self._keeping = True

    def publish(self, notice: Notice) -> None:
        """Deliver one announcement."""
        if not self._subscribers:
            self._keep(notice)
            return
        if self._manners.delivery is Delivery.SHARED:
            receivers = [self._subscribers.pop(0)]
            self._subscribers += [one for one in receivers if not one.left]
        else:
            receivers = self._subscribers
            self._subscribers = [one for one in receivers if not one.left]
        for subscriber in receivers:
            if not subscriber.left and not subscriber.offer(notice):
                self.overflowed += 1
        self._truth.lost(notice)

    def _keep(self, notice: Notice) -> None:
        bounded = self._manners.delivery is not Delivery.HELD
        if self._keeping and not (bounded and len(self._kept) >= QUEUE):
            self._kept.append(notice)
        else:
            self._truth.lost(notice)
