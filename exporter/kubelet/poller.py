"""Polls the kubelet.

One reading is in flight at a time. A failure is logged once per kind; it changes nothing else,
except that the last reading ages. Blind spot: a kubelet restart between two readings is only seen
by the next one.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from exporter.errors import KubeletError
from exporter.kubelet.state import Kubelet, KubeletReading, Problem
from exporter.timing.bucket import Bucket

_log = structlog.get_logger()

_SPREAD: Final = 0.2
# Limits the log rate: alternating failures would each count as new.
_LINES: Final = 5.0
_LINES_PER_SECOND: Final = 1 / 60


class KubeletPoller:
    """Polls the kubelet by `read`; `compare` gets each reading."""

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

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            began = time.monotonic()
            await self._poll()
            await self._rest(began)

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
        pause = self._kubelet.period * (1 + _SPREAD * (dice - 0.5))
        # The period runs from start to start, but a reading never takes more than half of the time.
        await asyncio.sleep(max(began + pause - now, now - began))
