"""What a measurement comes to: figures, each with its spread and the bar that it is held to.

Here: records, and how they look as Markdown. Not here: how anything is measured.
"""

import random
import statistics
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

MET, NOT_MET, CANNOT_TELL = "met", "**not met**", "*cannot tell here*"
_RESAMPLES: Final = 1000


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
    told = ((row.what, row.measured, f"{row.bar}, {row.outcome}") for row in rows)
    lines = (("what", "measured", "bar"), ("---",) * 3, *told)
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def at_most(
    what: str, values: Sequence[float], limit: float, unit: str = "", digits: int = 2
) -> Row:
    """A row whose figure, the median, should not be above `limit`."""
    outcome = MET if statistics.median(values) <= limit else NOT_MET
    return Row(what, spread(values, unit, digits), f"at most {limit:g} {unit}".rstrip(), outcome)


def beside_go(what: str, ours: Sequence[float], theirs: Sequence[float], bar: float) -> Row:
    """What something costs the exporter, by what it costs the plain client in Go."""
    return at_most(what, [statistics.median(ours) / statistics.median(theirs)], bar)


def spread(values: Sequence[float], unit: str, digits: int = 1) -> str:
    """The median and the range, as text; of one value, that value."""
    middle = f"{statistics.median(values):.{digits}f} {unit}".rstrip()
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def compared(what: str, turns: Sequence[tuple[float, float, float]], limit: float) -> Row:
    """A row whose ratio should not be above `limit`; of each turn: without us, with us, without.

    The last two of them show the noise: where it is as wide as the bar, only harm beyond doubt is
    reported.
    """
    us, noise = (_resampled(turns, at) for at in (1, 2))
    (_, low, high), (_, least, most) = us, noise
    width = max(1 - least, most - 1)
    outcome = MET
    if low > max(limit, 1 + width):
        outcome = NOT_MET
    elif high > limit or width >= limit - 1:
        outcome = CANNOT_TELL
    measured, control = (f"{ratio:.3f} ({a:.3f} to {b:.3f})" for ratio, a, b in (us, noise))
    why = "" if outcome == MET else f": unwatched twice is {control}"
    return Row(what, measured, f"at most {limit:g}", outcome + why)


def _resampled(turns: Sequence[tuple[float, ...]], at: int) -> tuple[float, float, float]:
    """That figure by the first one, and the bounds of 95 % of a thousand resamplings."""

    def ratio(some: Sequence[tuple[float, ...]]) -> float:
        return sum(each[at] for each in some) / sum(each[0] for each in some)

    draw = random.Random(0)  # noqa: S311 - no secret; the same turns give the same interval
    ratios = sorted(ratio(draw.choices(turns, k=len(turns))) for _ in range(_RESAMPLES))
    return ratio(turns), ratios[_RESAMPLES // 40], ratios[-_RESAMPLES // 40]
