"""What a scrape costs."""

import asyncio
from typing import Final

from bench.firehose import CONTAINERS, loaded
from bench.processes import STARTED, Exporter, exporter
from bench.rows import Section, at_most

_SIZES: Final = (0, 1_000)
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
    """CPU of a scrape, with pods and without."""
    costs = [(pods, await _costs(pods)) for pods in _SIZES]
    rows = (
        at_most(f"CPU of a scrape, {pods} pods x {CONTAINERS}", each, _BAR, "ms")
        for pods, each in costs
    )
    return Section("Scrapes", _TEXT, tuple(rows))


async def _costs(pods: int) -> list[float]:
    """Milliseconds of CPU for one scrape, by turn."""
    async with loaded(lambda it: exporter(it, "--relist-period=1m"), pods) as (_, process):
        await process.scrape()
        await asyncio.sleep(STARTED)
        turns = [
            (
                await process.used(asyncio.sleep(_SCRAPES * _APART)),
                await process.used(_scrapes(process)),
            )
            for _ in range(_TURNS)
        ]
    return [(busy - idle) / _SCRAPES * _MILLI for idle, busy in turns]


async def _scrapes(process: Exporter) -> None:
    for _ in range(_SCRAPES):
        # Prometheus, too, asks by the clock.
        await asyncio.gather(process.scrape(), asyncio.sleep(_APART))
