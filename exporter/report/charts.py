"""Chart coordinates for the HTML report.

Scales and shapes in drawing units; SVG and colours are in `templates`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from exporter.pleg.findings import Cause
from exporter.report.fleet import Fleet, Line, iso
from exporter.report.verdict import Decision, judge_group, percent

WIDTH: Final = 900
LEFT: Final = 60
RIGHT: Final = 890
TOP: Final = 12
BOTTOM: Final = 200
_NAMES_END: Final = 230
_ROW: Final = 34
_MOST_ROWS: Final = 20
_LEAST_SHARE: Final = 1e-7
_DRAWN: Final = (Cause.SILENT.value, Cause.STREAM_DOWN.value, Cause.DISCARDED.value)
_STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Tick:
    """A position on an axis and its label."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Interval:
    """One runtime's silent loss: the observed ratio and its confidence bounds."""

    label: str
    verdict: str
    mood: str
    y: float
    seen: float | None
    none_seen: bool
    upper: float
    text: str


@dataclass(frozen=True, slots=True)
class Ratios:
    """Silent loss by runtime on a logarithmic scale, with the objective."""

    height: float
    left: float
    right: float
    limit: float
    limit_text: str
    ticks: tuple[Tick, ...]
    rows: tuple[Interval, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One cause in one time step."""

    cause: str
    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class Bars:
    """Misses over time, stacked by cause."""

    bars: tuple[Bar, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """A line over time, interrupted where there is no data."""

    name: str
    points: str


@dataclass(frozen=True, slots=True)
class Paths:
    """Nodes over time."""

    paths: tuple[Path, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]


def ratios(fleet: Fleet, objective: float) -> Ratios:
    """A row for each runtime version, the most common first."""
    allowed = 1 - objective
    drawn = fleet.groups[:_MOST_ROWS]
    shares = [allowed, *(group.upper for group in drawn)]
    shares += [group.ratio for group in drawn if group.ratio]
    lowest = math.floor(math.log10(max(min(shares) / 2, _LEAST_SHARE)))

    def x(share: float) -> float:
        place = (math.log10(max(share, 10**lowest)) - lowest) / -lowest
        return round(_NAMES_END + place * (RIGHT - _NAMES_END - 20), 1)

    rows = []
    for number, group in enumerate(drawn):
        verdict = judge_group(group, objective).verdict
        seen = "nothing judged" if group.ratio is None else f"{percent(group.ratio)} seen"
        rows.append(
            Interval(
                label=group.label,
                verdict=verdict.value,
                mood=mood(verdict),
                y=TOP + 24 + number * _ROW,
                # A ratio of zero cannot be placed on a logarithmic scale, except at its left end.
                seen=None if group.ratio is None else x(group.ratio),
                none_seen=not group.silent,
                upper=x(group.upper),
                text=f"{group.label}: {seen}, at most {percent(group.upper)}",
            )
        )
    ticks = tuple(Tick(x(10**power), percent(10**power)) for power in range(lowest, 1))
    return Ratios(
        height=TOP + 24 + len(rows) * _ROW + 24,
        left=x(0),
        right=x(1),
        limit=x(allowed),
        limit_text=f"allowed: {percent(allowed)}",
        ticks=ticks,
        rows=tuple(rows),
        left_out=len(fleet.groups) - len(drawn),
    )


def mood(verdict: Decision) -> str:
    """The CSS class of a verdict."""
    return {Decision.GO: "good", Decision.NO_GO: "bad", Decision.NOT_ENOUGH: "unsure"}[verdict]


def missed(fleet: Fleet) -> Bars:
    """What was missed, except for what is never announced by design."""
    lines = {line.name: line for line in fleet.missed_over_time if line.name in _DRAWN}
    causes = tuple(cause for cause in _DRAWN if cause in lines)
    times = [at for at, _ in lines[causes[0]].points] if causes else []
    stacks = [[lines[cause].points[i][1] or 0.0 for cause in causes] for i in range(len(times))]
    top, y_ticks = _axis(max((sum(stack) for stack in stacks), default=0))
    slot = (RIGHT - LEFT) / max(1, len(times))
    bars = []
    for i, (at, stack) in enumerate(zip(times, stacks, strict=True)):
        base = 0.0
        for cause, value in zip(causes, stack, strict=True):
            if round(value):
                low, high = _y(base, top), _y(base + value, top)
                where = (round(LEFT + i * slot + slot * 0.1, 1), round(high, 1))
                size = (round(slot * 0.8, 1), round(low - high, 1))
                said = f"{iso(at - fleet.point)} to {iso(at)}: {round(value):,} {cause}"
                bars.append(Bar(cause, *where, *size, said))
            base += value
    return Bars(tuple(bars), y_ticks, _days(fleet), causes)


def nodes(fleet: Fleet) -> Paths:
    """How many nodes existed, were watched, and were streaming."""
    values = [value or 0.0 for line in fleet.nodes_over_time for _, value in line.points]
    top, y_ticks = _axis(max(values, default=0))
    paths = tuple(Path(line.name, _path(line, top, fleet)) for line in fleet.nodes_over_time)
    return Paths(paths, y_ticks, _days(fleet))


def _path(line: Line, top: float, fleet: Fleet) -> str:
    words, down = [], False
    for at, value in line.points:
        if value is None:
            down = False
            continue
        words.append(f"{'L' if down else 'M'}{_x(at, fleet):.1f} {_y(value, top):.1f}")
        if not down:
            # Makes a single point visible.
            words.append("h1")
        down = True
    return " ".join(words)


def _x(at: float, fleet: Fleet) -> float:
    return LEFT + (at - fleet.span.start) / fleet.span.seconds * (RIGHT - LEFT)


def _y(value: float, top: float) -> float:
    return BOTTOM - value / top * (BOTTOM - TOP)


def _axis(highest: float) -> tuple[float, tuple[Tick, ...]]:
    """The top of an axis that begins at 0, and its ticks at round integers."""
    rough = max(highest, 1) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = max(1, next(power * each for each in _STEPS if power * each >= rough * 0.999))
    step = math.ceil(step)
    number = max(1, math.ceil(highest / step))
    top = float(step * number)
    return top, tuple(Tick(round(_y(i * step, top), 1), f"{i * step:,}") for i in range(number + 1))


def _days(fleet: Fleet) -> tuple[Tick, ...]:
    """At most eight times, formatted as short as they can be told apart."""
    span = fleet.span
    short = slice(11, 16) if span.seconds <= 2 * 86400 else slice(5, 10)
    times = [span.start + span.seconds * i // 7 for i in range(8)]
    return tuple(Tick(round(_x(at, fleet), 1), iso(at)[short]) for at in times)
