"""`python -m bench`: runs the measurements, prints them, and writes them down.

Here: which there are, in what order, and the page they end up on. A bar that is
not met is said, not punished: the machine may be busy. Exit code 1 is for what
could not be measured at all.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench import filter as filtering
from bench import idle, lives, reader, scrape, sizes, slack, stalls, startup, throughput
from bench.processes import MIB, PYTHON_OF_USERS
from bench.rows import Row, Section

_Measure = Callable[[], Section]

_INTRODUCTION: Final = """# Benchmarks

What the observer costs, and what it does to the node. {machine} Load by others at the time, if
any, is in the figures: over one minute it was {load:.1f} when they were begun. Repeat it with
`make bench`.
"""


def main() -> int:
    """The exit code."""
    given = _arguments()
    measures = _measures(quick=given.quick, full=given.full)
    chosen = given.only.split(",") if given.only else list(measures)
    if unknown := set(chosen) - set(measures):
        print(f"--only: no such: {', '.join(sorted(unknown))}; there are {', '.join(measures)}")
        return 2
    if given.python:
        os.environ[PYTHON_OF_USERS] = str(given.python.absolute())
    introduction = _INTRODUCTION.format(machine=_machine(), load=os.getloadavg()[0])
    sections, failed = [], False
    for name in chosen:
        began = time.monotonic()
        section = _section(name, measures[name])
        failed = failed or section is None
        if section is not None:
            sections.append(section)
            print(section.markdown())
        print(f"({name}: {time.monotonic() - began:.0f} s)\n", file=sys.stderr)
    bars = _bars(sections)
    print(bars.markdown())
    if given.output:
        pages = [introduction, *(each.markdown() for each in (bars, *sections))]
        given.output.write_text("\n".join(pages), encoding="utf-8")
    return 1 if failed else 0


def _measures(*, quick: bool, full: bool) -> dict[str, _Measure]:
    """By name, in the order of the page."""
    all_lives = lives.FULL_LIVES if full else None
    return {
        "harm": functools.partial(_later, "harm", quick=quick),
        "lease_cost": functools.partial(_later, "lease_cost", quick=quick),
        "slack": functools.partial(slack.measure, quick=quick),
        "reader": functools.partial(reader.measure, quick=quick),
        "throughput": functools.partial(throughput.measure, quick=quick),
        "stalls": functools.partial(stalls.measure, quick=quick),
        "sizes": functools.partial(sizes.measure, quick=quick),
        "filter": functools.partial(filtering.measure, quick=quick),
        "lives": functools.partial(lives.measure, quick=quick, lives=all_lives),
        "idle": functools.partial(idle.measure, quick=quick),
        "scrape": functools.partial(scrape.measure, quick=quick),
        "kubelet": functools.partial(_later, "kubelet", quick=quick),
        "startup": functools.partial(startup.measure, quick=quick),
        "fleet_report": functools.partial(_later, "fleet_report", quick=quick),
    }


def _later(name: str, *, quick: bool) -> Section:
    """Those that need the real runtime import what only a development machine has."""
    section = importlib.import_module(f"bench.{name}").measure(quick=quick)
    if not isinstance(section, Section):
        raise TypeError(f"bench.{name} measures no section")
    return section


def _section(name: str, measure: _Measure) -> Section | None:
    """One that fails must not take the others with it."""
    try:
        return measure()
    except Exception:  # noqa: BLE001 - whatever it is, it is shown
        print(f"{name} could not be measured:", file=sys.stderr)
        traceback.print_exc()
        return None


def _bars(sections: list[Section]) -> Section:
    held = [(section, row) for section in sections for row in section.rows if row.met is not None]
    missed = sum(not row.met for _, row in held)
    text = f"All {len(held)} bars are met."
    if missed:
        text = f"{missed} of {len(held)} bars are **not met**."
    rows = (
        Row(f"{section.title}: {row.what}", row.measured, row.bar, row.met) for section, row in held
    )
    return Section("All bars", text, tuple(rows))


def _machine() -> str:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MIB / 1024
    return (
        f"Measured on {cores} cores of {_processor()} with {memory:.0f} GiB of memory,"
        f" Linux {platform.release().split('-')[0]}, Python {platform.python_version()},"
        f" grpcio {version('grpcio')}, protobuf {version('protobuf')}."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME,...", help="only these measurements")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="few rounds, for a first look")
    extent.add_argument("--full", action="store_true", help="a million lives")
    parser.add_argument(
        "--python", type=Path, help="interpreter with the exporter installed (default: this one)"
    )
    parser.add_argument("--output", type=Path, help="Markdown file to write")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
