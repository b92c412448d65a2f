"""Polls the kubelet, and notifies waiting tasks when its state changes.

One reading is in flight at a time. A failure is logged once per kind; at first it changes nothing
else, except that the last reading ages. Blind spot: a kubelet restart between two readings is only
seen by the next one.
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
# Limits the log rate: alternating failures would each count as new.
_LINES: Final = 5.0
_LINES_PER_SECOND: Final = 1 / 60


class Answering(Protocol):
    """A kubelet that can be polled."""

    async def read(self) -> KubeletReading:
        """Its current state; raises KubeletError with the reason on failure."""


class Asking:
    """Polls the kubelet's metrics."""

    def __init__(self, client: Answering, kubelet: Kubelet, sharing: Sharing) -> None:
        self._client = client
        self._kubelet = kubelet
        self._sharing = sharing
        self._failing: Problem | None = None
        self._allowance = Bucket(_LINES_PER_SECOND, _LINES)

    async def run(self) -> None:
        """Poll until cancelled."""
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
        # The period runs from start to start, but a reading never takes more than half of the time.
        pause = max(began + pause - now, now - began)
        try:
            async with asyncio.timeout(pause):
                await self._sharing.watched.wait()
        except TimeoutError:
            pass
