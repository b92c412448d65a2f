"""What a scrape costs."""

from __future__ import annotations

import time
from typing import Final

from bench.processes import exporter, firehose, wait_for_subscribers
from bench.rows import Row, Section, at_most

_BAR: Final = 5.0
_SIZES: Final = (0, 1_000)
_SCRAPES: Final = 200
_QUICK_SCRAPES: Final = 50
_MILLI: Final = 1000
_TEXT: Final = """
Scrapes one after another, asked for as Prometheus does (OpenMetrics, gzip), each on a connection
of its own. CPU of the whole process divided by their number; no relist falls in between.
"""


def measure(*, quick: bool) -> Section:
    """CPU and duration of a scrape, with pods and without."""
    count = _QUICK_SCRAPES if quick else _SCRAPES
    costs = [_cost(pods, count) for pods in _SIZES]
    rows = [
        at_most(f"CPU of a scrape, {pods} pods x 3 (in {wall:.1f} ms)", cpu, _BAR, "ms")
        for pods, (cpu, wall) in zip(_SIZES, costs, strict=True)
    ]
    growth = costs[-1][0] - costs[0][0]
    rows.append(Row(f"growth by {_SIZES[-1]} pods", f"{growth:+.2f} ms"))
    return Section("A scrape", _TEXT, tuple(rows))


def _cost(pods: int, count: int) -> tuple[float, float]:
    """Milliseconds of CPU, and of waiting."""
    with firehose(pods) as (runtime, socket), exporter(socket, "--relist-period=1m") as process:
        wait_for_subscribers(runtime, 1)
        # What starting and the baseline cost is not to be measured.
        time.sleep(2)
        for _ in range(5):
            process.scrape()
        cpu, began = process.cpu(), time.monotonic()
        for _ in range(count):
            process.scrape()
        return (
            (process.cpu() - cpu) / count * _MILLI,
            (time.monotonic() - began) / count * _MILLI,
        )
