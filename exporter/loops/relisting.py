"""The shadow relist: list, drain the stream's queue, pass both to the ledger, sleep.

Only one relist is in flight at a time. A failed one only increments the error count, and is retried
sooner, with backoff up to the period, and as soon as the runtime seems to be back. If relists
exceed their share of the time, the period is stretched.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Final

import structlog

from exporter.cri.client import TIMED_OUT, UNAVAILABLE, RawLists
from exporter.cri.endpoint import Seen
from exporter.cri.limits import KNOWN
from exporter.errors import CriError, TooLargeError
from exporter.loops.intake import Intake, Shared
from exporter.loops.lease import ANSWER_TIMEOUT
from exporter.pleg.events import Listed, ListedState, ObjectKind, Relist, Since
from exporter.pleg.profiles import Never
from exporter.timing.backoff import MIN_SPACING, Backoff
from exporter.timing.pace import Pace
from exporter.timing.turns import taking_turns
from exporter.timing.waiting import first_of

if TYPE_CHECKING:
    from exporter.loops.cgroups import Cgroups

_log = structlog.get_logger()

_AT_ONCE: Final = 256
_EXITED: Final = ListedState.EXITED
_CONTAINER: Final = ObjectKind.CONTAINER


class Relisting:
    """Relists every period; `soon()` requests one right away.

    `cgroups`: read beside each relist; None if they are not wanted.
    """

    def __init__(self, shared: Shared, intake: Intake, cgroups: Cgroups | None = None) -> None:
        self._shared = shared
        self._intake = intake
        self._cgroups = cgroups
        config = shared.config
        shared.node.relist_period = config.relist_period
        self._wanted = asyncio.Event()
        self._backoff = Backoff(cap=config.relist_period)
        self._pace = Pace(
            config.relist_period,
            config.relist_max_duty,
            longest=config.relist_threshold - config.relist_timeout,
        )
        self._started: float | None = None
        # The reason for which the last one failed; empty if it worked.
        self._failure = ""
        # Whether an answer to `Version` has already led to a relist since the last missing one.
        self._hurried = False
        self._decoded_last: tuple[Listed, ...] = ()
        self._exited: deque[str] = deque()
        # The last list, if it showed no exited container.
        self._none_exited: tuple[Listed, ...] | None = None

    def soon(self) -> None:
        """Relist as soon as the one in flight, if any, is done."""
        self._wanted.set()

    async def run(self) -> None:
        """Relist until cancelled."""
        while True:
            self._shared.node.relist_turned = time.monotonic()
            self._wanted.clear()
            began, seen = time.monotonic(), self._shared.endpoint.seen
            pause = await self._relist()
            if self._failure:
                await self._wait_for_runtime(began, seen, pause)
            elif self._pace.stretched:
                # A slow runtime gets no early relist, not even for a new subscription.
                await asyncio.sleep(pause)
            else:
                await first_of(pause, self._wanted.wait())

    async def _wait_for_runtime(self, began: float, seen: Seen | None, pause: float) -> None:
        """Rest after a failed relist until the runtime seems to be back, or for `pause` seconds.

        That is a new socket, a new subscription, or an answer to `Version` where lists were not
        answered in time.
        """
        endpoint = self._shared.endpoint
        waiting = [endpoint.another(seen), self._wanted.wait()]
        if self._failure == TIMED_OUT:
            waiting.append(self._answer())
        await first_of(pause, *waiting)
        if not endpoint.is_another(seen):
            await asyncio.sleep(max(0.0, began + MIN_SPACING - time.monotonic()))

    async def _answer(self) -> None:
        """Return once the runtime answers `Version` again.

        One that answers it all the time, and not its lists, is slow: that is no reason to hurry.
        """
        while True:
            try:
                client = await self._shared.endpoint.shared()
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
            self._shared.histograms.relist_interval.observe(started - self._started)
        self._started = started
        dice = random.random()  # noqa: S311 - jitter, not a secret
        unreconciled = self._shared.node.discards_unreconciled
        retry = math.inf
        try:
            lists = await self._lists(started)
            completed = time.monotonic()
            self._shared.answered.set()
            if self._cgroups:
                await self._cgroups.read()
            await self._intake.wait_until_quiet()
            judging_began = time.monotonic()
            decoding = self._decoded(lists, completed)
            del lists
            await self._take(await decoding)
            self._shared.node.discards_unreconciled -= unreconciled
            self._backoff.start_over()
            self._failure, self._hurried = "", False
            self._pace.took(completed - started + time.monotonic() - judging_began)
        except CriError as error:
            self._failed(error)
            now = time.monotonic()
            self._pace.took(now - started)
            absent = error.reason == UNAVAILABLE
            retry = self._backoff.delay(started, now, lasted=0.0, dice=dice, absent=absent)
            if absent:
                await self._shared.endpoint.reconnect()
        self._shared.node.relist_period = self._pace.period
        # A call that hangs burdens the runtime; one that reaches nobody does not.
        pause = self._pace.pause(dice)
        slow = self._pace.stretched and self._failure != UNAVAILABLE
        return pause if slow else min(retry, pause)

    async def _lists(self, started: float) -> RawLists:
        timeout = self._shared.config.relist_timeout
        try:
            client = await self._shared.endpoint.shared()
            return await client.lists(timeout)
        finally:
            self._shared.histograms.relist_duration.observe(time.monotonic() - started)

    async def _decoded(self, lists: RawLists, completed: float) -> Relist:
        chronicle, decoder = self._shared.chronicle, self._shared.decoder
        requested, requested_wall_ns = lists.requested, lists.requested_wall_ns
        decoding = decoder.lists(lists.sandboxes, lists.containers)
        # On a huge node these are tens of MiB, and judging takes as much again.
        del lists
        batches = await taking_turns(decoding)
        del decoding
        await asyncio.sleep(0)
        items = tuple(chain.from_iterable(batches))
        since = Since(self._decoded_last, *decoder.changes) if decoder.changes else None
        self._decoded_last = items
        del batches
        await asyncio.sleep(0)
        if len(items) + chronicle.live > KNOWN:
            looking = (None if chronicle.knows(item.id) else item for item in items)
            fresh = len(await taking_turns(looking))
            if fresh + chronicle.live > KNOWN:
                raise TooLargeError(f"{fresh} new containers, besides {chronicle.live} known ones")
        return Relist(requested, completed, requested_wall_ns, items, since)

    async def _take(self, relist: Relist) -> None:
        node = self._shared.node
        with self._intake.held():
            await taking_turns(self._intake.feed())
            if self._cgroups:
                await taking_turns(self._cgroups.conclude(relist.items))
            # On cancellation, close the generator before the intake is released.
            with closing(self._judge(relist)) as judging:
                await taking_turns(judging)
        await asyncio.sleep(0)
        await taking_turns(self._audit(relist))
        left, node.listed = list(node.listed), relist.items
        node.relist_succeeded = relist.completed
        node.relist_succeeded_wall = time.time()
        if node.relist_note:
            _log.info("relist works again", listed=len(relist.items))
            node.relist_note = ""
        await taking_turns(_released(left))

    def _judge(self, relist: Relist) -> Generator[None, None, None]:
        chronicle = self._shared.chronicle
        stalls = chronicle.stalls
        taken = yield from chronicle.relisting(relist)
        self._shared.inquiring.ask(taken.doubts)
        if chronicle.stalls > stalls:
            _log.warning("event stream stands still: it is open, and brings nothing in time")

    def _audit(self, relist: Relist) -> Iterator[None]:
        """Audit one exited container per relist, in rotation, where the result can matter."""
        if Never.DELETED_BELOW not in self._shared.chronicle.profile.never:
            return
        if not self._exited:
            since, items = relist.since, relist.items
            if since is not None and since.items is self._none_exited:
                items = since.fresh
            for first in range(0, len(items), _AT_ONCE):
                self._exited.extend(
                    item.id
                    for item in items[first : first + _AT_ONCE]
                    if item.state is _EXITED and item.kind is _CONTAINER
                )
                yield
            self._none_exited = None if self._exited else relist.items
        if self._exited:
            self._shared.inquiring.audit(self._exited.popleft())

    def _failed(self, error: CriError) -> None:
        node = self._shared.node
        self._failure = error.reason
        node.relist_errors[error.reason] += 1
        write = _log.debug if node.relist_note else _log.warning
        write("relist failed", reason=error.reason, error=str(error))
        node.relist_note = str(error)


def _released(items: list[Listed]) -> Iterator[None]:
    """Drop some at a time: all of 100 000 at once would block the loop for 50 ms."""
    while items:
        del items[-_AT_ONCE:]
        yield
