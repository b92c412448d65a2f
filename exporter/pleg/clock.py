"""The wall clock, as far as the core needs it: to tell when a runtime made what it stamped.

All times of the core are monotonic. A timestamp becomes one by its age on arrival, so it does not
matter how the clock is set, unless it was set in between: then the timestamp looks older by as much
as the clock was set forward, and younger by as much as it was set back. Blind spots: steps that are
too small to be noticed; and for as long as the clock was set back, a timestamp from before may be
taken for one of now.
"""

import math
from dataclasses import dataclass
from typing import Final

from exporter.model.events import Announcement
from exporter.model.facts import ClockSet
from exporter.pleg.memory import RETENTION

# Seconds. Smaller corrections are slewed, which moves the monotonic clock, too: ntpd sets the clock
# if it is wrong by 0.128 s or more, timesyncd from 0.4 s on, chrony from 1 s on.
STEP: Final = 0.1
_REMEMBERED: Final = 8
_SECOND_NS: Final = 1e9


@dataclass(slots=True)
class WallClock:
    """`sets`: the last times that it was set, the newest first.

    `clear`: since when no timestamp is in doubt: it had passed the time at which it was set back.
    No runtime is expected to hold back anything for longer than `RETENTION`.
    """

    sets: tuple[ClockSet, ...] = ()
    clear: float = -math.inf

    def was_set(self, fact: ClockSet) -> None:
        """Take one step."""
        self.sets = (fact, *self.sets[: _REMEMBERED - 1])
        passed = max(self.clear, fact.at) + max(0.0, -fact.seconds)
        self.clear = min(passed, fact.at + RETENTION)

    def made(self, event: Announcement) -> float:
        """When it was made: its arrival if it does not say, before all time if that cannot be."""
        now = event.received
        if not event.created_at_ns:
            return now
        at = now - (event.received_wall_ns - event.created_at_ns) / _SECOND_NS
        until = now
        for each in self.sets:
            # What was made before it was noticed that the clock was set may be of the new one.
            if each.at - STEP <= at <= until + STEP:
                break
            at, until = at + each.seconds, each.at
        return min(at, until) if at <= until + STEP else -math.inf

    def past(self, wall_ns: int, now: float, now_ns: int) -> float | None:
        """When that was; None where the clocks leave it in doubt."""
        at = now - (now_ns - wall_ns) / _SECOND_NS
        return at if self.clear <= at <= now else None
