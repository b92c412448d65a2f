"""The shadow relist: list, decode, drain the stream's queue, pass both to the ledger, sleep.

Only one relist is in flight at a time. A failed one only adds to the error count. It is retried
sooner, with backoff up to the period, or as soon as the runtime seems to be back. If relists exceed
their share of the time, the period is stretched.
"""

import asyncio
import math
import random
import time
from collections import deque
from typing import Final

import structlog

from exporter.conditions.sentences import GARBLED, KUBELETS_TIMEOUT
from exporter.cri import limits
from exporter.cri.client import TIMED_OUT, UNAVAILABLE, RawLists
from exporter.errors import CriError, CrowdedError, OutgrownError
from exporter.loops.cgroups import Cgroups
from exporter.loops.context import LoopContext
from exporter.loops.intake import Intake
from exporter.loops.lease import ANSWER_TIMEOUT
from exporter.loops.retrying import Sign, wait_for_runtime
from exporter.model.events import Listed, ListedState, ObjectKind
from exporter.model.facts import Relist
from exporter.model.labels import Never
from exporter.node.state import words_of
from exporter.pleg.relist import Lists
from exporter.process.event_loop import first_of, in_slices
from exporter.timing import MIN_SPACING, Backoff, Pace

_log = structlog.get_logger()

_EXITED: Final = ListedState.EXITED
_CONTAINER: Final = ObjectKind.CONTAINER


