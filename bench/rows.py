"""What a measurement comes to: figures, each with its spread and the bar that it is held to.

Here: records, and how they look as Markdown. Not here: how anything is measured.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self, TypeVar

_T = TypeVar("_T")
_RESAMPLES: Final = 1000


class Verdict(Enum):
    """What became of a bar, as the page has it."""

    MET = "met"
    NOT_MET = "**not met**"
    CANNOT_TELL = "*cannot tell here*"


@dataclass(frozen=True, slots=True)
class Row:
    """A figure; the `bar` that it is held to, and `why` it may miss that."""

    what: str
    measured: str
    bar: str
    verdict: Verdict
    why: str = ""

    @property
    def outcome(self) -> str:
        """For the table's last column."""
        because = self.why and self.verdict is not Verdict.MET
        return f"{self.verdict.value}: {self.why}" if because else self.verdict.value


@dataclass(frozen=True, slots=True)
class Section:
    """Figures, and how they were got (`text`); `costs`: sentences for the top of the page."""

    title: str
    text: str
    rows: tuple[Row, ...]
    costs: tuple[str, ...] = ()

    def method(self) -> str:
        """The heading and the text."""
        return f"## {self.title}\n\n{self.text.strip()}\n"

    def markdown(self) -> str:
        """A heading, the text and the table."""
        rows = [(row.what, row.measured, row.bar, row.outcome) for row in self.rows]
        lines = (("what", "measured", "bar", ""), ("---",) * 4, *rows)
        table = "".join("| " + " | ".join(line) + " |\n" for line in lines)
        return f"{self.method()}\n{table}" if rows else self.method()


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio, and where 95 % of those lie that resampling comes to."""

    figure: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.figure:.3f} ({self.low:.3f} to {self.high:.3f})"

    def held_to(self, limit: float, control: Self) -> Verdict:
        """Whether it is at most `limit`; `control`: of two conditions that are the same.

        Where the control is as wide as the bar, only harm beyond doubt is reported.
        """
        width = max(abs(control.low - 1), abs(control.high - 1))
        if self.low > max(limit, 1 + width):
            return Verdict.NOT_MET
        if width >= limit - 1 or self.high > limit:
            return Verdict.CANNOT_TELL
        return Verdict.MET


def resampled(rounds: Sequence[_T], figure: Callable[[Sequence[_T]], float]) -> Ratio:
    """`figure` of the rounds, and of as many drawn from them with replacement, again and again."""
    draw = random.Random(0)  # noqa: S311 -- no secret; the same rounds give the same interval
    figures = [figure(draw.choices(rounds, k=len(rounds))) for _ in range(_RESAMPLES)]
    return Ratio(figure(rounds), percentile(figures, 0.025), percentile(figures, 0.975))


def at_most(
    what: str, values: Sequence[float] | float, limit: float, unit: str = "", digits: int = 2
) -> Row:
    """A row whose figure, or the median of them, should not be above `limit`."""
    verdict = Verdict.MET if _middle(values) <= limit else Verdict.NOT_MET
    bar = f"at most {_with_unit(f'{limit:g}', unit)}"
    return Row(what, spread(values, unit, digits), bar, verdict)


def spread(values: Sequence[float] | float, unit: str, digits: int = 1) -> str:
    """The median and the range, as text; of one value, that value."""
    middle = _with_unit(f"{_middle(values):.{digits}f}", unit)
    if isinstance(values, float | int) or len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie; ValueError if there are none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values were measured")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _middle(values: Sequence[float] | float) -> float:
    return values if isinstance(values, float | int) else statistics.median(values)


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}".rstrip()
