"""Both witnesses over the last 15 minutes: the numbers, and their positions in a drawing.

Above the axis is what the relist saw, below it what the stream announced. Horizontal positions are
shares of the width, so that the drawing fits a phone; vertical ones are pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from exporter.node.history import NOT_YET, SECONDS, SLOTS, Heard, History, Slot
from exporter.pleg.findings import Cause, Verdict

# Pixels of the longest bar and of the shortest visible one; the lowest number that fills one.
_TALL: Final = 50
_SHORT: Final = 2
_FEW: Final = 5
# Share of a slot's width; the rest separates the bars.
_WIDE: Final = 0.8
_PERCENT: Final = 100 / SLOTS
_TICK: Final = 300
_MINUTES: Final = 120
# Slots at either end where a label would be cut off.
_MARGIN: Final = 12

_Words = Callable[[Slot], str]


@dataclass(frozen=True, slots=True)
class Mark:
    """A notable thing in a slot. `left`, `width`: percent; `middle` is the position of a symbol."""

    left: float
    middle: float
    text: str
    width: float = _PERCENT


@dataclass(frozen=True, slots=True)
class Line:
    """A slot in which something happened, in numbers. `time` is when it began."""

    time: str
    relist: int
    stream: int
    lost: int
    excused: int
    by_design: int
    discarded: int
    heard: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that is drawn. `relist` and `stream` are paths in a box of `SLOTS` by 100."""

    relist: str
    stream: str
    most: int
    lost: tuple[Mark, ...]
    excused: tuple[Mark, ...]
    up: tuple[Mark, ...]
    down: tuple[Mark, ...]
    relists: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    summary: str
    lines: tuple[Line, ...]


def timeline_of(history: History, now: float, wall: float, period: float = 0.0) -> Timeline:
    """As of monotonic time `now`, which is `wall` in unix seconds; `period` of relists, seconds."""
    slots = history.slots(now)
    first = slots[-1].number - SLOTS + 1
    # Offset between the clocks; rounded, so that a slot keeps the same name between renderings.
    began = round(wall - now)
    seen = [slot.found[Verdict.WITNESSED, None] for slot in slots]
    most = max(_FEW, *seen, *(slot.announced for slot in slots))
    places = [slot.number - first for slot in slots]
    return Timeline(
        relist=_bars(zip(places, seen, strict=True), most, up=True),
        stream=_bars(zip(places, (slot.announced for slot in slots), strict=True), most, up=False),
        most=most,
        lost=_marks(slots, first, began, _lost_words),
        excused=_marks(slots, first, began, _excused_words),
        up=_runs(slots, first, Heard.UP),
        down=_runs(slots, first, Heard.DOWN),
        relists=_relists(slots, first, period),
        ticks=_ticks(first, began),
        summary=_summary(slots),
        lines=tuple(_line(slot, began) for slot in reversed(slots) if _is_of_note(slot)),
    )


def lost(slot: Slot) -> int:
    """What the runtime or its transport is proven to have lost."""
    return slot.found[Verdict.MISSED, Cause.SILENT] + slot.found[Verdict.GAP, None]


def excused(slot: Slot) -> int:
    """What was missed because the exporter was not subscribed or dropped events."""
    missed = (slot.found[Verdict.MISSED, why] for why in (Cause.STREAM_DOWN, Cause.DISCARDED))
    return sum(missed)


def _bars(numbers: Iterable[tuple[int, int]], most: int, *, up: bool) -> str:
    """One path for all bars: ninety separate elements would slow down the page."""
    middle, sign = 50, -1 if up else 1
    return "".join(
        f"M{place + (1 - _WIDE) / 2:g} {middle}v{sign * height:g}h{_WIDE:g}V{middle}z"
        for place, number in numbers
        if number
        for height in [max(_SHORT, round(_TALL * number / most))]
    )


def _marks(slots: Sequence[Slot], first: int, began: int, words: _Words) -> tuple[Mark, ...]:
    return tuple(
        Mark(*_place(slot.number - first), f"{clock(began, slot)}: {said}")
        for slot in slots
        if (said := words(slot))
    )


