"""Whose side lost it: the kubelet's count of events beside the exporter's own.

Over any stretch, the exporter's count minus the kubelet's grows by each event that only the kubelet
missed, and shrinks by each that only the exporter missed. An event that neither got leaves it as it
is. A reading shows the kubelet's count at some moment between request and answer, and each side may
be late by `lag`, so each reading gives a least and a most for that difference. Law: only what these
bounds prove is counted. A least counts once the kubelet has received something later, and nothing
later than `lag`: one stream keeps its order, so all earlier events have come or are lost.

Blind spots: losses on both sides between the same two readings cancel each other out; what was lost
before the first reading of a kubelet's process, or after the last one, is not seen. An own event
that is late itself, or has no usable time, is left out, which only makes the kubelet look better.
"""

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from exporter.kubelet.state import Gate, KubeletReading, same_process

_LEAST_LAG_SECONDS: Final = 1.0
# Own events are remembered in steps of this share of `lag`, and so many steps.
_STEP: Final = 0.05
_STEPS: Final = 1024
_MOST_WAITING: Final = 1024


class Comparing(Enum):
    """Whether the two counts can be compared; if not, why."""

    COMPARING = "comparing"
    NOT_WANTED = "not_wanted"
    NO_COUNTERS = "no_counters"
    NOT_SUBSCRIBED = "not_subscribed"
    SHARED = "shared"
    UNKNOWN = "unknown"


_NOT_COMPARED: Final = {
    Comparing.NO_COUNTERS: "what it received is not known: it does not count its events",
    Comparing.NOT_SUBSCRIBED: "what it received is not compared: the exporter is not subscribed",
    Comparing.SHARED: "what it received cannot be compared: the runtime gives each event to one"
    " subscriber only",
}


class KubeletCause(Enum):
    """What the kubelet's stream did since both sides agreed last, when it missed an event."""

    SILENT = "silent"
    STREAM_DOWN = "stream_down"
    GAVE_UP = "gave_up"


_CAUSES: Final = {
    KubeletCause.SILENT: "while it was connected",
    KubeletCause.STREAM_DOWN: "while its stream was down",
    KubeletCause.GAVE_UP: "after it gave up",
}


@dataclass(frozen=True, slots=True)
class Ours:
    """The exporter's side at one moment.

    `subscribed`: to a stream that brings each subscriber every event. `shared`: to one that does
    not. `breaks`: changes whenever events may have been lost on this side. `fed_until`: monotonic
    time up to which all events that came have been counted.
    """

    subscribed: bool
    shared: bool
    breaks: tuple[int, ...]
    fed_until: float


@dataclass(slots=True)
class _Arrivals:
    """How many events had come at any recent time, in steps; what is older is not known."""

    step: float
    total: int = 0
    # The end of each step, and the count then.
    _steps: deque[tuple[float, int]] = field(
        default_factory=lambda: deque([(-math.inf, 0)], maxlen=_STEPS)
    )

    def add(self, at: float) -> None:
        self.total += 1
        end, _ = self._steps[-1]
        if at <= end:
            self._steps[-1] = (end, self.total)
        else:
            self._steps.append((at + self.step, self.total))

    def surely_by(self, at: float) -> int:
        """At least as many had come by then."""
        return next((count for end, count in reversed(self._steps) if end <= at), 0)

    def at_most_by(self, at: float) -> int:
        """No more had come by then."""
        begun = (count for end, count in reversed(self._steps) if end - self.step <= at)
        return next(begun, self._steps[0][1])


@dataclass(slots=True)
class _Mark:
    """One reading. `least` and `most`: the exporter's count minus the kubelet's at that moment.

    `most`: None until all events that came within `lag` after it have been counted. `breaks`: None
    while the exporter is not subscribed.
    """

    reading: KubeletReading
    breaks: tuple[int, ...] | None
    least: float
    due: float
    most: float | None = None


