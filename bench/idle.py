"""What it costs while nothing happens."""

import statistics
import time
from typing import Final

from bench.processes import Process, exporter, loaded
from bench.rows import Row, Section, Verdict

_PODS: Final = 250
_BAR: Final = 0.25
# Each has one relist in it, or two.
_WINDOW: Final = 10
_WINDOWS: Final = 6
_STARTED: Final = 4.0
_TEXT: Final = f"""
{_PODS} pods of 3 containers and no event, relisted every 10 s (the default), not scraped.
"""


def measure() -> Section:
    """CPU over a while."""
    with loaded(exporter, _PODS) as (runtime, process):
        # What starting costs is not idling.
        time.sleep(_STARTED)
        runtime.ask("relists")
        shares = [_share(process) for _ in range(_WINDOWS)]
        relists = len(runtime.ask("relists")["relists"])
    mean = statistics.mean(shares)
    row = Row(
        f"share of one core, {_WINDOWS} times {_WINDOW} s, {relists} relists",
        f"{mean:.2f} % ({min(shares):.2f} to {max(shares):.2f})",
        f"at most {_BAR:g} %",
        Verdict.MET if mean <= _BAR else Verdict.NOT_MET,
    )
    cost = f"**An idle node** with {_PODS} pods: {mean:.2f} % of a core."
    return Section("Idle", _TEXT, (row,), (cost,))


def _share(process: Process) -> float:
    """Percent of a core, over one window."""
    before, began = process.cpu(), time.monotonic()
    # This is what is measured.
    time.sleep(_WINDOW)
    return (process.cpu() - before) / (time.monotonic() - began) * 100
