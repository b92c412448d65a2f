"""Measures how late the event loop wakes up."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from exporter.collector import Histograms

_EVERY: Final = 1.0


async def watch_lag(histograms: Histograms) -> None:
    """Sleep, and observe the delay beyond the requested time, until cancelled."""
    while True:
        due = time.monotonic() + _EVERY
        await asyncio.sleep(_EVERY)
        histograms.loop_lag.observe(max(0.0, time.monotonic() - due))
