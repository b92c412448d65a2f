"""Retry delays: capped exponential backoff with jitter.

Invariant: never more than one attempt per second. The caller passes the time and a random number in
[0, 1), and waits.
"""

from dataclasses import dataclass
from typing import Final

MIN_SPACING: Final = 1.0
_RESTART_SECONDS: Final = 0.25
_HEALTHY_SECONDS: Final = 30.0
# Attempts that follow each other after one second, since a runtime may only restart; and those
# while nothing listens, which cost the runtime nothing.
_QUICK: Final = 4
_ABSENT: Final = 300


@dataclass(slots=True)
class Backoff:
    """Delays of a second, two, and so on up to `cap` seconds, plus up to half as jitter.

    They start over after a success that lasted half a minute. The first delay is then a quarter to
    three quarters of a second, by which time a runtime that restarts is back.
    """

    cap: float = 30.0
    failures: int = 0
    absences: int = 0

    def delay(
        self, tried_at: float, now: float, lasted: float, dice: float, *, absent: bool = False
    ) -> float:
        """Seconds to wait at `now`, after an attempt at `tried_at` whose success lasted `lasted`.

        `absent`: nothing listened.
        """
        spacing = max(0.0, tried_at + MIN_SPACING - now)
        if lasted >= _HEALTHY_SECONDS:
            self.start_over()
            return _RESTART_SECONDS * (1 + 2 * dice)
        if absent and self.absences < _ABSENT:
            self.absences += 1
            return max(spacing, min(self.cap, MIN_SPACING))
        # Keep the exponent small; past the cap it no longer matters.
        waiting = min(self.cap, MIN_SPACING * 2.0 ** min(max(0, self.failures + 1 - _QUICK), 32))
        self.failures += 1
        return max(spacing, waiting * (1 + dice / 2))

    def start_over(self) -> None:
        """Forget the failures so far."""
        self.failures = self.absences = 0
