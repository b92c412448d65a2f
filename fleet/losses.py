"""Losses among judged transitions, and how large their share can be."""

from dataclasses import dataclass

from fleet import bound


@dataclass(frozen=True, slots=True)
class Losses:
    """Of some transitions: how many were judged, and what became of them.

    `judged`: those whose loss would have been counted. `silent`, `undelivered`: lost for good, with
    proof that the runtime lost them, or without. `undecided`: they may not have been owed.
    """

    witnessed: int
    judged: int
    silent: int
    undelivered: int
    undecided: int = 0

    @property
    def lost(self) -> int:
        """The `k` of the statistics: a kubelet would not have had them either."""
        return self.silent + self.undelivered

    @property
    def doubtful(self) -> int:
        """What may have been lost: lost, or undecided."""
        return self.lost + self.undecided

    @property
    def trials(self) -> int:
        """The `n` of the statistics, never smaller than the number of losses."""
        return max(self.judged, self.doubtful)

    @property
    def ratio(self) -> float | None:
        """Share of what was judged that was lost; None if nothing was judged."""
        return self.lost / self.trials if self.trials else None

    @property
    def upper(self) -> float:
        """95 % upper bound of the share that may have been lost; 1 if nothing was judged."""
        return bound.upper(self.doubtful, self.trials)

    @property
    def lower(self) -> float:
        """95 % lower bound of the share that was lost."""
        return bound.lower(self.lost, self.trials)