def _lost_words(slot: Slot) -> str:
    return f"{lost(slot)} lost" if lost(slot) else ""


def _excused_words(slot: Slot) -> str:
    said = [f"{excused(slot)} missed while we did not listen"] if excused(slot) else []
    if slot.discarded:
        said.append(f"{slot.discarded} discarded here")
    return ", ".join(said)


def _runs(slots: Sequence[Slot], first: int, heard: Heard) -> tuple[Mark, ...]:
    """Merge adjacent slots in that state. Down for a part of a slot counts as down."""
    runs = itertools.groupby(slots, key=lambda slot: _state(slot) is heard)
    return tuple(_run(list(run), first) for holds, run in runs if holds)


def _state(slot: Slot) -> Heard:
    for heard in (Heard.DOWN, Heard.UP, Heard.NOTHING):
        if heard in slot.heard:
            return heard
    return NOT_YET


def _relists(slots: Sequence[Slot], first: int, period: float) -> tuple[Mark, ...]:
    """Runs of slots whose lists are known; a relist with its jitter may skip one or two."""
    reach = 1 + int(1.5 * period // SECONDS)
    known, last = [], slots[0].number - reach - 1
    for slot in slots:
        last = slot.number if slot.relists else last
        known.append(slot.number - last <= reach)
    runs = itertools.groupby(zip(slots, known, strict=True), key=lambda each: each[1])
    return tuple(_run([slot for slot, _ in run], first) for holds, run in runs if holds)


def _run(slots: Sequence[Slot], first: int) -> Mark:
    left, _ = _place(slots[0].number - first)
    width = round(len(slots) * _PERCENT, 2)
    return Mark(left, round(left + width / 2, 2), "", width)


def _ticks(first: int, began: int) -> tuple[Mark, ...]:
    """Every five minutes of wall time, except where a label would be cut off."""
    start = int(began + first * SECONDS)
    moments = range(-(-start // _TICK) * _TICK, start + int(SLOTS * SECONDS), _TICK)
    places = (((each - start) / SECONDS, each) for each in moments)
    return tuple(
        Mark(left := round(place * _PERCENT, 2), left, _time(each)[:5])
        for place, each in places
        if _MARGIN <= place <= SLOTS - _MARGIN
    )


def _place(place: int) -> tuple[float, float]:
    return round(place * _PERCENT, 2), round((place + 0.5) * _PERCENT, 2)


def _summary(slots: Sequence[Slot]) -> str:
    """A text description of the drawing, for screen readers."""
    seen = sum(slot.found[Verdict.WITNESSED, None] for slot in slots)
    told = sum(slot.announced for slot in slots)
    gone, missed = sum(map(lost, slots)), sum(map(excused, slots))
    seconds = len(slots) * SECONDS
    span = f"{seconds:g} seconds" if seconds < _MINUTES else f"{seconds / 60:.0f} minutes"
    return (
        f"In the last {span}: {seen} transitions seen by the relist, {told} events announced by the"
        f" stream, {gone} lost, {missed} missed while we did not listen."
    )


def _is_of_note(slot: Slot) -> bool:
    return bool(slot.announced or slot.discarded or slot.found or _state(slot) is Heard.DOWN)


def _line(slot: Slot, began: int) -> Line:
    return Line(
        time=clock(began, slot),
        relist=slot.found[Verdict.WITNESSED, None],
        stream=slot.announced,
        lost=lost(slot),
        excused=excused(slot),
        by_design=slot.found[Verdict.MISSED, Cause.BY_DESIGN],
        discarded=slot.discarded,
        heard=_HEARD[_state(slot)],
    )


_HEARD: Final = {
    Heard.UP: "up",
    Heard.DOWN: "down",
    Heard.NOTHING: "none",
    NOT_YET: "not yet",
}


def clock(began: int, slot: Slot) -> str:
    """The wall time, UTC, at which a slot began."""
    return _time(int(began + slot.number * SECONDS))


def _time(wall: int) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%H:%M:%S")
