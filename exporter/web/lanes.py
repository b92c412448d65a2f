"""What the status page draws: the last 15 minutes, and the last 24 hours."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.conditions.account import LOST
from exporter.conditions.catalogue import CONDITIONS
from exporter.conditions.condition import Condition, Mood, NodeCondition
from exporter.conditions.sentences import clock
from exporter.model.findings import Cause, Verdict
from exporter.node.day import QUARTERS, Day, Stretch, stretches
from exporter.node.history import SLOTS, History, Slot
from exporter.node.judgement import Judgement

# The height of a lane, and of the lowest bar in a lane of losses.
_TALL: Final = 20
_LOW: Final = 4
# The scale of the witnesses' lanes ends at this number or higher.
_FEW: Final = 5
# A bar's share of its slot's width; the rest separates the bars.
_WIDE: Final = 0.8
# The exporter was not subscribed, dropped events, or shares them with another subscriber.
_EXCUSED: Final = (Cause.STREAM_DOWN, Cause.DISCARDED, Cause.SHARED)
_CONTRADICTIONS: Final = frozenset(
    each.name for each in CONDITIONS if each.node_condition is NodeCondition.STATE_STALE
)
# A worse mood has a taller bar, for readers who do not see colours.
_MOODS: Final = {Mood.GOOD: 3, Mood.UNSURE: 10, Mood.BAD: _TALL}
# How many periods are listed for the day, and how many times are shown below its lane.
_LISTED: Final = 10
_TIMES: Final = 4


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of bars."""

    name: str
    # The total of the whole window, in words.
    number: str
    # SVG paths by colour, in a box that is 20 high.
    bars: dict[str, str]


@dataclass(frozen=True, slots=True)
class Lanes:
    """The last 15 minutes."""

    lanes: tuple[Lane, ...]
    # The number at full height: for the witnesses' lanes, and for the lanes of losses.
    most: tuple[int, int]
    places: int = SLOTS


def lanes_of(history: History, judgement: Judgement, now: float) -> Lanes:
    """The last 15 minutes up to monotonic time `now`, a bar for each 10 s."""
    slots = history.slots(now)
    first = slots[-1].number - SLOTS + 1
    places = [slot.number - first for slot in slots]
    witnessed = {
        "relist": [_found(slot, Verdict.WITNESSED, None) for slot in slots],
        "stream": [slot.announced for slot in slots],
        "kernel": [slot.kernel for slot in slots],
        "kubelet": [slot.kubelet for slot in slots],
    }
    missed = {
        "missed": [
            _found(slot, Verdict.MISSED, *LOST) + _found(slot, Verdict.GAP, None) for slot in slots
        ],
        "came late": [_found(slot, Verdict.LATE, *LOST, *_EXCUSED) for slot in slots],
        "not received": [_found(slot, Verdict.MISSED, *_EXCUSED) for slot in slots],
    }
    for lanes, name in ((witnessed, "kernel"), (witnessed, "kubelet"), (missed, "came late")):
        if not any(lanes[name]):
            del lanes[name]
    full = max(_FEW, *(max(numbers) for numbers in witnessed.values()))
    most = max(max(numbers) for numbers in missed.values())
    standing = sum(judgement.present.standing.values())
    wrong = [_TALL if slot.held & _CONTRADICTIONS else 0 for slot in slots]
    down = [_TALL if slot.down else 0 for slot in slots]

    def lane(name: str, colour: str, numbers: Sequence[int], full: int, low: int) -> Lane:
        heights = [max(low, _TALL * number // full) if number else 0 for number in numbers]
        return Lane(name, str(sum(numbers)), {colour: _bars(places, heights)})

    return Lanes(
        (
            *(lane(name, name, numbers, full, 1) for name, numbers in witnessed.items()),
            *(
                lane(name, "bad" if name == "missed" else "unsure", numbers, max(1, most), _LOW)
                for name, numbers in missed.items()
            ),
            Lane("contradictions", f"{standing} now", {"bad": _bars(places, wrong)}),
            Lane("stream down", "", {"bad": _bars(places, down)}),
        ),
        (full, most),
    )


@dataclass(frozen=True, slots=True)
class Period:
    """A condition that held from one time of day to another, in words."""

    mood: Mood
    when: str
    text: str


@dataclass(frozen=True, slots=True)
class LastDay:
    """The last 24 hours."""

    lane: Lane
    # The times of day below the lane.
    times: tuple[str, ...]
    # The latest first; `older`: how many are left out.
    periods: tuple[Period, ...]
    older: int
    # When the process began, if that is within these hours; else empty.
    since: str
    places: int = QUARTERS


def last_day_of(day: Day, holding: Collection[Condition], now: float, wall: float) -> LastDay:
    """The day up to monotonic time `now`, at unix time `wall`, when `holding` hold."""
    quarters, latest = day.quarters(now), day.number(now)
    first = latest - QUARTERS + 1

    def time_of(at: float) -> str:
        return clock(at + wall - now)[:5]

    def begin_of(number: int) -> str:
        # If the clock is slewed, the quarter begins a moment beside the full minute.
        return time_of(day.began(number) + 30)

    def period_of(stretch: Stretch) -> Period:
        condition = stretch.condition
        is_first = day.began(stretch.first) < day.first
        begin = time_of(day.first) if is_first else begin_of(stretch.first)
        end = begin_of(stretch.last + 1)
        if stretch.last == latest:
            end = "now" if condition in holding else time_of(now)
        text = condition.headline
        if stretch.lost > 0:
            text += f" ({stretch.lost} lost, {stretch.received} received)"
        return Period(condition.mood, f"{begin} to {end}", text)

    held = stretches(quarters)
    bars = {
        mood.value: _bars(
            (each.number - first for each in quarters),
            (tall if each.mood is mood else 0 for each in quarters),
        )
        for mood, tall in _MOODS.items()
    }
    began = min(day.first, now)
    since = time_of(began) if day.number(began) > first else ""
    times = tuple(begin_of(first + QUARTERS * place // _TIMES) for place in range(_TIMES))
    listed = tuple(period_of(each) for each in held[:_LISTED])
    return LastDay(Lane("conditions", "", bars), times, listed, len(held) - len(listed), since)


def _bars(places: Iterable[int], heights: Iterable[int]) -> str:
    """One path for all bars: ninety separate elements would slow down the page."""
    return "".join(
        f"M{place} {_TALL}v-{height}h{_WIDE}V{_TALL}z"
        for place, height in zip(places, heights, strict=True)
        if height
    )


def _found(slot: Slot, verdict: Verdict, *causes: Cause | None) -> int:
    return sum(
        number for (of, _, cause), number in slot.found.items() if of is verdict and cause in causes
    )
