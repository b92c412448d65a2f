"""Asks the kubelet, and tells those who wait for a change of what is known.

One reading is in flight at a time. A failed one is told in the log once for each kind of failure,
and changes nothing else at first: what is known grows old. Blind spot: a kubelet that is restarted
between two readings is seen by the next one only.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final, Protocol

import structlog

from exporter.errors import KubeletError
from exporter.kubelet.sharing import Sharing
from exporter.kubelet.state import Kubelet, KubeletReading, Problem
from exporter.timing.bucket import Bucket

_log = structlog.get_logger()

_SPREAD: Final = 0.2
# Failures that take turns would each be news.
_LINES: Final = 5.0
_LINES_PER_SECOND: Final = 1 / 60


class Answering(Protocol):
    """A kubelet that can be asked."""

    async def read(self) -> KubeletReading:
        """What it says now; KubeletError says why not."""


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
            self._sharing.notify()
            await self._rest(began)

    async def _ask(self) -> None:
        try:
            said = await self._client.read()
        except KubeletError as error:
            self._failed(Problem(error.reason), str(error))
            return
        before = self._kubelet.said
        self._kubelet.record(said, time.time())
        if before is None or self._failing or before.gate is not said.gate:
            _log.info("the kubelet answers", status=said.describe())
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
        # From beginning to beginning; but never asked for more than half of the time.
        pause = max(began + pause - now, now - began)
        try:
            async with asyncio.timeout(pause):
                await self._sharing.watched.wait()
        except TimeoutError:
            pass
