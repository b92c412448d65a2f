"""What a measurement comes to: rows of a section, with the bar that each is held to.

Here: records, and how they look as Markdown. Not here: how anything is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure. `bar`: what it is held to, if to anything; `met`: whether it is."""

    what: str
    measured: str
    bar: str = ""
    met: bool | None = None

    @property
    def verdict(self) -> str:
        """One word for the table's last column."""
        return {True: "met", False: "**not met**", None: ""}[self.met]


@dataclass(frozen=True, slots=True)
class Section:
    """Figures that belong together; `text` says how they were got and what they mean."""

    title: str
    text: str
    rows: tuple[Row, ...]

    def markdown(self) -> str:
        """A heading, the text and the table."""
        table = _table(
            ("what", "measured", "bar", ""),
            [(row.what, row.measured, row.bar, row.verdict) for row in self.rows],
        )
        return f"## {self.title}\n\n{self.text.strip()}\n\n{table}\n"


def at_most(what: str, value: float, limit: float, unit: str = "", digits: int = 2) -> Row:
    """A row whose figure should not be above `limit`."""
    bar = f"at most {_with_unit(f'{limit:g}', unit)}"
    return Row(what, _with_unit(f"{value:.{digits}f}", unit), bar, value <= limit)


def at_least(what: str, value: float, limit: float, unit: str = "", digits: int = 0) -> Row:
    """A row whose figure should not be below `limit`."""
    bar = f"at least {_with_unit(f'{limit:g}', unit)}"
    return Row(what, _with_unit(f"{value:.{digits}f}", unit), bar, value >= limit)


def _with_unit(figure: str, unit: str) -> str:
    return f"{figure} {unit}".rstrip()


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie; ValueError if there are none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values were measured")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
