"""What a scrape costs."""

import asyncio
from typing import Final

from bench.firehose import CONTAINERS, loaded
from bench.processes import STARTED, Exporter, exporter
from bench.rows import Section, at_most

_PODS: Final = 1_000
_BAR: Final = 5.0
_TURNS: Final = 3
_SCRAPES: Final = 4
# By then a page is rendered again, even on a busy machine.
_APART: Final = 0.5
_MILLI: Final = 1000
_TEXT: Final = f"""
As Prometheus 3 asks (OpenMetrics, gzip, one connection), {_APART * _MILLI:.0f} ms apart, without
relists, less what the process takes unasked; {_TURNS} turns.
"""


async def measure() -> Section:
    """CPU of a scrape."""
    async with loaded(lambda it: exporter(it, "--relist-period=1m"), _PODS) as (_, process):
        await process.scrape()
        await asyncio.sleep(STARTED)
        turns = [
            (
                await process.used(asyncio.sleep(_SCRAPES * _APART)),
                await process.used(_scrapes(process)),
            )
            for _ in range(_TURNS)
        ]
    costs = [(busy - idle) / _SCRAPES * _MILLI for idle, busy in turns]
    row = at_most(f"CPU of a scrape, {_PODS} pods x {CONTAINERS}", costs, _BAR, "ms")
    return Section("Scrapes", _TEXT, (row,))


async def _scrapes(process: Exporter) -> None:
    for _ in range(_SCRAPES):
        # Prometheus, too, asks by the clock.
        await asyncio.gather(process.scrape(), asyncio.sleep(_APART))
