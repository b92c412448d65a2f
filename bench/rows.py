"""What a measurement comes to: figures, each with its spread and the bar that it is held to.

Here: records, and how they look as Markdown. Not here: how anything is measured.
"""

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MET, NOT_MET = "met", "**not met**"


class Row(NamedTuple):
    """A line of the table: a figure, its bar, and whether that is met."""

    what: str
    measured: str
    bar: str
    outcome: str


class Section(NamedTuple):
    """Figures, and how they were got (`text`); `costs`: sentences for the top of the page."""

    title: str
    text: str
    rows: tuple[Row, ...]
    costs: tuple[str, ...] = ()


def table(rows: Iterable[Row]) -> str:
    """As Markdown."""
    lines = (("what", "measured", "bar", ""), ("---",) * 4, *rows)
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def at_most(
    what: str, values: Sequence[float], limit: float, unit: str = "", digits: int = 2
) -> Row:
    """A row whose figure, the median, should not be above `limit`."""
    outcome = MET if statistics.median(values) <= limit else NOT_MET
    return Row(what, spread(values, unit, digits), f"at most {limit:g} {unit}".rstrip(), outcome)


def spread(values: Sequence[float], unit: str, digits: int = 1) -> str:
    """The median and the range, as text; of one value, that value."""
    middle = f"{statistics.median(values):.{digits}f} {unit}".rstrip()
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"
