"""`python -m bench`: runs the measurements, prints them, and writes them down.

Here: which there are, in what order, the page they end up on, and whether the machine was quiet:
before and after each part, while nothing of ours runs, this looks at how much of it others use. A
bar that is not met is said, not punished. Exit code 1 is for what could not be measured at all.
"""

import argparse
import asyncio
import os
import platform
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from bench import cpu, harm, sizes, standstill
from bench.processes import PYTHON_OF_USERS
from bench.rows import MET, Section, table

# In the order of the page.
_PARTS: Final[dict[str, Callable[[], Coroutine[Any, Any, Section]]]] = {
    "harm": harm.measure,
    "slack": standstill.slack,
    "event": cpu.event,
    "stalls": standstill.stalls,
    "sizes": sizes.measure,
    "idle": cpu.idle,
    "scrape": cpu.scrape,
}
_LOOK_SECONDS: Final = 1.0
# More than this, and a machine is not called quiet.
_OTHERS: Final = 0.05
_IDLE: Final = slice(3, 5)
_GIB: Final = 1024**3
_VERSIONS: Final = """
import platform
from importlib.metadata import version
print(platform.python_version(), version("grpcio"), version("protobuf"))
"""


def main() -> int:
    """The exit code."""
    given = _arguments()
    if given.python:
        os.environ[PYTHON_OF_USERS] = str(given.python.absolute())
    for name in [each for each in os.environ if each.startswith("SHADOW_PLEG")]:
        del os.environ[name]
    began, looks, sections = time.monotonic(), [_look()], list[Section]()
    for name in given.only:
        try:
            sections.append(asyncio.run(_PARTS[name]()))
            print(table(sections[-1].rows), flush=True)
        except Exception:  # noqa: BLE001 - one that fails must not take the others with it
            print(f"{name} could not be measured:", file=sys.stderr)
            traceback.print_exc()
        looks.append(_look())
        quiet = _in_a_sentence(looks)
        # Each time: a run that is cut short has not been for nothing.
        if given.output:
            page = _page(sections, quiet, (time.monotonic() - began) / 60)
            given.output.write_text(page, encoding="utf-8")
    print(quiet)
    return 1 if len(sections) < len(given.only) else 0


def _page(sections: list[Section], quiet: str, minutes: float) -> str:
    """The page; `quiet`: whether the machine was."""
    costs = [f"- {cost}" for section in sections for cost in section.costs]
    about = (
        f"{_machine()} {quiet}\n`make bench` measures and prints it all, here in"
        f" {minutes:.0f} minutes.\n"
    )
    rows = [row._replace(what=f"{it.title}: {row.what}") for it in sections for row in it.rows]
    bars = (
        f"## All bars\n\n{sum(row.outcome == MET for row in rows)} of {len(rows)} bars are met.\n"
    )
    method = [f"## {section.title}\n\n{section.text.strip()}\n" for section in sections]
    head = ("# Benchmarks: what the observer costs\n", "\n".join(costs) + "\n", about)
    return "\n".join((*head, bars, table(rows), *method))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    only = "only these measurements"
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS), help=only)
    parser.add_argument(
        "--python", type=Path, help="interpreter with the exporter installed (default: this one)"
    )
    parser.add_argument("--output", type=Path, help="Markdown file to write")
    return parser.parse_args()


def _look() -> float:
    """The share of all cores that others use, or the host takes, without us: takes a second."""
    before = _ticks()
    # Others are to be seen alone.
    time.sleep(_LOOK_SECONDS)
    took = [later - earlier for earlier, later in zip(before, _ticks(), strict=True)]
    return 1 - sum(took[_IDLE]) / max(1, sum(took))


def _in_a_sentence(looks: list[float]) -> str:
    """Whether the machine was quiet, for the top of the page; `looks`: between the parts."""
    used = f"Others used at most {max(looks):.0%} of it between the parts"
    return f"{used}: **it was not quiet**." if max(looks) > _OTHERS else f"{used}."


def _machine() -> str:
    """What it is, in a sentence."""
    cores = len(os.sched_getaffinity(0))
    python = os.environ.get(PYTHON_OF_USERS, sys.executable)
    versions = subprocess.check_output([python, "-c", _VERSIONS], text=True).split()  # noqa: S603
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    return (
        f"Measured on {cores} cores of {_processor()} with {memory:.0f} GiB of memory,"
        f" Linux {platform.release().split('-')[0]}, Python {versions[0]},"
        f" grpcio {versions[1]}, protobuf {versions[2]}."
    )


def _ticks() -> list[int]:
    """Of all cores so far, by what they did."""
    line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    # The last two, of guests, are in the first two already.
    return [int(number) for number in line.split()[1:9]]


def _processor() -> str:
    about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^model name\s*: (.*)$", about, re.MULTILINE)
    return found[1] if found else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
