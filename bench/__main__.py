"""`python -m bench`: runs the measurements, prints them, and writes them down.

Here: which there are, in what order, and the page they end up on. A bar that is not met is said,
not punished: the machine may be busy. Exit code 1 is for what could not be measured at all.
"""

import argparse
import asyncio
import os
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

from bench import harm, idle, machine, reader, scrape, sizes, slack, stalls
from bench.processes import PYTHON_OF_USERS
from bench.rows import MET, Section, table

# In the order of the page.
_PARTS: Final[dict[str, ModuleType]] = {
    each.__name__.rpartition(".")[2]: each
    for each in (harm, slack, reader, stalls, sizes, idle, scrape)
}


def main() -> int:
    """The exit code."""
    given = _arguments()
    if given.python:
        os.environ[PYTHON_OF_USERS] = str(given.python.absolute())
    for name in [each for each in os.environ if each.startswith("SHADOW_PLEG")]:
        del os.environ[name]
    began, looks, sections = time.monotonic(), [machine.look()], list[Section]()
    for name in given.only:
        try:
            sections.append(asyncio.run(_PARTS[name].measure()))
            print(table(sections[-1].rows), flush=True)
        except Exception:  # noqa: BLE001 - one that fails must not take the others with it
            print(f"{name} could not be measured:", file=sys.stderr)
            traceback.print_exc()
        looks.append(machine.look())
        quiet = machine.in_a_sentence(looks)
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
        f"{machine.machine()} {quiet}\n`make bench` measures and prints it all, here in"
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


if __name__ == "__main__":
    sys.exit(main())