class Relisting:
    """Relists every period; `soon()` requests one right away.

    `cgroups`: read beside each relist; None if they are not wanted.
    """

    def __init__(
        self, context: LoopContext, intake: Intake, cgroups: Cgroups | None = None
    ) -> None:
        self._context = context
        self._intake = intake
        self._cgroups = cgroups
        config = context.config
        context.node.relist_period = config.relist_period
        self._wanted = asyncio.Event()
        self._backoff = Backoff(cap=config.relist_period)
        self._pace = Pace(
            config.relist_period,
            config.relist_max_duty,
            config.relist_threshold,
            config.relist_timeout,
        )
        # Seconds that the next relist may take.
        self._timeout = config.relist_timeout
        self._started: float | None = None
        # Whether an answer to `Version` has already led to a relist since `Version` last failed.
        self._hurried = False
        # The lists that the ledger has taken.
        self._taken = Lists()
        # The bytes left for new entries in the lists that are being decoded.
        self._room = 0.0
        self._exited: deque[str] = deque()

    def soon(self) -> None:
        """Relist as soon as the relist in flight, if any, is done."""
        self._wanted.set()

    async def run(self) -> None:
        """Relist until cancelled."""
        await self._context.endpoint.awaited()
        while True:
            self._context.node.relist_begun = time.monotonic()
            self._wanted.clear()
            tried = time.monotonic(), self._context.endpoint.seen
            pause = await self._relist()
            if self._context.node.relist_reason:
                # A new subscription shows that it is back; after a timeout, so does an answer.
                signs: list[Sign] = [self._wanted.wait()]
                if self._context.node.relist_reason == TIMED_OUT:
                    signs.append(self._answer())
                await wait_for_runtime(self._context.endpoint, tried, pause, *signs)
            elif self._pace.stretched:
                # A slow runtime gets no early relist, not even for a new subscription.
                await asyncio.sleep(pause)
            else:
                await first_of(pause, self._wanted.wait())

    async def _answer(self) -> None:
        """Return once the runtime answers `Version` again.

        A runtime that answers `Version` all the time, and not its lists, is slow: do not hurry it.
        """
        while True:
            try:
                client = self._context.endpoint.for_lists()
                await client.version(ANSWER_TIMEOUT)
            except CriError:
                self._hurried = False
            else:
                if not self._hurried:
                    self._hurried = True
                    return
            await asyncio.sleep(MIN_SPACING)

    async def _relist(self) -> float:
        """Do one relist; returns the seconds to sleep after it."""
        started = time.monotonic()
        if self._started is not None:
            self._context.histograms.relist_interval.observe(started - self._started)
        self._started = started
        dice = random.random()  # noqa: S311 - jitter, not a secret
        unreconciled = self._context.node.discards_unreconciled
        retry = math.inf
        try:
            lists = await self._lists(started)
            completed = time.monotonic()
            self._context.answered.set()
            if self._context.node.relist_note:
                self._context.recovered.set()
            items = await self._decoded(lists)
            decoded = time.monotonic()
            if self._cgroups:
                await self._cgroups.read()
            await self._intake.wait_until_quiet()
            judging_began = time.monotonic()
            self._take(lists, items, completed)
            del lists, items
            self._context.node.discards_unreconciled -= unreconciled
            self._backoff.start_over()
            self._hurried = False
            self._context.node.relist_seconds = completed - started
            if completed - started < self._context.config.relist_timeout:
                self._timeout = self._context.config.relist_timeout
            self._pace.spent(decoded - started + time.monotonic() - judging_began)
        except CriError as error:
            now = time.monotonic()
            self._failed(error, now)
            self._pace.spent(now - started)
            absent = error.reason == UNAVAILABLE
            retry = self._backoff.delay(started, now, lasted=0.0, dice=dice, absent=absent)
            if absent:
                await self._context.endpoint.reconnect()
        self._context.node.relist_period = self._pace.period
        # A call that hangs burdens the runtime; one that reaches nothing does not.
        pause = self._pace.pause(dice)
        slow = self._pace.stretched and self._context.node.relist_reason != UNAVAILABLE
        return pause if slow else min(retry, pause)

    async def _lists(self, started: float) -> RawLists:
        try:
            client = self._context.endpoint.for_lists()
            return await client.lists(self._timeout, self._context.node.time_call)
        finally:
            self._context.histograms.relist_duration.observe(time.monotonic() - started)

    async def _decoded(self, lists: RawLists) -> list[Listed]:
        """The items of the lists. Other tasks run meanwhile: this does not change the ledger."""
        self._room = limits.room_beside(self._context.chronicle.ledger.live)
        steps = self._context.lists.steps(lists.sandboxes, lists.containers, self._admit)
        (items,) = await in_slices(steps)
        return items

    def _take(self, lists: RawLists, items: list[Listed], completed: float) -> None:
        """Judge the lists without a pause, after all events that came before."""
        node, chronicle, taken = self._context.node, self._context.chronicle, self._taken
        self._intake.feed()
        self._intake.look_at_the_clock(time.monotonic())
        if self._cgroups:
            self._cgroups.conclude(items)
        changed, gone = taken.difference(items)
        number, when = len(taken.items), (lists.requested, completed)
        stalls = chronicle.ledger.stalls
        outcome = chronicle.record(Relist(*when, number, changed, gone))
        self._context.inquiring.ask(outcome.doubts)
        if chronicle.ledger.stalls > stalls:
            _log.warning("event stream stalled: it is open, and delivers nothing in time")
        self._audit()
        self._say_garbled()
        node.listed, node.list_bytes = taken.items, lists.sizes
        node.relist_succeeded, node.relist_succeeded_wall = completed, time.time()
        if node.relist_note:
            _log.info("relist works again", listed=number)
            node.relist_note = node.relist_reason = ""

    def _say_garbled(self) -> None:
        """Log each object that is listed with a text that is not UTF-8, once."""
        garbled, known = self._context.lists.garbled, self._context.node.garbled
        for item in garbled.values():
            if item.id not in known:
                _log.warning(f"listed with {GARBLED}", id=item.id, named=words_of(item))
        self._context.node.garbled = garbled

    def _admit(self, item: Listed, size: int) -> None:
        """Refuse the lists, before they are kept, if too much in them is new."""
        if item.id not in self._taken.items:
            self._room -= limits.NEW_BYTES + size
        if self._room < 0:
            live = self._context.chronicle.ledger.live
            raise CrowdedError(f"too many new containers, besides {live} known ones")

    def _audit(self) -> None:
        """Audit one exited container per relist, in rotation, where the result can matter."""
        if Never.DELETED_BELOW not in self._context.chronicle.ledger.profile.never:
            return
        listed = self._taken.items
        # containerd logs an error for each question about a container that is gone.
        while self._exited and self._exited[0] not in listed:
            self._exited.popleft()
        if not self._exited:
            self._exited.extend(
                item.id
                for item in listed.values()
                if item.state is _EXITED and item.kind is _CONTAINER
            )
        if self._exited:
            self._context.inquiring.audit(self._exited.popleft())

    def _failed(self, error: CriError, now: float) -> None:
        node = self._context.node
        node.relist_reason = error.reason
        if error.reason == TIMED_OUT:
            # Such a node is slow for the kubelet, too: wait as long as the kubelet does.
            self._timeout = max(self._timeout, KUBELETS_TIMEOUT)
        node.relist_errors[error.reason] += 1
        write = _log.debug if node.relist_note else _log.warning
        write("relist failed", reason=error.reason, error=str(error))
        node.relist_note = str(error)
        last, threshold = node.relist_succeeded, self._context.config.relist_threshold
        if isinstance(error, CrowdedError) and last is not None and now - last > threshold:
            # Only lists that are taken make the ledger forget: nothing will free room.
            raise OutgrownError(str(error)) from None
