"""A token bucket: what may happen so often, and no more. It knows no time but what it is told."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=Hashable)


class Bucket:
    """So many a second, and a store of `burst` of them, which is full at first."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Use one up at that monotonic time; False if there is none left."""
        passed = now - self._at if self._at is not None else 0.0
        self._left = min(self._burst, self._left + passed * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Buckets(Generic[Kind]):
    """One for each kind, alike: much of one does not use up another's. Kinds must be few."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._of: dict[Kind, Bucket] = {}

    def take(self, kind: Kind, now: float) -> bool:
        """Use up one of that kind, as `Bucket.take`."""
        return self._of.setdefault(kind, Bucket(self._rate, self._burst)).take(now)
