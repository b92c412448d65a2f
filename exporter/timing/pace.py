"""How long to rest between two relists: the period, stretched where the runtime is slow.

Here: the duty cycle. Not here: when to try again after a failure (`backoff`).
"""

from __future__ import annotations

from collections import deque
from typing import Final

# One relist may be slow by accident, two in a row are not; and one quick one is proof enough.
_JUDGED: Final = 2
_SPREAD: Final = 0.2


class Pace:
    """Rest so that relists take at most `max_duty` of the time; durations are seconds.

    `longest`: how far the period may be stretched for that: knowledge that is
    older than the threshold is worth less than what it would save.
    """

    def __init__(self, period: float, max_duty: float, longest: float) -> None:
        self._period = period
        self._max_duty = max_duty
        self._longest = max(period, longest)
        self._took: deque[float] = deque(maxlen=_JUDGED)

    def took(self, seconds: float) -> None:
        """Note how long a relist took, whether it succeeded or not."""
        self._took.append(seconds)

    @property
    def period(self) -> float:
        """The pause in use."""
        slow = min(self._took) if len(self._took) == _JUDGED else 0.0
        wanted = slow * (1 / self._max_duty - 1)
        return min(self._longest, max(self._period, wanted))

    @property
    def stretched(self) -> bool:
        """Whether that is more than the period asked for."""
        return self.period > self._period

    def pause(self, dice: float) -> float:
        """The next pause: the period, 10 % more or less (`dice`: 0 to 1).

        A fleet that was rolled out at once does not relist in step for long.
        """
        return self.period * (1 + _SPREAD * (dice - 0.5))
