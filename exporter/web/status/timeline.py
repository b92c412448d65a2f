"""All witnesses over the last 15 minutes: the numbers, and their positions in a drawing.

Above the axis is what the relist saw, below it what the stream announced, and below that what the
kernel showed. Horizontal positions are shares of the width, so that the drawing fits a phone;
vertical ones are pixels.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from exporter.node.history import NOT_YET, SECONDS, SLOTS, Heard, History, Slot
from exporter.pleg.findings import Cause, Verdict

# The longest bar and the shortest visible one; the lowest number that fills one.
_TALL_PIXELS: Final = 50
_SHORT_PIXELS: Final = 2
_FEW: Final = 5
# Share of a slot's width; the rest separates the bars.
_WIDE: Final = 0.8
_PERCENT: Final = 100 / SLOTS
_TICK_SECONDS: Final = 300
_IN_MINUTES_FROM_SECONDS: Final = 120
# Slots at either end where a label would be cut off.
_MARGIN: Final = 12
# Down for a part of a slot counts as down.
_STATES: Final = {Heard.DOWN: "down", Heard.UP: "up", Heard.NOTHING: "none", NOT_YET: "not yet"}


_LOST: Final = (
    (Verdict.MISSED, Cause.SILENT),
    (Verdict.MISSED, Cause.STALLED),
    (Verdict.GAP, None),
)
_EXCUSED: Final = (Cause.STREAM_DOWN, Cause.DISCARDED, Cause.SHARED)


@dataclass(frozen=True, slots=True)
class Mark:
    """A notable thing in a slot. `left`, `width`: percent."""

    left: float
    text: str
    width: float = _PERCENT


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A slot in numbers. `time`: when it began; `place`: counted from the left of the drawing.

    `lost`: never announced, or not delivered in time. `excused`: missed because the exporter was
    not subscribed or dropped events, or another subscriber may have received them.
    """

    place: int
    time: str
    relist: int
    stream: int
    kernel: int
    lost: int
    excused: int
    by_design: int
    discarded: int
    heard: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything that is drawn.

    `relist`, `stream` and `kernel` are paths in a box of `SLOTS` by 100. `lines`: the slots in
    which something happened, the newest first.
    """

    relist: str
    stream: str
    kernel: str
    most: int
    lost: tuple[Mark, ...]
    excused: tuple[Mark, ...]
    up: tuple[Mark, ...]
    down: tuple[Mark, ...]
    relists: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    summary: str
    lines: tuple[SlotRow, ...]


def timeline_of(history: History, now: float, wall: float, period: float = 0.0) -> Timeline:
    """As of monotonic time `now`, which is `wall` in unix seconds; `period` of relists, seconds."""
    slots = history.slots(now)
    first = slots[-1].number - SLOTS + 1
    # Offset between the clocks; rounded, so that a slot keeps the same name between renderings.
    began = round(wall - now)
    rows = [_row(slot, first, began) for slot in slots]
    most = max(_FEW, *(max(row.relist, row.stream, row.kernel) for row in rows))
    return Timeline(
        relist=_bars(((row.place, row.relist) for row in rows), most, up=True),
        stream=_bars(((row.place, row.stream) for row in rows), most, up=False),
        kernel=_bars(((row.place, row.kernel) for row in rows), most, up=True),
        most=most,
        lost=_marks(rows, lambda row: f"{row.lost} lost" if row.lost else ""),
        excused=_marks(rows, _excused_words),
        up=_runs(rows, [row.heard == "up" for row in rows]),
        down=_runs(rows, [row.heard == "down" for row in rows]),
        relists=_runs(rows, _known(slots, period)),
        ticks=_ticks(first, began),
        summary=_summary(rows, sum(_announced_after_all(slot) for slot in slots)),
        lines=tuple(
            row
            for row, slot in zip(reversed(rows), reversed(slots), strict=True)
            if slot.announced or slot.kernel or slot.discarded or slot.found or row.heard == "down"
        ),
    )


def _row(slot: Slot, first: int, began: int) -> SlotRow:
    found: Counter[tuple[Verdict, Cause | None]] = Counter()
    for (verdict, _, cause), number in slot.found.items():
        found[verdict, cause] += number
    return SlotRow(
        place=slot.number - first,
        time=_time(int(began + slot.number * SECONDS)),
        relist=found[Verdict.WITNESSED, None],
        stream=slot.announced,
        kernel=slot.kernel,
        lost=sum(found[each] for each in _LOST),
        excused=sum(found[Verdict.MISSED, cause] for cause in _EXCUSED),
        by_design=found[Verdict.MISSED, Cause.BY_DESIGN],
        discarded=slot.discarded,
        heard=next(word for state, word in _STATES.items() if state in slot.heard),
    )


def _bars(numbers: Iterable[tuple[int, int]], most: int, *, up: bool) -> str:
    """One path for all bars: ninety separate elements would slow down the page."""
    middle, sign = 50, -1 if up else 1
    return "".join(
        f"M{place + (1 - _WIDE) / 2:g} {middle}v{sign * height:g}h{_WIDE:g}V{middle}z"
        for place, number in numbers
        if number
        for height in [max(_SHORT_PIXELS, round(_TALL_PIXELS * number / most))]
    )


def _marks(rows: Sequence[SlotRow], words: Callable[[SlotRow], str]) -> tuple[Mark, ...]:
    return tuple(
        Mark(_percent(row.place), f"{row.time}: {said}") for row in rows if (said := words(row))
    )


def _excused_words(row: SlotRow) -> str:
    said = [f"{row.excused} missed by the exporter itself"] if row.excused else []
    if row.discarded:
        said.append(f"{row.discarded} discarded here")
    return ", ".join(said)


def _runs(rows: Sequence[SlotRow], holds: Iterable[bool]) -> tuple[Mark, ...]:
    """Merge adjacent slots for which something holds."""
    runs = itertools.groupby(zip(rows, holds, strict=True), key=lambda each: each[1])
    held = ([row.place for row, _ in run] for holding, run in runs if holding)
    return tuple(Mark(_percent(places[0]), "", _percent(len(places))) for places in held)


def _known(slots: Sequence[Slot], period: float) -> Iterable[bool]:
    """Whether each slot's lists are known; a relist with its jitter may skip one or two."""
    reach = 1 + int(1.5 * period // SECONDS)
    last = slots[0].number - reach - 1
    for slot in slots:
        last = slot.number if slot.relists else last
        yield slot.number - last <= reach


def _ticks(first: int, began: int) -> tuple[Mark, ...]:
    """Every five minutes of wall time, except where a label would be cut off."""
    start = int(began + first * SECONDS)
    moments = range(
        -(-start // _TICK_SECONDS) * _TICK_SECONDS, start + int(SLOTS * SECONDS), _TICK_SECONDS
    )
    places = (((each - start) / SECONDS, each) for each in moments)
    return tuple(
        Mark(_percent(place), _time(each)[:5])
        for place, each in places
        if _MARGIN <= place <= SLOTS - _MARGIN
    )


def _percent(place: float) -> float:
    return round(place * _PERCENT, 2)


def _announced_after_all(slot: Slot) -> int:
    return sum(
        number
        for (verdict, _, cause), number in slot.found.items()
        if verdict is Verdict.LATE and (Verdict.MISSED, cause) in _LOST
    )


def _summary(rows: Sequence[SlotRow], late: int) -> str:
    """A text description of the drawing, for screen readers."""
    seconds = len(rows) * SECONDS
    minutes = seconds >= _IN_MINUTES_FROM_SECONDS
    span = f"{seconds / 60:.0f} minutes" if minutes else f"{seconds:g} seconds"
    return (
        f"In the last {span}: {sum(row.relist for row in rows)} transitions seen by the relist,"
        f" {sum(row.stream for row in rows)} events announced by the stream,"
        f"{_kernel_words(rows)}"
        f" {sum(row.lost for row in rows)} lost"
        f"{f' ({late} announced after all)' if late else ''},"
        f" {sum(row.excused for row in rows)} missed by the exporter itself."
    )


def _kernel_words(rows: Sequence[SlotRow]) -> str:
    changes = sum(row.kernel for row in rows)
    return f" {changes} changes of cgroups shown by the kernel," if changes else ""


def _time(wall: int) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%H:%M:%S")
