"""The account of a node: what was lost in a stretch of time, and the verdict that follows from it.

Pure. Every surface reads the verdict here: the page, the conditions, the log and `check`; the
alerts are the same states in PromQL (`alerts/source.yaml`), with the same numbers. Lost for good is
missed minus late, by cause. Exits are judged by themselves: every generation of kubelet acts on
them. Blind spot: in a window, a late announcement whose miss came before it cancels another loss.
"""

import math
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Final

from exporter.model.events import Lifecycle
from exporter.model.findings import Cause, Verdict, Why

# These numbers are those of alerts/values.yaml, too; a test compares them.
# A node is judged by its last 15 minutes.
WINDOW_SECONDS: Final = 900.0
# Share of the events that may be lost.
ALLOWED: Final = 0.001
# So many events other than exits are no reason to act.
FEW: Final = 3
# More ends of subscriptions than this in the window are no accident.
FEW_ENDS: Final = 3
# A kubelet's own relist finds an exit as soon.
LATE_SECONDS: Final = 1.0
# The median of fewer exits says nothing.
LEAST_EXITS: Final = 10

# Lost although the stream was up: a kubelet on this node was not notified either.
LOST: Final = (Cause.SILENT, Cause.STALLED)

Counts = Counter[tuple[Verdict, Lifecycle, Why | None]]

_EXITS: Final = (Lifecycle.DIED,)
_OTHERS: Final = tuple(event for event in Lifecycle if event is not Lifecycle.DIED)
_DOWN: Final = (Cause.STREAM_DOWN, Cause.DISCARDED)


class NodeState(Enum):
    """What can be said of a node, the most urgent first; the value is the headline."""

    STARTING = "Waiting for the runtime's first answer"
    NOT_ANSWERING = "The runtime does not answer"
    STREAM_SILENT = "The event stream is open and delivers nothing in time"
    LOSING = "The event stream loses events"
    MISLISTED = "The runtime's lists are wrong"
    MISBELIEVED = "The kubelet shows containers wrongly"
    FLAPPING = "The event stream ends again and again"
    EXITS_LATE = "Exits are announced late"
    FEW_LOST = "The event stream lost a few events"
    INTERRUPTED = "The event stream was interrupted"
    NOT_WATCHED = "Not watching the event stream"
    IDLE = "Watching, nothing has happened"
    COMPLETE = "The event stream is complete"


@dataclass(frozen=True, slots=True)
class Account:
    """A stretch of time. `ends`: of subscriptions, but for those that the exporter ended itself.

    `received`: events. `timed`: exits whose announcement was timed; `slow`: those of them that were
    announced later than `LATE_SECONDS` after them.
    """

    found: Counts
    received: int
    ends: int
    timed: int
    slow: int

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

    def is_lost_beyond(self, cause: Cause) -> bool:
        """Whether more was lost by that cause than the objective and chance explain."""
        exits, others = self.lost(cause, events=_EXITS), self.lost(cause, events=_OTHERS)
        return is_beyond(exits, self.owed(_EXITS)) or (
            others > FEW and is_beyond(others, self.owed(_OTHERS))
        )


@dataclass(frozen=True, slots=True)
class Present:
    """How the node is now. `answers`: whether the runtime does; None before its first answer.

    `streaming`: the subscription is up; `wanted`: it is, or should be. `exclusive`: its stream has
    room for one subscriber. `stale`, `unknown`: statuses of the kubelet, containers unknown to it.
    """

    answers: bool | None
    streaming: bool
    wanted: bool
    exclusive: bool
    ghosts: int = 0
    strays: int = 0
    stale: int = 0
    unknown: int = 0


def lost_for_good(missed: int, late: int) -> int:
    """What never came. In a window, what came late may have been missed before it."""
    return max(0, missed - late)


def is_beyond(lost: int, owed: int) -> bool:
    """Whether so many losses are more than the objective allows by three standard deviations."""
    allowed = ALLOWED * max(0, owed)
    return lost > allowed + 3 * math.sqrt(allowed)


def states_of(account: Account, now: Present) -> tuple[NodeState, ...]:
    """All states that hold, the most urgent first; the first one is the node's verdict."""
    stalled, silent = account.lost(Cause.STALLED), account.lost(Cause.SILENT)
    answers = now.answers is True
    holds = {
        NodeState.STARTING: now.answers is None,
        NodeState.NOT_ANSWERING: now.answers is False,
        NodeState.STREAM_SILENT: bool(stalled)
        and (not account.received or account.is_lost_beyond(Cause.STALLED)),
        NodeState.LOSING: account.is_lost_beyond(Cause.SILENT),
        NodeState.MISLISTED: bool(now.ghosts or now.strays),
        NodeState.MISBELIEVED: bool(now.stale or now.unknown),
        NodeState.FLAPPING: account.ends > FEW_ENDS,
        NodeState.EXITS_LATE: account.timed >= LEAST_EXITS and 2 * account.slow > account.timed,
        NodeState.INTERRUPTED: bool(account.lost(*_DOWN)) or (now.wanted and not now.streaming),
        NodeState.NOT_WATCHED: not now.wanted or now.exclusive,
    }
    holds[NodeState.FEW_LOST] = bool(stalled or silent or account.gaps) and not (
        holds[NodeState.STREAM_SILENT] or holds[NodeState.LOSING]
    )
    holds[NodeState.IDLE] = answers and not account.owed()
    holds[NodeState.COMPLETE] = not any(holds.values())
    return tuple(state for state in NodeState if holds.get(state))
