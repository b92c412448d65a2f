"""What it costs while nothing happens."""

import asyncio
from typing import Final

from bench.firehose import CONTAINERS, loaded
from bench.processes import STARTED, exporter
from bench.rows import Section, at_most

_PODS: Final = 250
_BAR: Final = 0.25
# Each has one relist in it, or two.
_WINDOW: Final = 10
_WINDOWS: Final = 6
_TEXT: Final = f"""
{_PODS} pods of {CONTAINERS} containers, no event and no scrape, relisted every 10 s (the default).
"""


async def measure() -> Section:
    """CPU over a while."""
    async with loaded(exporter, _PODS) as (runtime, process):
        await asyncio.sleep(2 * STARTED)
        runtime.relists.clear()
        used = [await process.used(asyncio.sleep(_WINDOW)) for _ in range(_WINDOWS)]
    what = f"share of one core, {_WINDOWS} times {_WINDOW} s, {len(runtime.relists)} relists"
    row = at_most(what, [each / _WINDOW * 100 for each in used], _BAR, "%")
    cost = f"**An idle node** with {_PODS} pods: {row.measured} of a core."
    return Section("Idle", _TEXT, (row,), (cost,))
