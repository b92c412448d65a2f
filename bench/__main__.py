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
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Final

from bench import harm, idle, machine, reader, scrape, sizes, slack, stalls
from bench.processes import PYTHON_OF_USERS
from bench.rows import Section, Verdict

# In the order of the page.
_PARTS: Final[dict[str, ModuleType]] = {
    each.__name__.rpartition(".")[2]: each
    for each in (harm, slack, reader, stalls, sizes, idle, scrape)
}


def main() -> int:
    """The exit code."""
    given = _arguments()
    chosen = given.only.split(",") if given.only else list(_PARTS)
    if unknown := set(chosen) - set(_PARTS):
        print(f"--only: no such: {', '.join(sorted(unknown))}; there are {', '.join(_PARTS)}")
        return 2
    if given.python:
        os.environ[PYTHON_OF_USERS] = str(given.python.absolute())
    for name in [each for each in os.environ if each.startswith("SHADOW_PLEG")]:
        del os.environ[name]
    began, looks = time.monotonic(), [machine.look()]
    sections: list[Section] = []
    for number, name in enumerate(chosen, start=1):
        section = _section(_PARTS[name])
        looks.append(machine.look())
        minutes = (time.monotonic() - began) / 60
        if section is not None:
            sections.append(section)
            print(section.markdown(), flush=True)
            # Each time: a run that is cut short has not been for nothing.
            if given.output:
                about = machine.in_a_sentence(chosen[:number], looks)
                _write(given.output, sections, about, minutes)
    print(_bars(sections).markdown())
    print(f"({minutes:.0f} minutes)", file=sys.stderr)
    return 1 if len(sections) < len(chosen) else 0


def _section(part: ModuleType) -> Section | None:
    """One that fails must not take the others with it."""
    try:
        section: Section = asyncio.run(part.measure())
    except Exception:  # noqa: BLE001 - whatever it is, it is shown
        print(f"{part.__name__} could not be measured:", file=sys.stderr)
        traceback.print_exc()
        return None
    return section


def _write(page: Path, sections: list[Section], quiet: str, minutes: float) -> None:
    """The page; `quiet`: whether the machine was."""
    costs = [f"- {cost}" for section in sections for cost in section.costs]
    about = (
        f"{machine.machine()} {quiet}\n`make bench` measures and prints it all, here in"
        f" {minutes:.0f} minutes.\n"
    )
    parts = ["# Benchmarks: what the observer costs\n", "\n".join(costs) + "\n", about]
    method = [section.method() for section in sections]
    page.write_text("\n".join([*parts, _bars(sections).markdown(), *method]), encoding="utf-8")


def _bars(sections: list[Section]) -> Section:
    held = [(section, row) for section in sections for row in section.rows]
    count = {each: sum(row.verdict is each for _, row in held) for each in Verdict}
    text = (
        f"{count[Verdict.MET]} of {len(held)} bars are met, {count[Verdict.NOT_MET]} not; for"
        f" {count[Verdict.CANNOT_TELL]} this machine is too noisy."
    )
    rows = (
        replace(row, what=f"{section.title.partition(':')[0]}: {row.what}") for section, row in held
    )
    return Section("All bars", text, tuple(rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME,...", help="only these measurements")
    parser.add_argument(
        "--python", type=Path, help="interpreter with the exporter installed (default: this one)"
    )
    parser.add_argument("--output", type=Path, help="Markdown file to write")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
