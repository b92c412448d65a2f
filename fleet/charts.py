"""Axes and shapes of the HTML report's charts, in drawing units; `templates` has the SVG."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from exporter.pleg.findings import Cause
from fleet.fleet import Fleet, Line, iso
from fleet.options import Span
from fleet.words import percent

WIDTH: Final = 900
LEFT: Final = 60
RIGHT: Final = 890
TOP: Final = 12
BOTTOM: Final = 200
_LABELS_END: Final = 230
_LEAST_SHARE: Final = 1e-7
_CAUSES: Final = tuple(cause.value for cause in Cause if cause is not Cause.BY_DESIGN)
_ROUND_STEPS: Final = (1, 2, 2.5, 5, 10)
_TWO_DAYS_SECONDS: Final = 2 * 86400

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class ShareAxis:
    """A logarithmic axis from left to right, from `10 ** lowest` to 1."""

    lowest: int

    def x(self, share: float) -> float:
        """A share's position; zero, which a logarithmic scale lacks, is at the left end."""
        place = 1 - math.log10(max(share, 10**self.lowest)) / self.lowest
        return round(_LABELS_END + place * (RIGHT - _LABELS_END - 20), 1)

    def ticks(self) -> list[Tick]:
        """Each power of ten, with its label."""
        return [(self.x(10**power), percent(10**power)) for power in range(self.lowest, 1)]


@dataclass(frozen=True, slots=True)
class Axes:
    """Time from left to right, and numbers from 0 up to `top` in steps of `step`."""

    span: Span
    step: int
    top: int

    def x(self, at: float) -> float:
        """Position of a unix time."""
        return LEFT + (at - self.span.start) / self.span.seconds * (RIGHT - LEFT)

    def y(self, number: float) -> float:
        """Position of a number."""
        return BOTTOM - number / self.top * (BOTTOM - TOP)

    def x_ticks(self) -> list[Tick]:
        """Eight times, formatted as short as they can be told apart."""
        short = slice(11, 16) if self.span.seconds <= _TWO_DAYS_SECONDS else slice(5, 10)
        times = [self.span.start + self.span.seconds * i // 7 for i in range(8)]
        return [(round(self.x(at), 1), iso(at)[short]) for at in times]

    def y_ticks(self) -> list[Tick]:
        """Each step, with its label."""
        numbers = range(0, self.top + 1, self.step)
        return [(round(self.y(number), 1), f"{number:,}") for number in numbers]

    def path(self, line: Line) -> str:
        """A line as SVG path data, interrupted where it has no value."""
        words, drawing = [], False
        for at, value in line.points:
            if value is not None:
                # "h1" makes a single point visible.
                form = "L{:.1f} {:.1f}" if drawing else "M{:.1f} {:.1f} h1"
                words.append(form.format(self.x(at), self.y(value)))
            drawing = value is not None
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Bar:
    """One cause in one time step."""

    cause: str
    x: float
    y: float
    width: float
    height: float
    text: str


def share_axis(fleet: Fleet, allowed: float) -> ShareAxis:
    """An axis with room for the allowed share, and for each runtime's."""
    shares = [
        allowed,
        *(share for each in fleet.groups for share in (each.exits.upper, each.exits.ratio)),
    ]
    smallest = min(share for share in shares if share)
    return ShareAxis(math.floor(math.log10(max(smallest / 2, _LEAST_SHARE))))


def axes(span: Span, highest: float) -> Axes:
    """Axes of about four round steps, up to this number."""
    rough = max(highest, 1) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * each for each in _ROUND_STEPS if power * each >= rough * 0.999)
    step = max(1, math.ceil(step))
    return Axes(span, step, step * max(1, math.ceil(highest / step)))


def missed(fleet: Fleet) -> tuple[Axes, list[Bar]]:
    """What was missed in each time step, stacked by cause; without misses by design."""
    lines = {line.name: dict(line.points) for line in fleet.missed_over_time}
    stacks: dict[int, list[tuple[str, float]]] = {}
    for cause in _CAUSES:
        for at, value in lines.get(cause, {}).items():
            stacks.setdefault(at, []).append((cause, value or 0))
    highest = max((sum(value for _, value in stack) for stack in stacks.values()), default=0)
    scale = axes(fleet.span, highest)
    return scale, [bar for at in stacks for bar in _stack(scale, at, fleet.point, stacks[at])]


def _stack(scale: Axes, at: int, step: int, stack: list[tuple[str, float]]) -> Iterator[Bar]:
    left, right, base = scale.x(at - 0.9 * step), scale.x(at - 0.1 * step), 0.0
    for cause, value in stack:
        low, high = scale.y(base), scale.y(base + value)
        if round(value):
            text = f"{iso(at - step)} to {iso(at)}: {round(value):,} {cause}"
            size = (round(right - left, 1), round(low - high, 1))
            yield Bar(cause, round(left, 1), round(high, 1), *size, text)
        base += value


def nodes(fleet: Fleet) -> tuple[Axes, list[tuple[str, str]]]:
    """How many nodes existed, were watched, and were streaming: a path for each."""
    values = [value or 0 for line in fleet.nodes_over_time for _, value in line.points]
    scale = axes(fleet.span, max(values, default=0))
    return scale, [(line.name, scale.path(line)) for line in fleet.nodes_over_time]
