"""One continuous watch made of subscriptions that each end on their own.

The runtime's gRPC server enforces a call's deadline even when this whole process is frozen, so a
leased subscription cannot burden the runtime for longer than that. The next one is opened before
the last one ends; the ledger recognises the copies from the overlap by their stream number.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import structlog

from exporter.cri.client import CLEAN, OVERFLOW, CriClient, StreamEnd, Subscription
from exporter.errors import CriError
from exporter.model.facts import Discarded, StreamUnproven

_log = structlog.get_logger()

ANSWER_TIMEOUT: Final = 5.0
# A disabled stream ends within this many seconds of the request.
_STILLBORN_SECONDS: Final = 0.25
_RETRY_SECONDS: Final = 1.0
# A runtime keeps each ended stream until its next event. On a node without events, leases grow by
# their own length after this many renewals, so a quiet day costs the runtime 8 MiB instead of 56.
# A frozen process binds the runtime for at most the second number of seconds.
_QUIET_RENEWALS: Final = 30
_LONGEST_QUIET: Final = 600.0


# Takes an event of the subscription with that number, without waiting; if it returns an end, that
# subscription is dropped.
Offer = Callable[[bytes, int], StreamEnd | None]


def stretched(lease: float, quiet: int) -> float:
    """Length of a lease in seconds after `quiet` consecutive renewals without an event."""
    return min(lease * (1 + quiet // _QUIET_RENEWALS), max(lease, _LONGEST_QUIET))


# So many bytes identify an event: its container's id, type and time come first.
_MARK_BYTES: Final = 78
_LATELY: Final = 64
_REPLACED: Final = StreamEnd("", "its successor is served")
_RAN_OUT: Final = StreamEnd(
    "deadline_exceeded", "the lease ran out before it was renewed: this process was stalled"
)

Reader = asyncio.Task[StreamEnd]


@dataclass(frozen=True, slots=True)
class Held:
    """One subscription: its reader, when it was requested and answered, and when it expires."""

    reader: Reader
    asked_at: float
    answered_at: float
    ends_at: float


@dataclass(slots=True)
class LeasedStream:
    """Subscriptions over one connection. `lease`: seconds, 0 for no deadline.

    A subscription is renewed halfway through its lease. The old one is kept until it brings the
    first event of its successor as well, which shows that the runtime serves the successor; else
    until it expires, which makes the watch `StreamUnproven`. An answer to `Version` does not show
    it: containerd 2 does not serve new subscriptions while a subscriber holds up its events.

    `offer` gets each event. `report` gets StreamUnproven, and Discarded when a subscription ended
    because events were dropped. `numbers` yields the number of each subscription. `first` is called
    at the first event of the watch. `ended_at`: when the watch ended; a stalled process learns that
    later. `brought`: number of events so far.
    """

    client: CriClient
    offer: Offer
    lease: float
    numbers: Iterator[int]
    report: Callable[[StreamUnproven | Discarded], object] = lambda _fact: None
    first: Callable[[], object] = lambda: None
    ended_at: float = math.inf
    brought: int = 0
    _readers: set[Reader] = field(default_factory=set)
    # The number of the newest subscription, and the first `_MARK_BYTES` of its first event.
    newest: int = -1
    mark: bytes | None = None
    _quiet: int = 0
    _counted: int = 0

    async def open(self) -> Held:
        """Subscribe; the reader is already done if the runtime ended the stream at once."""
        held = await self._ask()
        await asyncio.wait({held.reader}, timeout=_STILLBORN_SECONDS)
        return held

    async def hold(self, held: Held) -> StreamEnd:
        """Renew until the watch ends."""
        pause = self._until_renewal(held)
        while not held.reader.done():
            await asyncio.wait({held.reader}, timeout=pause)
            if held.reader.done():
                break
            # Too late: events of a new subscription must not count as events of this watch.
            if time.monotonic() >= held.ends_at:
                return self._ended(held, _RAN_OUT)
            newer = await self._renew()
            if newer is None:
                pause = _RETRY_SECONDS
            elif newer.answered_at >= held.ends_at:
                return self._ended(held, _RAN_OUT)
            else:
                held = newer
                pause = self._until_renewal(held)
        return self._ended(held, held.reader.result())

    async def close(self) -> None:
        """Cancel every subscription."""
        readers = set(self._readers)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    async def _ask(self, quiet: int = 0) -> Held:
        """Subscribe, with a lease that grows with the number of quiet renewals."""
        asked_at = time.monotonic()
        lease = stretched(self.lease, quiet)
        subscription = self.client.subscribe(next(self.numbers), lease or None)
        self.newest, self.mark = subscription.number, None
        reader: Reader = asyncio.create_task(self._read(subscription))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        # An answer to a later call on the same connection shows that the runtime got the
        # subscription.
        await self.client.version(ANSWER_TIMEOUT)
        ends_at = asked_at + lease if lease else math.inf
        return Held(reader, asked_at, time.monotonic(), ends_at)

    async def _renew(self) -> Held | None:
        count, current = self.brought, self.newest
        quiet = self._quiet + 1 if count == self._counted else 0
        try:
            held = await self._ask(quiet)
        except CriError as error:
            _log.debug("lease not renewed yet", error=str(error))
            self.newest = current
            return None
        if held.reader.done():
            self.newest = current
            return None
        self._quiet, self._counted = quiet, count
        return held

    def _until_renewal(self, held: Held) -> float | None:
        if not self.lease:
            return None
        return max(0.0, (held.asked_at + held.ends_at) / 2 - time.monotonic())

    def _ended(self, held: Held, end: StreamEnd) -> StreamEnd:
        self.ended_at = min(time.monotonic(), held.ends_at)
        return end

    async def _read(self, subscription: Subscription) -> StreamEnd:
        reading = _Reading(self, subscription.number)
        try:
            await subscription.read(reading.event)
            end = reading.given_up or CLEAN
        except CriError as error:
            end = StreamEnd(error.reason, str(error))
            if end.reason == OVERFLOW:
                self.report(Discarded(time.monotonic()))
        finally:
            subscription.cancel()
        if reading.number != self.newest and not reading.is_replaced:
            self.report(StreamUnproven(time.monotonic()))
        return end


@dataclass(slots=True)
class _Reading:
    """Takes the events of the subscription with that number."""

    stream: LeasedStream
    number: int
    given_up: StreamEnd | None = None
    # Marks of the events that came after a newer subscription was requested.
    _lately: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LATELY))

    def event(self, raw: bytes) -> StreamEnd | None:
        """Offer an event; returns an end once no more events are wanted."""
        stream = self.stream
        stream.brought += 1
        if stream.brought == 1:
            stream.first()
        self.given_up = stream.offer(raw, self.number)
        if self.number == stream.newest:
            stream.mark = stream.mark or raw[:_MARK_BYTES]
            return self.given_up
        self._lately.append(raw[:_MARK_BYTES])
        return _REPLACED if self.is_replaced else self.given_up

    @property
    def is_replaced(self) -> bool:
        """Whether this subscription has brought the newest one's first event, too.

        That shows that the runtime serves the newest. Events that another one brought do not show
        it: that one may be ahead.
        """
        return self.stream.mark in self._lately
