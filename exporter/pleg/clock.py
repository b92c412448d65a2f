"""Translates a runtime's timestamps, made by the wall clock, into monotonic time.

All times of the core are monotonic. A timestamp is translated by its age on arrival. So it does not
matter what time the clock shows, unless the clock was set in between: a step forward makes the
timestamp look older by the step, a step back makes it look younger. Blind spots: steps too small to
be noticed; and until the clock has passed its former time, a timestamp from before a step back may
be taken for one of now.
"""

import math
from dataclasses import dataclass
from typing import Final

from exporter.model.events import Announcement
from exporter.model.facts import ClockSet
from exporter.pleg.memory import RETENTION

# The smallest step, in seconds. Smaller corrections are slewed, which moves the monotonic clock,
# too: ntpd steps the clock from 0.128 s on, timesyncd from 0.4 s, chrony from 1 s.
STEP: Final = 0.1
_REMEMBERED: Final = 8
_SECOND_NS: Final = 1e9


@dataclass(slots=True)
class WallClock:
    """`sets`: the last steps of the wall clock, the newest first.

    `clear`: since when no timestamp is in doubt: the clock has passed the time that it showed when
    it was set back. No runtime is expected to hold back an event for longer than `RETENTION`.
    """

    sets: tuple[ClockSet, ...] = ()
    clear: float = -math.inf

    def was_set(self, fact: ClockSet) -> None:
        """Take one step of the clock."""
        self.sets = (fact, *self.sets[: _REMEMBERED - 1])
        passed = max(self.clear, fact.at) + max(0.0, -fact.seconds)
        self.clear = min(passed, fact.at + RETENTION)

    def made(self, event: Announcement) -> float:
        """When an event was made: at arrival if it has no time, -inf if that cannot be true."""
        now = event.received
        if not event.created_at_ns:
            return now
        at = now - (event.received_wall_ns - event.created_at_ns) / _SECOND_NS
        until = now
        for each in self.sets:
            # Between a step and its notice, events have the new time already.
            if each.at - STEP <= at <= until + STEP:
                break
            at, until = at + each.seconds, each.at
        return min(at, until) if at <= until + STEP else -math.inf

    def past(self, wall_ns: int, now: float, now_ns: int) -> float | None:
        """The monotonic time of `wall_ns`; None if the clocks leave it in doubt."""
        at = now - (now_ns - wall_ns) / _SECOND_NS
        return at if self.clear <= at <= now else None
