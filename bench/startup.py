"""How soon the first scrape succeeds."""

from __future__ import annotations

import statistics
import time
from typing import Final

from bench.processes import as_the_image_runs_it, exporter, firehose
from bench.rows import Row, Section, at_most

_PODS: Final = 110
_BAR: Final = 0.35
_STARTS: Final = 9
_QUICK_STARTS: Final = 3
_TEXT: Final = f"""
From the start of the process, as the image runs it (-OO), to its first answered scrape, beside a
runtime with {_PODS} pods; a first start, which fills the disk's caches, does not count. What others
take of this machine is in the time, and not in the CPU.
"""


def measure(*, quick: bool) -> Section:
    """Median and worst of several starts."""
    starts, cpus = [], []
    with as_the_image_runs_it(), firehose(_PODS) as (_, socket):
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
            Row("fastest, slowest", f"{min(starts):.2f} s, {max(starts):.2f} s"),
            at_most("CPU for that, median", statistics.median(cpus), _BAR, "s"),
            Row("CPU for that, least, most", f"{min(cpus):.2f} s, {max(cpus):.2f} s"),
        ),
    )