class Comparison:
    """What the kubelet missed, as far as it is proven. `lag`: seconds that each side may take.

    `missed`: by cause. `only`: events that the kubelet received and the exporter, subscribed all
    the time, did not.
    """

    def __init__(self, grace: float) -> None:
        self.lag = max(grace, _LEAST_LAG_SECONDS)
        self.missed: Counter[KubeletCause] = Counter()
        self.only = 0
        self.state = Comparing.UNKNOWN
        self._ours = _Arrivals(self.lag * _STEP)
        self._late = 0
        self._waiting: deque[_Mark] = deque(maxlen=_MOST_WAITING)
        # The last reading that was settled. Then bounds of the difference: when `_agreed` was read,
        # with what was counted since, between `_floor` and `_most`; later no less than `_least`.
        self._last: _Mark | None = None
        self._agreed: KubeletReading | None = None
        self._most = self._floor = 0.0
        self._least: float | None = None

    @property
    def undecided(self) -> int:
        """Of how many events it is not settled, so far, whether the kubelet received them."""
        newest = self._waiting[-1] if self._waiting else self._last
        if newest is None:
            return 0
        floor = self._floor if self._last else self._waiting[0].least
        most = self._ours.total - _events(newest.reading) if newest.most is None else newest.most
        return round(max(0.0, most - floor))

    def describe(self, state: Comparing, lost: int) -> str:
        """On whose side events were lost, in words; `lost`: how many the exporter missed."""
        if state is not Comparing.COMPARING:
            return _NOT_COMPARED.get(state, "")
        number = self.missed.total()
        causes = (f"{self.missed[cause]} {text}" for cause, text in _CAUSES.items())
        why = ", ".join(text for text in causes if not text.startswith("0 "))
        parts = [
            f"it missed {number} events that the exporter received ({why})"
            if number
            else "it has missed nothing that the exporter received, as far as its counts prove"
        ]
        if self.undecided:
            parts.append(f"of {self.undecided} that is not settled")
        if self.only:
            parts.append(f"it received {self.only} that the exporter did not")
        elif lost:
            parts.append(
                f"the {lost} lost here did not reach it either, unless it missed as many others"
            )
        return "; ".join(parts)

    def heard(self, at: float, delay: float | None) -> None:
        """One event came that the kubelet counts, too; `delay`: seconds since it was made."""
        if delay is None or delay > self.lag:
            self._late += 1
        else:
            self._ours.add(at)

    def read(self, reading: KubeletReading, ours: Ours) -> None:
        """The kubelet answered; settle what that proves."""
        before = self._waiting[-1] if self._waiting else self._last
        if before is not None and not _continues(before.reading, reading):
            self._forget()
        self.state = _comparable(reading, ours)
        if reading.gate is not Gate.ON or reading.events is None or ours.shared:
            self._forget()
            return
        least = self._ours.surely_by(reading.requested - self.lag) - reading.events
        breaks = (*ours.breaks, self._late) if ours.subscribed else None
        self._waiting.append(_Mark(reading, breaks, least, reading.completed + self.lag))
        for mark in self._waiting:
            if mark.most is None and mark.due <= ours.fed_until:
                mark.most = self._ours.at_most_by(mark.due) - _events(mark.reading)
        while self._settle_first():
            pass

    def _settle_first(self) -> bool:
        """Settle the oldest reading that waits; False if it has to wait on."""
        if not self._waiting or self._waiting[0].most is None:
            return False
        first = self._waiting[0]
        later = next((m for m in self._waiting if _progressed(first, m)), None)
        if later is None:
            return False
        self._waiting.popleft()
        self._settle(first, later, proven=_in_time(first.reading, later.reading, self.lag))
        return True

    def _settle(self, mark: _Mark, later: _Mark, *, proven: bool) -> None:
        most, last = mark.most or 0.0, self._last
        if last is None or self._agreed is None or most <= self._most:
            self._agreed, self._floor, self._most = mark.reading, mark.least, most
        elif proven and mark.least > self._most:
            number = mark.least - self._most
            self.missed[_cause(self._agreed, later.reading)] += round(number)
            self._floor, self._most = self._floor + number, mark.least
            if most <= self._most:
                self._agreed, self._floor = mark.reading, mark.least
        # What comes late here may come after the reading that should have counted it.
        if mark.breaks is None or (last is not None and last.breaks != later.breaks):
            self._least = None
        if self._least is not None and most < self._least:
            self.only += round(self._least - most)
            self._least = most
        if proven and mark.breaks is not None:
            self._least = mark.least if self._least is None else max(self._least, mark.least)
        self._last = mark

    def _forget(self) -> None:
        self._waiting.clear()
        self._last = self._agreed = self._least = None


def _comparable(reading: KubeletReading, ours: Ours) -> Comparing:
    if reading.gate is not Gate.ON:
        return Comparing.NOT_WANTED if reading.gate is Gate.OFF else Comparing.UNKNOWN
    if reading.events is None:
        return Comparing.NO_COUNTERS
    if ours.shared:
        return Comparing.SHARED
    return Comparing.COMPARING if ours.subscribed else Comparing.NOT_SUBSCRIBED


def _continues(before: KubeletReading, reading: KubeletReading) -> bool:
    """Whether the counters go on: they begin again with each process."""
    return same_process(before, reading) and _events(reading) >= _events(before)


def _events(reading: KubeletReading) -> float:
    return reading.events or 0.0


def _progressed(first: _Mark, later: _Mark) -> bool:
    """Whether the kubelet has received something since, or never will."""
    if _events(later.reading) > _events(first.reading):
        return True
    return later.reading.gave_up and later.reading.requested > first.due


def _in_time(first: KubeletReading, later: KubeletReading, lag: float) -> bool:
    """Whether all that the kubelet has received since came in time."""
    return later.received_later_than(lag) <= first.received_later_than(lag)


def _cause(agreed: KubeletReading, later: KubeletReading) -> KubeletCause:
    if later.gave_up:
        return KubeletCause.GAVE_UP
    counts = ((each.stream_errors, each.connections) for each in (agreed, later))
    return KubeletCause.SILENT if len(set(counts)) == 1 else KubeletCause.STREAM_DOWN
