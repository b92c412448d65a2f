"""The pause between two relists: the period, stretched if the runtime is slow."""

from collections import deque
from typing import Final

# One slow relist may be an accident, two in a row are not. One fast relist ends the stretching.
_JUDGED: Final = 2
_SPREAD: Final = 0.2


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
