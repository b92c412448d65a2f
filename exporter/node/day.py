"""The last 24 hours in quarters of an hour: which conditions held, what came and what was lost.

Invariant: the size is bounded. Blind spot: a restart forgets the past.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from exporter.conditions.account import LOST
from exporter.conditions.catalogue import ALL, BY_NAME
from exporter.conditions.condition import Condition, Mood
from exporter.model.findings import Verdict
from exporter.node.state import Node

# Length of a quarter of an hour.
SECONDS: Final = 900.0
QUARTERS: Final = 96
_STARTING: Final = BY_NAME["starting"]
_LOSSES: Final = tuple(BY_NAME[name] for name in ("stream_silent", "losing", "few_lost"))


@dataclass(slots=True)
class Quarter:
    """A quarter of an hour, up to the last look in it."""

    # The quarter begins at `number * SECONDS` on `Day`'s clock.
    number: int
    # Names of conditions that held at a look.
    held: set[str] = field(default_factory=set)
    # Events lost for good: negative if more came late than were missed.
    lost: int = 0
    received: int = 0

    @property
    def mood(self) -> Mood:
        """The worst mood of the conditions that held."""
        moods = {BY_NAME[name].mood for name in self.held}
        return next((mood for mood in (Mood.BAD, Mood.UNSURE) if mood in moods), Mood.GOOD)


@dataclass(slots=True)
class Stretch:
    """Consecutive quarters in which a condition held."""

    condition: Condition
    # Numbers of the first and the last quarter.
    first: int
    last: int
    # Sums over the quarters in which this is the most urgent condition about losses.
    lost: int = 0
    received: int = 0


class Day:
    """Remembers which conditions held, and the counts of `node`.

    `ahead`: unix time minus monotonic time at the start, in seconds, so that quarters begin at full
    quarters of an hour UTC. They do not move if the clock is set.
    """

    def __init__(self, node: Node, ahead: float = 0.0) -> None:
        self._node = node
        self._ahead = ahead
        self._quarters: deque[Quarter] = deque(maxlen=QUARTERS)
        self._before = (0, 0)
        # Monotonic time of the first look.
        self.first = float("inf")

    def look(self, now: float, holding: Collection[Condition]) -> None:
        """Remember the conditions at monotonic time `now`, and the counts since the last look."""
        number, self.first = self.number(now), min(now, self.first)
        if not self._quarters or number > self._quarters[-1].number:
            self._quarters.append(Quarter(number))
        last, (lost, received) = self._quarters[-1], self._before
        # A process that has just begun knows nothing yet.
        if _STARTING not in holding:
            last.held.update(each.name for each in holding)
        tally = self._node.tally
        self._before = (tally.lost(*LOST) + tally.total(Verdict.GAP), self._node.received.total())
        last.lost += self._before[0] - lost
        last.received += self._before[1] - received

    def quarters(self, now: float) -> tuple[Quarter, ...]:
        """The quarters of the last 24 hours that had a look, oldest first."""
        first = self.number(now) - QUARTERS + 1
        return tuple(quarter for quarter in self._quarters if quarter.number >= first)

    def began(self, number: int) -> float:
        """The monotonic time at which quarter `number` begins."""
        return number * SECONDS - self._ahead

    def number(self, now: float) -> int:
        """The number of the quarter at monotonic time `now`."""
        return int((now + self._ahead) // SECONDS)


def stretches(quarters: Sequence[Quarter]) -> list[Stretch]:
    """The stretches of conditions that are not good, the latest first."""
    found: list[Stretch] = []
    going: dict[str, Stretch] = {}
    for quarter in quarters:
        held = [each for each in ALL if each.name in quarter.held and each.mood is not Mood.GOOD]
        loser = next((each for each in held if each in _LOSSES), None)
        for condition in held:
            last = going.get(condition.name)
            if last is None or last.last < quarter.number - 1:
                last = Stretch(condition, quarter.number, quarter.number)
                going[condition.name] = last
                found.append(last)
            last.last = quarter.number
            if condition is loser:
                last.lost += quarter.lost
                last.received += quarter.received
    # If stretches began and ended together, the most urgent one comes first.
    return sorted(found, key=lambda each: (-each.last, -each.first, ALL.index(each.condition)))
