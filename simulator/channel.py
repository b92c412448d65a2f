"""Delivers announcements to subscribers, the way each runtime does it, with faults on the way.

An outbox decides at random (`Options`) which announcement is lost, duplicated or delayed. A channel
has the subscribers and their bounded queues, and what is kept while there are none. Not imitated:
containerd 2 blocks all clients when a subscriber does not read; here a full queue drops the
announcement. Blind spots: an announcement written while the client disconnects counts as delivered,
and each lost copy of a duplicate counts.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from exporter.model.events import EventType, ObjectKind
from exporter.model.labels import Flaw
from simulator.options import Delivery, Options, RuntimeBehaviour

QUEUE: Final = 1000


@dataclass(frozen=True, slots=True)
class Notice:
    """One announcement in transit; `payload` is its message."""

    container_id: str
    type: EventType
    kind: ObjectKind
    payload: bytes
    flaw: Flaw | None = None


class StreamEnding(Enum):
    """How the runtime ends a stream."""

    CLEAN = "clean"
    UNAVAILABLE = "unavailable"


class Subscriber:
    """One stream: announcements in the order in which they will be written, and how it ends."""

    def __init__(self, kept: Iterable[Notice]) -> None:
        # The client is gone.
        self.left = False
        self._queue: asyncio.Queue[Notice | StreamEnding] = asyncio.Queue()
        for notice in kept:
            self._queue.put_nowait(notice)
        self.next = self._queue.get

    def offer(self, notice: Notice) -> bool:
        """Queue a copy; False if the queue is full."""
        if self._queue.qsize() >= QUEUE:
            return False
        self._queue.put_nowait(notice)
        return True

    def unsent(self) -> list[Notice]:
        """Take what it did not send."""
        queued = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        return [each for each in queued if isinstance(each, Notice)]

    def end(self, ending: StreamEnding) -> None:
        """End the stream after what it has."""
        self._queue.put_nowait(ending)


class Channel:
    """All streams of one runtime; calls `lose` for announcements that reach no subscriber."""

    def __init__(self, behaviour: RuntimeBehaviour, lose: Callable[[Notice], None]) -> None:
        self._behaviour = behaviour
        self._lose = lose
        self._subscribers: list[Subscriber] = []
        self._kept: deque[Notice] = deque()
        self._keeping = True
        # Streams ever opened.
        self.subscriptions = 0
        # For the simulated kubelet, which receives everything.
        self.on_sent: Callable[[Notice], None] = lambda _: None

    @property
    def subscribers(self) -> int:
        """Open streams, as the clients see them."""
        return sum(not subscriber.left for subscriber in self._subscribers)

    def subscribe(self) -> Subscriber:
        """Open a stream. It receives what was kept for the first subscriber."""
        self.subscriptions += 1
        subscriber = Subscriber(self._kept)
        self._kept.clear()
        self._keeping = self._behaviour.delivery is not Delivery.FIRST
        self._subscribers.append(subscriber)
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """The client disconnected. Some runtimes notice only at the next announcement."""
        subscriber.left = True
        if not self._behaviour.departed_subscribers and subscriber in self._subscribers:
            self._subscribers.remove(subscriber)
        self._abandon(subscriber)

    def end_all(self, ending: StreamEnding) -> None:
        """The runtime ends all streams."""
        while self._subscribers:
            subscriber = self._subscribers.pop()
            self._abandon(subscriber)
            subscriber.end(ending)

    def lose_all(self) -> None:
        """The runtime dies: what it kept is gone, and it starts keeping again."""
        while self._kept:
            self._lose(self._kept.popleft())
        self._keeping = True

    def publish(self, notice: Notice) -> None:
        """Deliver one announcement."""
        self.on_sent(notice)
        if not self._subscribers:
            if self._keeping and len(self._kept) < QUEUE:
                self._kept.append(notice)
            else:
                self._lose(notice)
            return
        shared = self._behaviour.delivery is Delivery.SHARED
        number = 1 if shared else len(self._subscribers)
        receivers = [one for one in self._subscribers[:number] if not one.left]
        self._subscribers = self._subscribers[number:] + receivers
        taken = [one.offer(notice) for one in receivers]
        if not any(taken):
            self._lose(notice)

    def _abandon(self, subscriber: Subscriber) -> None:
        """What it did not send is lost unless other streams carry it."""
        unsent = subscriber.unsent()
        if self._behaviour.delivery is Delivery.SHARED or not self.subscribers:
            for notice in unsent:
                self._lose(notice)


class Outbox:
    """Takes announcements, and passes them to `publish`, maybe later, or to `lose`."""

    def __init__(
        self, options: Options, publish: Callable[[Notice], None], lose: Callable[[Notice], None]
    ) -> None:
        self.options = options
        self._publish = publish
        self._lose = lose
        self._waiting: deque[Notice] = deque()
        self._due = 0.0

    def post(self, notice: Notice) -> None:
        """Take an announcement; the seed and its identity decide what happens to it."""
        options = self.options
        rng = options.random(f"{notice.container_id}/{notice.type.name}")
        dropped, doubled = rng.random() < options.drop, rng.random() < options.duplicate
        delay = rng.random() * options.delay
        if dropped:
            self._lose(notice)
            return
        # Flawed ones are sent once, so that they can be counted.
        for _ in range(2 if doubled and notice.flaw is None else 1):
            if options.delay:
                loop = asyncio.get_running_loop()
                # Never before those that wait already.
                self._due = max(self._due, loop.time() + delay)
                self._waiting.append(notice)
                loop.call_at(self._due, self.send_next)
            else:
                self._publish(notice)

    def send_next(self) -> None:
        """Send what has waited longest, if anything has."""
        if self._waiting:
            self._publish(self._waiting.popleft())

    def lose_all(self) -> None:
        """The runtime dies, and everything waiting here is lost."""
        while self._waiting:
            self._lose(self._waiting.popleft())
