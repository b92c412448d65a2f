"""A token bucket for rate limits. The caller passes the time."""


class Bucket:
    """`rate` tokens per second, with a capacity of `burst`; full at first."""

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
