"""The account of a node: what was lost in a stretch of time.

Pure. Lost for good is missed minus late, by cause. Exits are judged by themselves: every generation
of kubelet acts on them. Blind spot: in a window, a late announcement whose miss came before it
cancels another loss.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

from exporter.model.events import Lifecycle
from exporter.model.findings import Cause, Verdict, Why

# A node is judged by its last 15 minutes.
WINDOW_SECONDS: Final = 900.0
# Share of the events that may be lost; a test compares it with the objective of alerts/values.yaml.
ALLOWED: Final = 0.001
_NEGLIGIBLE: Final = 1e-17
# So many losses or more are no chance if it explains them less often than this.
CHANCE: Final = 0.001
# So many events other than exits are no reason to act.
FEW: Final = 3
# So many times as many that came late make a stream slow, and no loser.
SLOW: Final = 10
# More ends of subscriptions than this in the window are no accident.
FEW_ENDS: Final = 2
# A kubelet's own relist finds an exit as soon.
LATE_SECONDS: Final = 1.0
# A process that wakes up later than this cannot measure delays.
LAG_SECONDS: Final = 0.5
# The median of fewer exits says nothing.
LEAST_EXITS: Final = 10

# Lost although the stream was up: a kubelet on this node was not notified either.
LOST: Final = (Cause.SILENT, Cause.STALLED)

Counts = Counter[tuple[Verdict, Lifecycle, Why | None]]

EXITS: Final = (Lifecycle.DIED,)
OTHERS: Final = tuple(event for event in Lifecycle if event is not Lifecycle.DIED)


@dataclass(frozen=True, slots=True)
class Account:
    """A stretch of `seconds`. `ends`: of subscriptions, but for those that the exporter ended.

    `received`, `discarded`: events that came, and those that were dropped here. `timed`: exits
    whose announcement was timed; `slow`: those of them that were announced later than
    `LATE_SECONDS` after them. `lags`: how often this process, which wakes up once a second, was too
    late to measure.
    """

    found: Counts
    received: int = 0
    ends: int = 0
    timed: int = 0
    slow: int = 0
    discarded: int = 0
    lags: int = 0
    seconds: float = WINDOW_SECONDS

    def number(self, *verdicts: Verdict, cause: Why | None = None) -> int:
        """How often these were found, by that cause if one is given."""
        return sum(
            number
            for (verdict, _, why), number in self.found.items()
            if verdict in verdicts and (cause is None or why is cause)
        )

    def lost(self, *causes: Cause, events: tuple[Lifecycle, ...] = tuple(Lifecycle)) -> int:
        """Events lost for good, of these causes."""
        found = self.found
        return sum(
            lost_for_good(found[Verdict.MISSED, event, cause], found[Verdict.LATE, event, cause])
            for event in events
            for cause in causes
        )

    def owed(self, events: tuple[Lifecycle, ...] = tuple(Lifecycle)) -> int:
        """Events that were witnessed and that this runtime announces."""
        found = self.found
        return sum(
            found[Verdict.WITNESSED, event, None] - found[Verdict.MISSED, event, Cause.BY_DESIGN]
            for event in events
        )

    @property
    def gaps(self) -> int:
        """Steps that the stream skipped, though it was up."""
        return sum(self.found[Verdict.GAP, event, None] for event in Lifecycle)

    @property
    def is_lagging(self) -> bool:
        """Whether delays that were measured are this process' own: in one second of a hundred."""
        return self.lags > max(2, self.seconds / 100)

    def is_slow(self, cause: Cause) -> bool:
        """Whether most of what was missed by that cause came later; so it is if nothing was."""
        return self.number(Verdict.LATE, cause=cause) >= SLOW * self.lost(cause)

    def is_lost_beyond(self, cause: Cause) -> bool:
        """Whether more was lost by that cause than the objective and chance explain.

        Where ten times as many came late, what has not come yet is on its way.
        """
        exits, others = self.lost(cause, events=EXITS), self.lost(cause, events=OTHERS)
        if self.is_slow(cause):
            return False
        return is_beyond(exits, self.owed(EXITS)) or (
            others > FEW and is_beyond(others, self.owed(OTHERS))
        )


def lost_for_good(missed: int, late: int) -> int:
    """What never came. In a window, what came late may have been missed before it."""
    return max(0, missed - late)


def is_beyond(lost: int, owed: int) -> bool:
    """Whether chance explains so many losses, of so many, less often than `CHANCE`.

    If each event is lost with probability `ALLOWED`.
    """
    # What is never announced may be missed in a later window than it was seen.
    owed = max(owed, lost)
    return lost > ALLOWED * owed and at_most(owed - lost, owed, 1 - ALLOWED) < CHANCE


def at_most(k: int, n: int, p: float) -> float:
    """The chance of `k` or fewer of `n`, below the mean: each term is smaller than the last one."""
    choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    term = math.exp(choices + k * math.log(p) + (n - k) * math.log1p(-p))
    odds, total = p / (1 - p), 0.0
    while term > total * _NEGLIGIBLE:
        total += term
        term *= k / (n - k + 1) / odds
        k -= 1
    return total
