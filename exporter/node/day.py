"""The last 24 hours in quarters of an hour: which conditions held, what came and what was lost.

What happened at night is asked in the morning. Invariant: fixed in size. A quarter has what was
counted until the last look in it. Blind spot: a restart forgets it.
"""

import functools
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.conditions.account import LOST
from exporter.conditions.catalogue import ALL, BY_NAME
from exporter.conditions.condition import Condition, Mood
from exporter.model.findings import Verdict
from exporter.node.state import Node

# Length of a quarter.
SECONDS: Final = 900.0
QUARTERS: Final = 96
_STARTING: Final = BY_NAME["starting"]
_LOSSES: Final = tuple(BY_NAME[name] for name in ("stream_silent", "losing", "few_lost"))


@dataclass(slots=True)
class Quarter:
    """`number` times `SECONDS` is the time at which it begins, on `Day`'s clock.

    `held`: a bit for each condition, by its place in `ALL`, that held at a look. `lost`: for good,
    so it is negative where more came late than was missed. `received`: events.
    """

    number: int
    held: int = 0
    lost: int = 0
    received: int = 0

    @property
    def mood(self) -> Mood:
        """The worst of what held."""
        moods = {condition.mood for condition in _conditions(self.held)}
        return next((mood for mood in (Mood.BAD, Mood.UNSURE) if mood in moods), Mood.GOOD)


@dataclass(slots=True)
class Stretch:
    """From the quarter `first` to `last`, in all of which `condition` held.

    `lost`, `received`: as there, but of what is lost only the most urgent condition has the number.
    """

    condition: Condition
    first: int
    last: int
    lost: int = 0
    received: int = 0


class Day:
    """Remembers what `node` counts. `ahead`: seconds from monotonic time to unix time.

    So quarters begin when clocks show one; they stay where they are if the clock is set.
    """

    def __init__(self, node: Node, ahead: float = 0.0) -> None:
        self._node = node
        self._ahead = ahead
        self._quarters: deque[Quarter] = deque(maxlen=QUARTERS)
        self._before = (0, 0)
        # Monotonic time of the first look.
        self.first = float("inf")

    def look(self, now: float, holding: Collection[Condition]) -> None:
        """Remember that these conditions hold at monotonic time `now`, and what came since."""
        number, self.first = self.number(now), min(now, self.first)
        if not self._quarters or number > self._quarters[-1].number:
            self._quarters.append(Quarter(number))
        last, (lost, received) = self._quarters[-1], self._before
        # A process that has just begun knows nothing yet.
        if _STARTING not in holding:
            for condition in holding:
                last.held |= 1 << ALL.index(condition)
        tally = self._node.tally
        self._before = (tally.lost(*LOST) + tally.total(Verdict.GAP), self._node.received.total())
        last.lost += self._before[0] - lost
        last.received += self._before[1] - received

    def quarters(self, now: float) -> tuple[Quarter, ...]:
        """Those of the last 24 hours, oldest first. None where nobody looked."""
        first = self.number(now) - QUARTERS + 1
        return tuple(quarter for quarter in self._quarters if quarter.number >= first)

    def began(self, number: int) -> float:
        """The monotonic time at which the quarter of that number begins."""
        return number * SECONDS - self._ahead

    def number(self, now: float) -> int:
        """That of the quarter of monotonic time `now`."""
        return int((now + self._ahead) // SECONDS)


def stretches(quarters: Sequence[Quarter]) -> list[Stretch]:
    """For how long each condition held, the latest first; but that all is well."""
    found: list[Stretch] = []
    going: dict[str, Stretch] = {}
    for quarter in quarters:
        held = [each for each in _conditions(quarter.held) if each.mood is not Mood.GOOD]
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
    # Of those that ended at once, the most urgent first.
    return sorted(found, key=lambda each: (-each.last, -each.first, ALL.index(each.condition)))


@functools.lru_cache(maxsize=QUARTERS)
def _conditions(held: int) -> tuple[Condition, ...]:
    return tuple(each for place, each in enumerate(ALL) if held >> place & 1)
