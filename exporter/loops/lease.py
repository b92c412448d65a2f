"""One continuous watch made of subscriptions that each end on their own.

The runtime's gRPC server enforces a call's deadline even when this whole process is frozen, so a
leased subscription cannot burden the runtime for longer than that. The next one is opened before
the last one ends. Its events wait until the last one has brought its first event, too: gRPC may
hold thousands of older events of the last one, which must not look lost. The ledger recognises
copies from the overlap by their stream number.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
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
# An old subscription may be ahead of its successor by so many events.
_LATELY: Final = 1024
_REPLACED: Final = StreamEnd("", "its successor is served")
# A subscription is over if it brings nothing in so many waits of so many seconds, although its
# successor has brought an event. A process that was frozen finds one wait expired.
_WAITS: Final = 2
_WAIT_SECONDS: Final = 5.0
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
    until it expires or brings nothing more, which makes the watch `StreamUnproven`. An answer to
    `Version` does not show it: containerd 2 does not serve new subscriptions while a subscriber
    holds up its events. Until then the successor is read no further than to its first event.

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
    _readers: list[Reader] = field(default_factory=list)
    # In the order in which they were requested; events of the oldest are taken.
    readings: deque["_Reading"] = field(default_factory=deque)
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
        self.readings.clear()
        readers = self._readers.copy()
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    async def _ask(self, quiet: int = 0) -> Held:
        """Subscribe, with a lease that grows with the number of quiet renewals."""
        asked_at = time.monotonic()
        lease = stretched(self.lease, quiet)
        subscription = self.client.subscribe(next(self.numbers), lease or None)
        self.readings.append(reading := _Reading(self, subscription.number))
        if len(self.readings) == 1:
            reading.turn.set()
        reader: Reader = asyncio.create_task(self._read(subscription, reading))
        self._readers.append(reader)
        reader.add_done_callback(self._readers.remove)
        # An answer to a later call on the same connection shows that the runtime got the
        # subscription, and so does an event.
        try:
            await self.client.version(ANSWER_TIMEOUT)
        except CriError:
            if reading.kept is None:
                self._leave(reading)
                raise
        ends_at = asked_at + lease if lease else math.inf
        return Held(reader, asked_at, time.monotonic(), ends_at)

    async def _renew(self) -> Held | None:
        count = self.brought
        quiet = self._quiet + 1 if count == self._counted else 0
        try:
            held = await self._ask(quiet)
        except CriError as error:
            _log.debug("lease not renewed yet", error=str(error))
            return None
        if held.reader.done():
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

    async def _read(self, subscription: Subscription, reading: "_Reading") -> StreamEnd:
        try:
            if not reading.turn.is_set():
                await subscription.read(reading.keep)
                await reading.wait()
            if not reading.given_up:
                await subscription.read(reading.event)
            end = reading.given_up or CLEAN
        except CriError as error:
            end = StreamEnd(error.reason, str(error))
            if end.reason == OVERFLOW:
                self.report(Discarded(time.monotonic()))
        finally:
            subscription.cancel()
            self._leave(reading)
        return end

    def _leave(self, reading: "_Reading") -> None:
        """Let the next subscription take over from one that ended or is of no use."""
        if reading in self.readings:
            reading.give_up()
            was_oldest = reading is self.readings[0]
            self.readings.remove(reading)
            if was_oldest and self.readings:
                self.begin(self.readings[0])

    def begin(self, reading: "_Reading", *, proven: bool = False) -> None:
        """Take the events of that subscription, and of none requested before it any more.

        `proven`: the last one has brought its first event, too.
        """
        while self.readings[0] is not reading:
            self.readings.popleft().give_up()
        if not proven:
            self.report(StreamUnproven(time.monotonic()))
            reading.take_kept()
        reading.turn.set()


@dataclass(slots=True, eq=False)
class _Reading:
    """Takes the events of the subscription with that number.

    `kept`: its first event, if that had to wait. `lately`: marks of the events that it brought
    after a newer subscription was requested.
    """

    stream: LeasedStream
    number: int
    given_up: StreamEnd | None = None
    # Set once its events are taken, or are not wanted any more.
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    kept: bytes | None = None
    lately: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LATELY))

    @property
    def mark(self) -> bytes | None:
        """What identifies the event that had to wait."""
        return None if self.kept is None else self.kept[:_MARK_BYTES]

    def event(self, raw: bytes) -> StreamEnd | None:
        """Offer an event; returns an end once no more events are wanted."""
        if self.given_up is None:
            self._count()
            self._take(raw)
        return self.given_up

    def _take(self, raw: bytes) -> None:
        stream = self.stream
        self.given_up = stream.offer(raw, self.number)
        if len(stream.readings) > 1:
            mark = raw[:_MARK_BYTES]
            self.lately.append(mark)
            for newer in stream.readings:
                if newer.mark == mark:
                    stream.begin(newer, proven=True)
                    break

    def keep(self, raw: bytes) -> bool:
        """Keep the first event of a successor unless it is its turn, and stop reading."""
        if self.turn.is_set():
            self.event(raw)
            return True
        self._count()
        self.kept = raw
        # Only the last one shows it: events that another one brought may be ahead of it.
        if self.mark in self.stream.readings[0].lately:
            self.stream.begin(self, proven=True)
        return True

    def take_kept(self) -> None:
        """Take the event that had to wait, if there is one."""
        if self.kept is not None:
            self._take(self.kept)

    def give_up(self) -> None:
        """Take no more of its events: the subscription ends with the next one."""
        self.given_up = self.given_up or _REPLACED
        self.turn.set()

    async def wait(self) -> None:
        """Return when it is this subscription's turn, or those before bring nothing any more."""
        silent = 0
        while not self.turn.is_set() and silent < _WAITS:
            brought = self.stream.brought
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_SECONDS):
                    await self.turn.wait()
            silent = silent + 1 if brought == self.stream.brought else 0
        if not self.turn.is_set():
            self.stream.begin(self)

    def _count(self) -> None:
        self.stream.brought += 1
        if self.stream.brought == 1:
            self.stream.first()
