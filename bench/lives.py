"""Whether memory grows with the containers that have come and gone."""

from __future__ import annotations

import time
from typing import Final

from bench.processes import (
    DISCARDED,
    JUDGING,
    UNSEEN,
    exporter,
    firehose,
    wait_for,
    wait_for_subscribers,
)
from bench.rows import Row, Section

_LIVES: Final = 100_000
_QUICK_LIVES: Final = 50_000
_FULL_LIVES: Final = 1_000_000
# Enough that what is remembered of gone containers is full, and forgetting has begun.
_WARM_UP: Final = 20_000
_PODS: Final = 110
_EVENTS: Final = 4
_RATE: Final = 10_000
_PIECES: Final = 8
_STEP: Final = 100_000
_TEXT: Final = f"""
Containers that come and go between two relists, at up to {_RATE} events/s, beside {_PODS} pods of 3
containers. The slope is a line through the resident memory at {_PIECES + 1} times, after the first
{_WARM_UP} lives.
"""


def measure(*, quick: bool, full: bool = False) -> Section:
    """The slope over so many lives."""
    lives = _FULL_LIVES if full else _QUICK_LIVES if quick else _LIVES
    with firehose(_PODS) as (runtime, socket), exporter(socket, *JUDGING) as process:
        wait_for_subscribers(runtime, 1)

        def live(count: int) -> float:
            goal = process.totals()[UNSEEN] + count * _EVENTS
            runtime.ask(f"rate {_RATE} {count * _EVENTS / _RATE}")
            wait_for("all are judged", lambda: _judged(process.totals()) >= goal, every=0.5)
            # Memory is looked at once the storm has passed.
            time.sleep(1)
            return process.rss()

        piece = max(1, (lives - _WARM_UP) // _PIECES)
        points = [(0, live(_WARM_UP))]
        points += [(number * piece, live(piece)) for number in range(1, _PIECES + 1)]
        totals = process.totals()
        discarded, peak = totals[DISCARDED], process.peak_rss()
    return Section(
        "Memory over many lives",
        _TEXT,
        (
            Row(f"slope for {_STEP} lives", f"{_slope(points) * _STEP:.2f} MiB"),
            Row(f"RSS after {_WARM_UP} lives", f"{points[0][1]:.1f} MiB"),
            Row(
                f"RSS after {_WARM_UP + points[-1][0]} lives",
                f"{points[-1][1]:.1f} MiB (peak {peak:.1f} MiB)",
            ),
            Row("RSS at all those times", ", ".join(f"{mib:.1f}" for _, mib in points) + " MiB"),
            Row("events discarded", f"{discarded:.0f}"),
        ),
    )


def _judged(totals: dict[str, float]) -> float:
    return totals[UNSEEN] + totals[DISCARDED]


def _slope(points: list[tuple[int, float]]) -> float:
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread
