"""`python -m bench.soak`: a long watch of a troubled node, whose cost must stay flat.

Pods come and go on the simulated runtime, which loses events, ends its streams and restarts; leases
are short. After a warm-up, neither memory nor open files may grow from one half to the other.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.processes import Exporter, Process, exporter, wait_for

_RUNTIME: Final = (
    *("--pods=110", "--containers-per-pod=3", "--churn=20"),
    *("--drop=1%", "--duplicate=1%", "--failed-starts=1%"),
    *("--disconnect-every=17s", "--restart-every=61s"),
)
_FLAGS: Final = ("--relist-period=1s", "--missed-grace=1s", "--stream-lease=5s")
# What is remembered of gone containers grows for ten minutes, or until it is full.
_WARM_UP: Final = 0.5
_EVERY: Final = 1.0
_GROWTH: Final = 1.03
_FILES: Final = 2
_FEWEST: Final = 10

_Sample = tuple[float, int]


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory(prefix="shadow-pleg-soak-") as directory:
        socket = Path(directory, "cri.sock")
        with Process("exporter", "simulate", f"--socket=unix://{socket}", *_RUNTIME):
            wait_for("the runtime listens", socket.exists)
            with exporter(socket, *_FLAGS) as process:
                samples = _watch(process, minutes * 60)
                totals = process.totals()
    for name in ("lifecycle_events", "stream_connections", "unseen_events", "relist_errors"):
        print(f"shadow_pleg_{name}_total {totals[f'shadow_pleg_{name}_total']:.0f}")
    return 0 if _is_flat(samples[int(len(samples) * _WARM_UP) :]) else 1


def _watch(process: Exporter, seconds: float) -> list[_Sample]:
    samples = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        process.require_running()
        process.scrape()
        samples.append((process.memory().resident, process.files()))
        # As often as a sample is wanted.
        time.sleep(_EVERY)
    return samples


def _is_flat(samples: list[_Sample]) -> bool:
    if len(samples) < _FEWEST:
        print("too short to tell: give more --minutes")
        return False
    half = len(samples) // 2
    before, after = (
        statistics.median(rss for rss, _ in part) for part in (samples[:half], samples[half:])
    )
    most, least = max(files for _, files in samples), min(files for _, files in samples)
    # A connection that is being remade has two sockets for a moment.
    files = statistics.median(files for _, files in samples[half:])
    kept = files <= statistics.median(files for _, files in samples[:half]) + _FILES
    flat = after <= before * _GROWTH and kept
    print(f"RSS {before:.1f} MiB, then {after:.1f} MiB; open files {least} to {most}")
    print("flat" if flat else "NOT flat")
    return flat


if __name__ == "__main__":
    sys.exit(main())
