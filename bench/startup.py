"""How soon the first scrape succeeds."""

from __future__ import annotations

import statistics
import time
from typing import Final

from bench.processes import exporter, firehose
from bench.rows import Row, Section, at_most

_PODS: Final = 110
_BAR: Final = 1.0
_STARTS: Final = 9
_QUICK_STARTS: Final = 3
_TEXT: Final = f"""
From the start of the process to its first answered scrape, beside a runtime with {_PODS} pods; a
first start, which fills the disk's caches, does not count.
"""


def measure(*, quick: bool) -> Section:
    """Median and worst of several starts."""
    starts, cpus = [], []
    with firehose(_PODS) as (_, socket):
        for _ in range(1 + (_QUICK_STARTS if quick else _STARTS)):
            began = time.monotonic()
            with exporter(socket) as process:
                process.scrape()
                starts.append(time.monotonic() - began)
                cpus.append(process.cpu())
    del starts[0], cpus[0]
    return Section(
        "Start",
        _TEXT,
        (
            at_most(f"median of {len(starts)}", statistics.median(starts), _BAR, "s"),
            Row("worst", f"{max(starts):.2f} s"),
            Row("CPU for that, median", f"{statistics.median(cpus):.2f} s"),
        ),
    )
