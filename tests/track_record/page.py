"""Writes docs/track-record.md: the table of bugs."""

from pathlib import Path
from typing import Final

from tests import ROOT
from tests.track_record.bugs import BUGS, Bug

PAGE: Final = ROOT / "docs" / "track-record.md"
TEMPLATE: Final = Path(__file__).with_name("page.template")
_HEAD: Final = "| `BUG=` | what goes wrong | on | shadow-pleg says |\n|---|---|---|---|\n"
_BY_DESIGN: Final = "compatibility.md#what-is-never-announced"


def page() -> str:
    """The whole page."""
    return TEMPLATE.read_text(encoding="utf-8").format(table=_HEAD + "\n".join(map(_row, BUGS)))


def _row(bug: Bug) -> str:
    source = f"[{bug.title}]({bug.link or _BY_DESIGN})"
    says = "<br>".join(f"`{each}`" for each in bug.says)
    return f"| `{bug.name}` | {source}: {bug.what} | {bug.part} | {says} |"
