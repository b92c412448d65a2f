"""Asks the kubelet, and tells those who wait for a change of what is known.

One reading is in flight at a time. A failed one is told in the log once for each kind of failure,
and changes nothing else at first: what is known grows old. Blind spot: a kubelet that is restarted
between two readings is seen by the next one only.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from typing import Any, Final, Protocol

import structlog

from exporter.bucket import Bucket
from exporter.errors import KubeletError
from exporter.loops.lease import StreamEnd
from exporter.pleg.kubelet import Kubelet, Problem, Said

_log = structlog.get_logger()

_SPREAD: Final = 0.2
# Failures that take turns would each be news.
_LINES: Final = 5.0
_LINES_PER_SECOND: Final = 1 / 60


class Answering(Protocol):
    """A kubelet that can be asked."""

    async def read(self) -> Said:
        """What it says now; KubeletError says why not."""


# The reason of a subscription's end.
GAVE_WAY: Final = "kubelet"


class Sharing:
    """Whether a stream that only one may have is left to us, and the moments at which that changes.

    Without a kubelet to ask it never is.
    """

    def __init__(self, kubelet: Kubelet | None) -> None:
        self._kubelet = kubelet
        self._turned = asyncio.Event()
        self.watched = asyncio.Event()

    def watch(self, wanted: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Whether anything depends on it: where it does, the kubelet is asked more often."""
        if self._kubelet is None or self._kubelet.watched is wanted:
            return
        self._kubelet.watched = wanted
        if wanted:
            self.watched.set()

    @property
    def possible(self) -> bool:
        """Whether there is a kubelet to ask."""
        return self._kubelet is not None

    def objection(self) -> str:
        """Why the stream is not ours now; empty if it is."""
        if self._kubelet is None or not self._kubelet.watched:
            return "no kubelet is asked"
        return self._kubelet.objection(time.monotonic())

    def turn(self) -> None:
        """Something was learnt: those who wait look again."""
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def first_word(self, within: float) -> None:
        """Wait until the kubelet was asked for the first time, at most for so many seconds."""
        due = time.monotonic() + within
        while self._kubelet and not self._kubelet.asked and time.monotonic() < due:
            await self._wait_until(due)

    async def granted(self, within: float) -> None:
        """Wait until the stream is ours, at most for so many seconds."""
        due = time.monotonic() + within
        while self.objection() and time.monotonic() < due:
            await self._wait_until(due)

    async def while_granted(self, holding: Coroutine[Any, Any, StreamEnd]) -> StreamEnd:
        """Hold a subscription until it ends by itself, or has to be left."""
        task = asyncio.create_task(holding)
        leaving = asyncio.create_task(self._withdrawn())
        try:
            await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            # The kubelet may want the events.
            return StreamEnd(GAVE_WAY, leaving.result())
        finally:
            task.cancel()
            leaving.cancel()
            await asyncio.gather(task, leaving, return_exceptions=True)

    async def _withdrawn(self) -> str:
        while not (objection := self.objection()):
            # Not even a silent kubelet is trusted for longer.
            await self._wait_until(self._kubelet.trusted_until() if self._kubelet else 0.0)
        return objection

    async def _wait_until(self, due: float) -> None:
        try:
            # A clock's tick later, so that it is past, not just reached.
            async with asyncio.timeout(max(0.0, due - time.monotonic()) + 0.001):
                await self._turned.wait()
        except TimeoutError:
            pass


class Asking:
    """Reads the kubelet's metrics every now and then."""

    def __init__(self, client: Answering, kubelet: Kubelet, sharing: Sharing) -> None:
        self._client = client
        self._kubelet = kubelet
        self._sharing = sharing
        self._failing: Problem | None = None
        self._allowance = Bucket(_LINES_PER_SECOND, _LINES)

    async def run(self) -> None:
        """Ask, for ever."""
        while True:
            began = time.monotonic()
            self._sharing.watched.clear()
            await self._ask()
            self._sharing.turn()
            await self._rest(began)

    async def _ask(self) -> None:
        try:
            said = await self._client.read()
        except KubeletError as error:
            self._failed(Problem(error.reason), str(error))
            return
        before = self._kubelet.said
        self._kubelet.learnt(said, time.time())
        if before is None or self._failing or before.gate is not said.gate:
            _log.info("the kubelet answers", says=said.words)
        self._failing = None

    def _failed(self, problem: Problem, why: str) -> None:
        self._kubelet.failed(problem, why)
        news = problem is not self._failing and self._allowance.take(time.monotonic())
        write = _log.warning if news else _log.debug
        write("the kubelet was not read", reason=problem.value, why=why)
        self._failing = problem

    async def _rest(self, began: float) -> None:
        dice = random.random()  # noqa: S311 - jitter, not a secret
        now = time.monotonic()
        pause = self._kubelet.pause() * (1 + _SPREAD * (dice - 0.5))
        # From beginning to beginning; but never asked for more than half of the time.
        pause = max(began + pause - now, now - began)
        try:
            async with asyncio.timeout(pause):
                await self._sharing.watched.wait()
        except TimeoutError:
            pass
