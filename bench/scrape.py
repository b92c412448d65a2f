"""What a scrape costs, and a storm of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from bench.processes import Exporter, exporter, firehose, wait_for_subscribers
from bench.rows import Row, Section, at_most

_BAR: Final = 5.0
_SIZES: Final = (0, 1_000)
_SECONDS: Final = 15
_QUICK_SECONDS: Final = 5
# Each page is rendered for this scrape alone: one is kept for twenty times as long as it took.
_APART: Final = 0.2
_STORM: Final = 0.02
_MILLI: Final = 1000
_TEXT: Final = """
Asked for as Prometheus 3 does (OpenMetrics, gzip, one connection), no relist in between. CPU of the
process during scrapes {apart:.0f} ms apart, less what it takes in the same time unasked, divided by
their number. The storm: {storm:.0f} scrapes a second, answered for the most part with a page that
is rendered already.
"""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Milliseconds of CPU for a scrape and until it was there; share of a core in the storm."""

    cpu: float
    wall: float
    storm: float


def measure(*, quick: bool) -> Section:
    """CPU and duration of a scrape, with pods and without."""
    seconds = _QUICK_SECONDS if quick else _SECONDS
    costs = [_cost(pods, seconds) for pods in _SIZES]
    rows = []
    for pods, cost in zip(_SIZES, costs, strict=True):
        what = f"CPU of a scrape, {pods} pods x 3 (in {cost.wall:.1f} ms)"
        rows.append(at_most(what, cost.cpu, _BAR, "ms"))
        rows.append(Row(f"share of a core in the storm, {pods} pods x 3", f"{cost.storm:.1%}"))
    growth = costs[-1].cpu - costs[0].cpu
    rows.append(Row(f"growth by {_SIZES[-1]} pods", f"{growth:+.2f} ms"))
    text = _TEXT.format(apart=_APART * _MILLI, storm=1 / _STORM)
    return Section("A scrape", text, tuple(rows))


def _cost(pods: int, seconds: int) -> _Cost:
    with (
        firehose(pods) as (runtime, socket),
        exporter(socket, "--relist-period=1m") as process,
    ):
        wait_for_subscribers(runtime, 1)
        process.scrape()
        # What starting and the baseline cost is not to be measured.
        time.sleep(2)
        idle = process.cpu()
        # Unasked: this is what is measured.
        time.sleep(seconds)
        idle = process.cpu() - idle
        cpu, wall, count = _scrapes(process, seconds, _APART)
        storm, *_ = _scrapes(process, seconds, _STORM)
    each = (cpu - idle) / count
    return _Cost(each * _MILLI, wall / count * _MILLI, storm / seconds)


def _scrapes(process: Exporter, seconds: int, apart: float) -> tuple[float, float, int]:
    """CPU, and time spent waiting for answers, of how many."""
    count = int(seconds / apart)
    cpu, began, waited = process.cpu(), time.monotonic(), 0.0
    for number in range(count):
        # Prometheus, too, asks by the clock.
        time.sleep(max(0.0, began + number * apart - time.monotonic()))
        asked = time.monotonic()
        process.scrape()
        waited += time.monotonic() - asked
    return process.cpu() - cpu, waited, count
