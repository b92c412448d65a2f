"""How long after exits their events and lists came, as histograms."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Delays:
    """A histogram: numbers of exits that took no longer, by seconds."""

    buckets: dict[float, float] = field(default_factory=dict)

    @property
    def exits(self) -> float:
        """How many were measured."""
        return self.buckets.get(math.inf, 0.0)

    def quantile(self, share: float) -> float | None:
        """Seconds within which that share was, as histogram_quantile() has it; None without any.

        Evenly spread within a bucket; what is beyond the last bound is counted as that bound.
        """
        rank, low, below = share * self.exits, 0.0, 0.0
        if not rank:
            return None
        for edge, number in sorted(self.buckets.items()):
            if number >= rank:
                inside = (rank - below) / (number - below)
                return low if math.isinf(edge) else low + (edge - low) * inside
            low, below = edge, number
        return None


def together(delays: Iterable[Delays]) -> Delays:
    """All of them in one histogram; empty buckets are kept, as the bounds of others."""
    total: dict[float, float] = {}
    for each in delays:
        for edge, number in each.buckets.items():
            total[edge] = total.get(edge, 0.0) + number
    return Delays(total)
