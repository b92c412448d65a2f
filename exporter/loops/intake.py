"""A bounded queue between the socket and the ledger that never applies backpressure.

Invariant: `offer` never waits and never parses: decoding many events together, while code and data
are cached, costs a third as much per event as decoding them one by one. Events that do not fit are
dropped, counted and reported to the ledger. If the queue stays full for seconds, the subscription
is dropped so that it does not apply backpressure to the runtime.
"""

import asyncio
import time
from collections import deque
from typing import Final

import structlog

from exporter.cri.client import OVERFLOW, StreamEnd
from exporter.cri.limits import LEAST_EVENT_BYTES, TINY_EVENTS
from exporter.loops.context import LoopContext
from exporter.model.facts import ClockSet, Discarded, Inquired, Unread
from exporter.pleg.clock import STEP

_log = structlog.get_logger()

# Less than the channel's window: large events must not take that much memory twice.
QUEUE_BYTES: Final = 16 * 1024 * 1024
_HALF_BYTES: Final = QUEUE_BYTES // 2
_BATCH: Final = 64
# A batch of large events ends earlier.
_SLICE_SECONDS: Final = 0.005
_GATHER_SECONDS: Final = 0.05
_SILENCE_SECONDS: Final = 0.005
_MOST_SILENCES: Final = 50
_SECOND_NS: Final = 1e9
# Stop reading after this many seconds of discards in which the queue was never empty.
_DROWNED_SECONDS: Final = 5.0
# Readings of the two clocks, and seconds within which they are close to each other.
_TRIES: Final = 5
_CLOSE: Final = STEP / 10


# Events arrive faster than this process can take them; reading on would only slow the runtime.
_DROWNED: Final = StreamEnd(OVERFLOW, f"the queue could not be drained for {_DROWNED_SECONDS:g} s")
# This is no event stream, and gRPC's window full of such messages would take too much memory.
_TINY: Final = StreamEnd("internal", f"{TINY_EVENTS} events had no id and no time")


class Clocks:
    """Notices that the wall clock was set: it has moved against the monotonic one.

    `offset`: by how many seconds the wall clock is ahead of the monotonic one, as last known.
    Slewing moves both alike, and so does a smeared leap second. A step comes from an administrator,
    a time service, an inserted leap second, or a sleep of the machine, which stops the monotonic
    clock. A process that is stopped between two readings makes no step: only close ones count.
    """

    def __init__(self) -> None:
        self.offset = time.time() - time.monotonic()
        self.look()

    def look(self) -> float:
        """Seconds by which the clock was set since the last look, negative if back; else 0."""
        for _ in range(_TRIES):
            before, wall, after = time.monotonic(), time.time(), time.monotonic()
            if after - before < _CLOSE:
                return self.see(wall - after)
        return 0.0

    def see(self, offset: float) -> float:
        """The same, from the `offset` of two readings that were close to each other."""
        step = offset - self.offset
        if abs(step) < STEP:
            return 0.0
        self.offset = offset
        return step


class Intake:
    """Takes raw events from a subscription and feeds them to the ledger in order."""

    def __init__(self, context: LoopContext) -> None:
        self._context = context
        self._clocks = Clocks()
        self._capacity = context.config.event_queue_capacity
        self._half = self._capacity // 2
        # Raw event, arrival time (monotonic seconds, wall nanoseconds) and subscription number.
        self._queue: deque[tuple[bytes, float, int, int]] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self._taken = 0
        self._tiny = 0
        self._drowning_since: float | None = None

    @property
    def fill(self) -> tuple[int, int]:
        """Length and capacity of the queue."""
        return len(self._queue), self._capacity

    def offer(self, raw: bytes, stream: int) -> StreamEnd | None:
        """Queue one event from the socket; drop and count it if there is no room.

        Returns the end of the subscription if the queue has been overrun for too long.
        """
        now, wall_ns = time.monotonic(), time.time_ns()
        self._taken += 1
        self._context.node.stream_last_seen_wall = wall_ns / _SECOND_NS
        queue, size = self._queue, len(raw)
        if size < LEAST_EVENT_BYTES:
            self._tiny += 1
            if self._tiny > TINY_EVENTS:
                self._tiny = 0
                return _TINY
        held = len(queue)
        if held >= self._capacity or (held and self._bytes + size > QUEUE_BYTES):
            return self._discard(now)
        queue.append((raw, now, wall_ns, stream))
        self._bytes += size
        if held == self._half or self._bytes > _HALF_BYTES:
            self._some.set()
        elif not held and not self._some.is_set():
            # Wake up once for many events; each one's arrival time is already recorded.
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._some.set)
        return None

    async def wait_until_quiet(self) -> None:
        """Wait, up to a limit, until the stream has been silent for a moment.

        Events for what a relist shows may still be in transit, above all after this process was
        stalled; they must be read before the relist is judged.
        """
        for _ in range(_MOST_SILENCES):
            taken = self._taken
            await asyncio.sleep(_SILENCE_SECONDS)
            if self._taken == taken:
                return

    def feed(self) -> None:
        """Feed all queued events to the ledger, which needs them before a relist."""
        while self._queue:
            self._feed_one()

    def look_at_the_clock(self, now: float) -> None:
        """Report to the ledger if the wall clock was set."""
        seconds = self._clocks.look()
        if seconds:
            _log.warning("the wall clock was set", seconds=f"{seconds:+.3f}")
            self._context.chronicle.record(ClockSet(now, seconds))

    async def run(self) -> None:
        """Feed events to the ledger as they arrive, yielding to other tasks between batches."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._queue:
                due = time.monotonic() + _SLICE_SECONDS
                for _ in range(min(_BATCH, len(self._queue))):
                    self._feed_one()
                    if time.monotonic() > due:
                        break
                if self._queue:
                    await asyncio.sleep(0)

    def _discard(self, now: float) -> StreamEnd | None:
        self._context.node.count_discard()
        self._context.chronicle.record(Discarded(now))
        if self._drowning_since is None:
            self._drowning_since = now
        elif now - self._drowning_since > _DROWNED_SECONDS:
            self._drowning_since = None
            return _DROWNED
        return None

    def _feed_one(self) -> None:
        raw, now, wall_ns, stream = self._queue.popleft()
        self._bytes -= len(raw)
        if not self._queue:
            self._drowning_since = None
        context = self._context
        if abs(wall_ns / _SECOND_NS - now - self._clocks.offset) > STEP:
            self.look_at_the_clock(now)
        decoded = context.decoder.event(raw, now, wall_ns, stream)
        if decoded is None:
            return
        if isinstance(decoded, Discarded | Unread):
            context.chronicle.record(decoded)
            return
        event, exited = decoded
        for container_id, answer in exited:
            entry = context.chronicle.ledger.known(container_id)
            if entry is not None and entry.ran is None:
                context.chronicle.record(Inquired(now, container_id, answer))
        outcome = context.chronicle.record(event)
        if outcome.doubts:
            context.inquiring.ask(outcome.doubts)
