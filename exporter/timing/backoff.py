"""Retry delays: capped exponential backoff with jitter.

Invariant: never more than one attempt per second. The caller passes the time and a random number in
[0, 1), and does the waiting.
"""

from dataclasses import dataclass
from typing import Final

MIN_SPACING: Final = 1.0
_RESTART_SECONDS: Final = 0.25


@dataclass(slots=True)
class Backoff:
    """Delays of `first`, twice that, and so on up to `cap` seconds, plus up to half as jitter.

    The first `quick` delays are all `first`, for a runtime that is only restarted. So are the first
    `absent` ones after attempts at which nothing listened, without jitter: they cost the runtime
    nothing.

    It starts over after a success that lasted `healthy` seconds. The first attempt after that comes
    after a quarter to three quarters of a second: a runtime that restarts is back by then.
    """

    first: float = MIN_SPACING
    cap: float = 30.0
    healthy: float = 30.0
    quick: int = 4
    absent: int = 300
    failures: int = 0
    absences: int = 0

    def delay(
        self, tried_at: float, now: float, lasted: float, dice: float, *, absent: bool = False
    ) -> float:
        """Seconds to wait at `now`, after an attempt begun at `tried_at` that held for `lasted`.

        `absent`: nothing listened.
        """
        spacing = max(0.0, tried_at + MIN_SPACING - now)
        if lasted >= self.healthy:
            self.start_over()
            return max(spacing, _RESTART_SECONDS * (1 + 2 * dice))
        if absent and self.absences < self.absent:
            self.absences += 1
            return max(spacing, min(self.cap, self.first))
        # Keep the exponent small; past the cap it no longer matters.
        waiting = min(self.cap, self.first * 2.0 ** min(max(0, self.failures + 1 - self.quick), 32))
        self.failures += 1
        return max(spacing, waiting * (1 + dice / 2))

    def start_over(self) -> None:
        """Forget the failures so far."""
        self.failures = self.absences = 0
