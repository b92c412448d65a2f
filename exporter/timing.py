"""Retry delays, rate limits, and the pace of relists.

Nothing here reads a clock or throws dice: the caller passes the time and a random number in [0, 1),
and waits.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

MIN_SPACING: Final = 1.0
_RESTART_SECONDS: Final = 0.25
_HEALTHY_SECONDS: Final = 30.0
# Attempts that follow each other after one second, since a runtime may only restart; and those
# while nothing listens, which cost the runtime nothing.
_QUICK: Final = 4
_ABSENT: Final = 300
# One slow relist may be an accident, two in a row are not. One fast relist ends the stretching.
_JUDGED: Final = 2
_SPREAD: Final = 0.2


@dataclass(slots=True)
class Backoff:
    """Delays of a second, two, and so on up to `cap` seconds, plus up to half as jitter.

    Invariant: never more than one attempt per second. The delays start over after a success that
    lasted half a minute. The first one is then a quarter to three quarters of a second, by which
    time a runtime that restarts is back.
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


class Bucket:
    """A token bucket: `rate` tokens per second, with a capacity of `burst`; full at first."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at: float | None = None

    def spend(self, now: float, tokens: float = 1.0) -> bool:
        """Spend that many tokens at the monotonic time `now`; False if too few are left."""
        passed = now - self._at if self._at is not None else 0.0
        self._left = min(self._burst, self._left + passed * self._rate)
        self._at = now
        if self._left < tokens:
            return False
        self._left -= tokens
        return True


class Pace:
    """Pauses so that relists take at most `max_duty` of the time; durations are seconds.

    The period is never so long that the last relist gets older than `threshold` before the next one
    ends, which may take `timeout`, or as long as the last ones. Going beyond would cost more than
    the longer pause saves.
    """

    def __init__(self, period: float, max_duty: float, threshold: float, timeout: float) -> None:
        self._period = period
        self._max_duty = max_duty
        self._threshold = threshold
        self._timeout = timeout
        self._took: deque[float] = deque(maxlen=_JUDGED)

    def spent(self, seconds: float) -> None:
        """Record how long a relist took, successful or not."""
        self._took.append(seconds)

    @property
    def period(self) -> float:
        """The current period."""
        slow = min(self._took) if len(self._took) == _JUDGED else 0.0
        wanted = slow * (1 / self._max_duty - 1)
        late = slow > self._timeout
        longest = self._threshold - (slow if late else self._timeout)
        longest /= 1 + late * _SPREAD / 2
        return max(self._period, min(longest, wanted))

    @property
    def stretched(self) -> bool:
        """Whether the current period is longer than the configured one."""
        return self.period > self._period

    def pause(self, dice: float) -> float:
        """The next pause: the period, plus or minus 10 % (`dice`: 0 to 1).

        This desynchronises the relists of a fleet that was rolled out at once.
        """
        return self.period * (1 + _SPREAD * (dice - 0.5))
