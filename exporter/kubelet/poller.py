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


async def poll(read: Callable[[], Awaitable[KubeletReading]], kubelet: Kubelet) -> None:
    """Read into `kubelet`, until cancelled."""
    # Kinds of failures since the last answer.
    failing: set[str] = set()
    while True:
        began, before = time.monotonic(), kubelet.reading
        try:
            reading = await read()
        except KubeletError as error:
            kubelet.failed(Problem(error.reason), str(error))
            write = _log.debug if error.reason in failing else _log.warning
            failing.add(error.reason)
            write("kubelet not scraped", reason=error.reason, error=str(error))
        else:
            kubelet.record(reading, time.time())
            if before is None or failing or before.gate is not reading.gate:
                _log.info("the kubelet answers", status=reading.describe())
            failing.clear()
        dice = random.random()  # noqa: S311 - jitter, not a secret
        now, due = time.monotonic(), began + kubelet.period * (1 + _SPREAD * (dice - 0.5))
        # The period runs from start to start, but a reading takes at most half of the time.
        await asyncio.sleep(max(due - now, now - began))
