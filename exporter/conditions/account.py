"""The account of a node: what was lost in a stretch of time.

No I/O, no clock. Lost for good is missed minus late, by cause. Exits are judged by themselves,
because all kubelets act on them. Blind spot: a late announcement whose miss was counted before the
window cancels another loss in it.
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
# Losses are not chance if the probability of as many, or more, is below this.
CHANCE: Final = 0.001
# Up to this many lost events other than exits are no reason to act.
FEW: Final = 3
# If this many times as many events came late as never came, the stream is slow and loses none.
SLOW: Final = 10
# More ends of subscriptions than this in the window are no accident.
FEW_ENDS: Final = 2
# An exit is announced late if a kubelet's own relist would have found it as soon.
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
    """Counts of a stretch of `seconds`. `found`: findings.

    `received`: events that came. `ends`: subscriptions that ended, unless the exporter ended them.
    `timed`: exits whose announcement was timed; `slow`: of these, the exits that were announced
    over `LATE_SECONDS` late. `discarded`: events that the exporter dropped. `lags`: how often this
    process, which wakes up once a second, was too late to measure.
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
        """How many findings have one of these verdicts, and that cause if one is given."""
        return sum(
            number
            for (verdict, _, why), number in self.found.items()
            if verdict in verdicts and (cause is None or why is cause)
        )

    def lost(self, *causes: Cause, events: tuple[Lifecycle, ...] = tuple(Lifecycle)) -> int:
        """Events lost for good, by any of these causes."""
        found = self.found
        return sum(
            lost_for_good(found[Verdict.MISSED, event, cause], found[Verdict.LATE, event, cause])
            for event in events
            for cause in causes
        )

    def owed(self, events: tuple[Lifecycle, ...] = tuple(Lifecycle)) -> int:
        """Proven events that this runtime should announce."""
        found = self.found
        return sum(
            found[Verdict.WITNESSED, event, None] - found[Verdict.MISSED, event, Cause.BY_DESIGN]
            for event in events
        )

    @property
    def gaps(self) -> int:
        """Steps of containers that the stream skipped, though it was up."""
        return sum(self.found[Verdict.GAP, event, None] for event in Lifecycle)

    @property
    def is_lagging(self) -> bool:
        """Whether this process was late in over 1 % of the seconds: delays may be its own."""
        return self.lags > max(2, self.seconds / 100)

    def is_slow(self, cause: Cause) -> bool:
        """Whether, by that cause, at least `SLOW` times as many events came late as never came."""
        return self.number(Verdict.LATE, cause=cause) >= SLOW * self.lost(cause)

    def is_lost_beyond(self, cause: Cause) -> bool:
        """Whether more was lost by that cause than the objective and chance explain.

        If the stream is slow, what has not come yet is on its way.
        """
        exits, others = self.lost(cause, events=EXITS), self.lost(cause, events=OTHERS)
        if self.is_slow(cause):
            return False
        return is_beyond(exits, self.owed(EXITS)) or (
            others > FEW and is_beyond(others, self.owed(OTHERS))
        )


def lost_for_good(missed: int, late: int) -> int:
    """Events that never came. In a window, a late event's miss may have come before it."""
    return max(0, missed - late)


def is_beyond(lost: int, owed: int) -> bool:
    """Whether the probability of as many losses, or more, is below `CHANCE`.

    Chance loses each of the `owed` events with probability `ALLOWED`.
    """
    # An event that is never announced may be missed in a later window than it was witnessed.
    owed = max(owed, lost)
    return lost > ALLOWED * owed and at_most(owed - lost, owed, 1 - ALLOWED) < CHANCE


def at_most(k: int, n: int, p: float) -> float:
    """The binomial probability of `k` or fewer of `n`; `k` is below the mean, so terms shrink."""
    choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    term = math.exp(choices + k * math.log(p) + (n - k) * math.log1p(-p))
    odds, total = p / (1 - p), 0.0
    while term > total * _NEGLIGIBLE:
        total += term
        term *= k / (n - k + 1) / odds
        k -= 1
    return total
