"""How late the event loop wakes up: this process's own health."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from exporter.collector import Histograms

_EVERY: Final = 1.0


async def watch_lag(histograms: Histograms) -> None:
    """Sleep, and observe by how much longer it took than asked for; for ever."""
    while True:
        due = time.monotonic() + _EVERY
        await asyncio.sleep(_EVERY)
        histograms.loop_lag.observe(max(0.0, time.monotonic() - due))
