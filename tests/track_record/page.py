"""Writes docs/track-record.md: the table of bugs, and the seconds that were measured."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.track_record.bugs import BUGS, Bug

PAGE: Final = ROOT / "docs" / "track-record.md"
TEMPLATE: Final = Path(__file__).with_name("page.template")
_HEAD: Final = (
    "| `BUG=` | what goes wrong | on | shadow-pleg says | after |\n|---|---|---|---|---|\n"
)
_ROW: Final = re.compile(r"^\| `([a-z-]+)` .* \| (\d+) s \|$", re.MULTILINE)
_BY_DESIGN: Final = "compatibility.md#what-is-never-announced"
# What differs by less is chance: when the next relist is due.
_CHANCE: Final = 2


def page(seconds: Mapping[str, int]) -> str:
    """The whole page; `seconds` of each bug by its name."""
    rows = "\n".join(_row(bug, seconds.get(bug.name)) for bug in BUGS)
    return TEMPLATE.read_text(encoding="utf-8").format(table=_HEAD + rows)


def known() -> dict[str, int]:
    """The seconds on the page as it is."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    return {name: int(seconds) for name, seconds in _ROW.findall(text)}


def kept(measured: Mapping[str, float]) -> dict[str, int]:
    """What the page says then: the measured, or what it said before if that is about the same."""
    before = known()
    new = {name: max(1, round(seconds)) for name, seconds in measured.items()}
    return before | {
        name: before[name] if _alike(before.get(name, 0), number) else number
        for name, number in new.items()
    }


def _alike(before: int, now: int) -> bool:
    return before > 0 and (abs(now - before) <= _CHANCE or before <= 2 * now <= 4 * before)


def _row(bug: Bug, seconds: int | None) -> str:
    source = f"[{bug.title}]({bug.link or _BY_DESIGN})"
    says = "<br>".join(f"`{each}`" for each in bug.says)
    after = "not measured" if seconds is None else f"{seconds} s"
    return f"| `{bug.name}` | {source}: {bug.what} | {bug.part} | {says} | {after} |"
