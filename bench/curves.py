"""How cost grows: curves, and the picture that has them all.

Here: records, and an SVG of few lines drawn by hand: axes that are logarithmic, as sizes and
costs span decades, a line for each process, and the range of each point. It follows the reader's
light or dark theme. Not here: how anything is measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH: Final = 420
_HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 404, 62, 246
_FEW_DECADES: Final = 2
_STYLE: Final = """
svg { --ink: #1f2328; --faint: #59636e; --rule: #d1d9e0; --ground: #ffffff;
  --c0: #0969da; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df }
@media (prefers-color-scheme: dark) { svg { --ink: #f0f6fc; --faint: #9198a1; --rule: #3d444d;
  --ground: #0d1117; --c0: #4493f8; --c1: #f0883e; --c2: #3fb950; --c3: #ab7df8 } }
text { font: 13px system-ui, sans-serif; fill: var(--faint) }
.title { font-weight: 600; font-size: 14px; fill: var(--ink) }
.ground { fill: var(--ground) }
.rule { stroke: var(--rule); fill: none }
.line { fill: none; stroke-width: 2 }
"""
_MARKS: Final = ("", "6 4", "2 3", "9 3 2 3")


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured, again and again, at one size."""

    x: float
    values: tuple[float, ...]

    @property
    def y(self) -> float:
        """The median."""
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class Line:
    """One process, by size."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over the same axes; `x` and `y` say what is on them, in what unit."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Logarithmic, from `low` to `high`, on so many units of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        whole = math.log(self.high / self.low)
        place = math.log(max(value, self.low) / self.low) / whole
        return round(self.start + place * (self.end - self.start), 1)

    def ticks(self) -> Iterator[float]:
        """Powers of ten; and 2 and 5 times those, where there are few of them."""
        few = math.log10(self.high / self.low) <= _FEW_DECADES
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for step in (1, 2, 5) if few else (1,):
                value: float = step * 10.0**power
                if self.low * 0.999 <= value <= self.high * 1.001:
                    yield value


def picture(panels: Sequence[Panel], columns: int) -> str:
    """An SVG with all of them, so many beside each other."""
    rows = -(-len(panels) // columns)
    width, height = columns * _WIDTH, rows * _HEIGHT
    names = "; ".join(panel.title for panel in panels)
    drawn = "\n".join(
        f'<g transform="translate({number % columns * _WIDTH},{number // columns * _HEIGHT})">\n'
        + "\n".join(_panel(panel))
        + "\n</g>"
        for number, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img">\n<title>How cost grows: {escape(names)}'
        f'</title>\n<style>{_STYLE}</style>\n<rect class="ground" width="100%" height="100%"/>\n'
        f"{drawn}\n</svg>\n"
    )


def _panel(panel: Panel) -> Iterator[str]:
    points = [point for line in panel.lines for point in line.points]
    across = _scale([point.x for point in points], _LEFT, _RIGHT, 2)
    # A decade at least, so that what hardly grows does not look as if it did.
    up = _scale([value for point in points for value in point.values], _BOTTOM, _TOP, 10)
    yield f'<text class="title" x="12" y="22">{escape(panel.title)}</text>'
    for value in up.ticks():
        y = up(value)
        yield f'<path class="rule" d="M{_LEFT} {y}H{_RIGHT}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>'
    for value in across.ticks():
        x = across(value)
        yield f'<path class="rule" d="M{x} {_BOTTOM}v5"/>'
        yield f'<text x="{x}" y="{_BOTTOM + 19}" text-anchor="middle">{_short(value)}</text>'
    yield f'<path class="rule" d="M{_LEFT} {_BOTTOM}H{_RIGHT}"/>'
    yield f'<text x="{_RIGHT}" y="{_BOTTOM + 38}" text-anchor="end">{escape(panel.x)}</text>'
    yield f'<text x="12" y="{_BOTTOM + 38}">{escape(panel.y)}</text>'
    at = 12
    for number, line in enumerate(panel.lines):
        look = f'stroke="var(--c{number})" stroke-dasharray="{_MARKS[number]}"'
        yield f'<path class="line" {look} d="M{at} 40h18"/>'
        yield f'<text x="{at + 23}" y="44">{escape(line.name)}</text>'
        at += 23 + 8 * len(line.name) + 20
        way = " ".join(f"{across(point.x)},{up(point.y)}" for point in line.points)
        yield f'<polyline class="line" {look} points="{way}"/>'
        for point in line.points:
            x, low, high = across(point.x), up(min(point.values)), up(max(point.values))
            # A range of nothing still shows as a point.
            yield (
                f'<path stroke="var(--c{number})" stroke-width="3" stroke-linecap="round"'
                f' d="M{x} {low}V{high}"/>'
            )


def _scale(values: Sequence[float], start: float, end: float, least: float) -> _Scale:
    """From one round number to another, at least so many times as large, with all between them."""
    shown = [value for value in values if value > 0] or [1.0]
    low, high = _round(min(shown), up=False), _round(max(shown), up=True)
    while high < least * low:
        low, high = _round(low * 0.9, up=False), _round(high * 1.1, up=True)
    return _Scale(low, high, start, end)


def _round(value: float, *, up: bool) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    steps = [step * power for step in (1, 2, 5, 10)]
    if up:
        return next(step for step in steps if step >= value * 0.999)
    return next(step for step in reversed(steps) if step <= value * 1.001)


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"  # noqa: PLR2004 - a thousand
