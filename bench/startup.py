"""How soon the first scrape succeeds."""

from __future__ import annotations

import time
from typing import Final

from bench.processes import as_the_image_runs_it, exporter, firehose
from bench.rows import Section, at_most

_PODS: Final = 110
_BAR: Final = 0.35
_WHY: Final = "it is CPU but for a tenth of a second: the libraries' imports, and what others take"
_STARTS: Final = 9
_QUICK_STARTS: Final = 3
_TEXT: Final = f"""
From the start of the process, as the image runs it (-OO), to its first answered scrape, beside a
runtime with {_PODS} pods.
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
            at_most(f"until the first scrape, {len(starts)} starts", starts, _BAR, "s").because(
                _WHY
            ),
            at_most("CPU for that", cpus, _BAR, "s"),
        ),
    )
