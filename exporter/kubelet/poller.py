"""Polls the kubelet, and decides whether the exporter may use an exclusive stream.

One reading is in flight at a time. A failure is logged once per kind; at first it changes nothing
else, except that the last reading ages. Blind spot: a kubelet restart between two readings is only
seen by the next one.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import structlog

from exporter.cri.client import StreamEnd
from exporter.errors import KubeletError
from exporter.kubelet.state import GAVE_WAY, Kubelet, KubeletReading, Problem
from exporter.timing.bucket import Bucket

_log = structlog.get_logger()

_SPREAD: Final = 0.2
# Limits the log rate: alternating failures would each count as new.
_LINES: Final = 5.0
_LINES_PER_SECOND: Final = 1 / 60


class KubeletPoller:
    """Polls the kubelet by `read`, and wakes waiting tasks when its state has changed.

    `compare` gets each reading.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[KubeletReading]],
        kubelet: Kubelet,
        compare: Callable[[KubeletReading], None],
    ) -> None:
        self._read = read
        self._kubelet = kubelet
        self._compare = compare
        self._failing: Problem | None = None
        self._allowance = Bucket(_LINES_PER_SECOND, _LINES)
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            began = time.monotonic()
            self._hurry.clear()
            await self._poll()
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            await self._rest(began)

    def watch(self, wanted: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Whether a stream depends on the readings; if so, they are more frequent."""
        if wanted and not self._kubelet.watched:
            self._hurry.set()
        self._kubelet.watched = wanted

    def objection(self) -> str:
        """Why the exporter may not use the stream now; empty if it may."""
        return self._kubelet.objection(time.monotonic())

    async def wait_for_first_reading(self, within: float) -> None:
        """Wait until the kubelet was polled for the first time, at most `within` seconds."""
        due = time.monotonic() + within
        while not self._kubelet.polled and time.monotonic() < due:
            await self._wait_until(due)

    async def wait_until_granted(self, within: float) -> None:
        """Wait until the stream is granted, at most `within` seconds."""
        due = time.monotonic() + within
        while self.objection() and time.monotonic() < due:
            await self._wait_until(due)

    async def while_granted(self, holding: Coroutine[Any, Any, StreamEnd]) -> StreamEnd:
        """Hold a subscription until it ends or must be dropped."""
        task = asyncio.create_task(holding)
        leaving = asyncio.create_task(self._withdrawn())
        try:
            await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            # The kubelet may need the events.
            return StreamEnd(GAVE_WAY, leaving.result())
        finally:
            task.cancel()
            leaving.cancel()
            await asyncio.gather(task, leaving, return_exceptions=True)

    async def _withdrawn(self) -> str:
        while not (objection := self.objection()):
            # The grant expires even if the kubelet stays silent.
            await self._wait_until(self._kubelet.trusted_until())
        return objection

    async def _wait_until(self, due: float) -> None:
        # One clock tick more, so that the time is past, not just reached.
        await _wait(self._changed, max(0.0, due - time.monotonic()) + 0.001)

    async def _poll(self) -> None:
        try:
            reading = await self._read()
        except KubeletError as error:
            self._failed(Problem(error.reason), str(error))
            return
        before = self._kubelet.reading
        self._kubelet.record(reading, time.time())
        self._compare(reading)
        if before is None or self._failing or before.gate is not reading.gate:
            _log.info("the kubelet answers", status=reading.describe())
        self._failing = None

    def _failed(self, problem: Problem, why: str) -> None:
        self._kubelet.failed(problem, why)
        news = problem is not self._failing and self._allowance.take(time.monotonic())
        write = _log.warning if news else _log.debug
        write("the kubelet was not read", reason=problem.value, error=why)
        self._failing = problem

    async def _rest(self, began: float) -> None:
        dice = random.random()  # noqa: S311 - jitter, not a secret
        now = time.monotonic()
        pause = self._kubelet.pause() * (1 + _SPREAD * (dice - 0.5))
        # The period runs from start to start, but a reading never takes more than half of the time.
        await _wait(self._hurry, max(began + pause - now, now - began))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
