"""What a scrape costs."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from bench.processes import Exporter, Process, exporter, loaded, wait_for_the_start
from bench.rows import Section, at_most

_SIZES: Final = (0, 1_000)
_BAR: Final = 5.0
_TURNS: Final = 3
_SECONDS: Final = 2.0
# By then a page is rendered again, even on a busy machine.
_APART: Final = 0.5
_MILLI: Final = 1000
_TEXT: Final = f"""
As Prometheus 3 asks (OpenMetrics, gzip, one connection), {_APART * _MILLI:.0f} ms apart, without
relists, less what the process takes unasked; {_TURNS} turns.
"""


def measure() -> Section:
    """CPU of a scrape, with pods and without."""
    rows = (
        at_most(f"CPU of a scrape, {pods} pods x 3", _costs(pods), _BAR, "ms") for pods in _SIZES
    )
    return Section("Scrapes", _TEXT, tuple(rows))


def _costs(pods: int) -> list[float]:
    """Milliseconds of CPU for one scrape, by turn."""
    with loaded(lambda socket: exporter(socket, "--relist-period=1m"), pods) as (_, process):
        process.scrape()
        wait_for_the_start()
        count = int(_SECONDS / _APART)
        costs = []
        for _ in range(_TURNS):
            # This is what is measured.
            idle = _cpu(process, partial(time.sleep, _SECONDS))
            costs.append((_cpu(process, partial(_scrapes, process, count)) - idle) / count * _MILLI)
        return costs


def _cpu(process: Process, work: Callable[[], object]) -> float:
    before = process.cpu()
    work()
    return process.cpu() - before


def _scrapes(process: Exporter, count: int) -> None:
    began = time.monotonic()
    for number in range(1, count + 1):
        process.scrape()
        # Prometheus, too, asks by the clock.
        time.sleep(max(0.0, began + number * _APART - time.monotonic()))
