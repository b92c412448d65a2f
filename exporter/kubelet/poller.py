"""Polls the kubelet.

One reading is in flight at a time. Each kind of failure is logged once until an answer comes; it
changes nothing else, except that the last reading ages. Blind spot: a kubelet restart between two
readings is only seen by the next one.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from exporter.errors import KubeletError
from exporter.kubelet.state import Kubelet, KubeletReading
from exporter.model.labels import Problem

_log = structlog.get_logger()

_SPREAD: Final = 0.2


class KubeletPoller:
    """Polls the kubelet by `read`."""

    def __init__(self, read: Callable[[], Awaitable[KubeletReading]], kubelet: Kubelet) -> None:
        self._read = read
        self._kubelet = kubelet
        # Kinds of failures since the last answer.
        self._failing: set[Problem] = set()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            began = time.monotonic()
            await self._poll()
            dice = random.random()  # noqa: S311 - jitter, not a secret
            due = began + self._kubelet.period * (1 + _SPREAD * (dice - 0.5))
            now = time.monotonic()
            # The period runs from start to start, but a reading takes at most half of the time.
            await asyncio.sleep(max(due - now, now - began))

    async def _poll(self) -> None:
        before = self._kubelet.reading
        try:
            reading = await self._read()
        except KubeletError as error:
            problem = Problem(error.reason)
            self._kubelet.failed(problem, str(error))
            write = _log.debug if problem in self._failing else _log.warning
            self._failing.add(problem)
            write("kubelet not scraped", reason=error.reason, error=str(error))
            return
        self._kubelet.record(reading, time.time())
        if before is None or self._failing or before.gate is not reading.gate:
            _log.info("the kubelet answers", status=reading.describe())
        self._failing.clear()
