"""What the status page shows: headline, the last 15 minutes and 24 hours in lanes, cards."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from exporter import RUNBOOKS
from exporter.conditions.account import LOST
from exporter.conditions.catalogue import CONDITIONS
from exporter.conditions.condition import Condition, Mood, NodeCondition
from exporter.conditions.sentences import NAMED, clock
from exporter.evidence.timeline import lasting
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import KernelWitness, KubeletPods
from exporter.node.history import QUARTERS, SLOTS, Day, History, Slot, Stretch, stretches
from exporter.node.judgement import Judgement, not_alive, not_ready
from exporter.node.state import Node, Tally
from exporter.runtimes.known import known_issues
from exporter.runtimes.runtime import KnownIssue
from exporter.settings.config import Config

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
class Headline:
    """One condition that holds, in words."""

    mood: Mood
    text: str
    sentences: tuple[str, ...]
    todo: str
    # The alert and the address of its runbook; both empty if there is none.
    alert: str
    runbook: str


def headline_of(judgement: Judgement, runbooks: str = RUNBOOKS) -> tuple[Headline, ...]:
    """Every condition that holds, the verdict first; `runbooks`: the URL of their folder."""
    found: list[Headline] = []
    for each in (_headline(condition, judgement, runbooks) for condition in judgement.conditions):
        # Two conditions may have one remedy: name it once.
        done = any(each.runbook == other.runbook and each.todo == other.todo for other in found)
        found.append(replace(each, todo="", alert="", runbook="") if done else each)
    return tuple(found)


def _headline(condition: Condition, judgement: Judgement, runbooks: str) -> Headline:
    alert = condition.alert and f"ShadowPleg{condition.alert}"
    return Headline(
        condition.mood,
        condition.headline,
        tuple(condition.sentences(judgement.account, judgement.present)),
        " ".join(_todo(condition)),
        alert,
        alert and f"{runbooks}/{alert}.md",
    )


def _todo(condition: Condition) -> Iterator[str]:
    if condition.relied:
        yield f"Where the kubelet's gate EventedPLEG is on, {condition.relied}."
    if condition.todo:
        yield f"{condition.todo.replace('`', '')}."


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


@dataclass(frozen=True, slots=True)
class Card:
    """A row of the page."""

    title: str
    value: str
    # Shown below the value; empty ones are not.
    notes: tuple[str, ...] = ()
    issues: tuple[KnownIssue, ...] = ()


def cards_of(node: Node, config: Config, now: float) -> Iterator[Card]:
    """The cards at monotonic time `now`."""
    runtime, seen = node.runtime, node.inventory
    yield Card(
        "Runtime",
        f"{runtime.name} {runtime.version}" if runtime else "not reached yet",
        (f"{seen.pods} pods, {seen.containers.total()} containers",),
        known_issues(runtime.name, runtime.version) if runtime else (),
    )
    yield Card("Event stream", node.stream.state.value, (node.stream.note,))
    yield _last_relist(node, now)
    yield _exits(node.tally)
    unseen = node.kernel.state is KernelWitness.UNAVAILABLE
    yield Card("Kernel", node.kernel.state.value, ("" if unseen else node.kernel.note,))
    if node.pods.state is not KubeletPods.OFF:
        yield _kubelet(node)
    yield _process(node, config, now)


def _last_relist(node: Node, now: float) -> Card:
    last = node.relist_succeeded
    hangs = [words for each, words in node.hanging.items() if each in node.listed]
    hanging = ", ".join(hangs[:NAMED])
    return Card(
        "Last relist",
        "none succeeded yet" if last is None else f"{lasting(max(0.0, now - last))} ago",
        (node.relist_note, f"ContainerStatus hangs: {hanging}" if hanging else ""),
    )


def _exits(tally: Tally) -> Card:
    announced = tally.mean_seconds(Verdict.EXIT_ANNOUNCED)
    listed = tally.mean_seconds(Verdict.EXIT_LISTED)
    return Card(
        "Exits",
        "none announced yet" if announced is None else f"announced after {lasting(announced)}",
        (
            "" if listed is None else f"listed after {lasting(listed)} by the shadow relist",
            _averaged(tally, Verdict.EXIT_ANNOUNCED),
        ),
    )


def _kubelet(node: Node) -> Card:
    mean = node.tally.mean_seconds(Verdict.EXIT_BELIEVED)
    value = node.pods.state.value if mean is None else f"shows exits after {lasting(mean)}"
    notes = node.pods.note, _averaged(node.tally, Verdict.EXIT_BELIEVED)
    return Card("Kubelet's pods", value, notes)


def _averaged(tally: Tally, verdict: Verdict) -> str:
    number = tally.total(verdict)
    return f"on average of {number} exits" if number else ""


def _process(node: Node, config: Config, now: float) -> Card:
    dead, unready = not_alive(node, config, now), not_ready(node, config, now)
    dropped = {"events": node.discards, "cases": node.evidence_dropped}
    drops = ", ".join(f"{number} {what}" for what, number in dropped.items() if number)
    return Card(
        "Exporter",
        f"{'not alive' if dead else 'alive'}, {'not ready' if unready else 'ready'}",
        (dead, f"dropped: {drops}" if drops else ""),
    )
