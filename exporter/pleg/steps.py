"""What is known of one container's steps: announcements, exit, contradictions between witnesses.

Invariant: every change of a step's state goes through `TRANSITIONS`, which covers all states and
inputs.
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from exporter.model.events import Announcement
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import IdentityEnum, Limit

LISTS: Final = 2
# The kubelet's patience in seconds: on a real node, amid many crashes, its slowest status took 9 s.
# Lists and kernel have the grace; announcements 0, because lists show a state before its event.
KUBELETS: Final = 30.0


class StepState(IdentityEnum):
    """What is known of one announcement.

    OPEN: neither proven nor announced. PROVEN: by relist or kernel; the stream may follow.
    ANNOUNCED: by the stream; a proof may follow. BY_DESIGN: missed, but the runtime never announces
    it. EXCUSED: it predates observation, or is not owed. The others are the verdicts of that name.
    """

    OPEN = "open"
    PROVEN = "proven"
    ANNOUNCED = "announced"
    CONFIRMED = "confirmed"
    MISSED = "missed"
    BY_DESIGN = "by design"
    UNDECIDED = "undecided"
    LATE = "late"
    UNSEEN = "unseen"
    GAP = "gap"
    EXCUSED = "excused"


class StepInput(IdentityEnum):
    """An input to a step.

    A relist requested after the grace judges the step: OVERDUE; or NEVER_ANNOUNCED if a rule of the
    runtime applies; or UNKNOWABLE if it cannot be known any more whether the announcement is owed.
    EXCUSE: the announcement is not owed. TAKE_BACK: a later list, or the kernel, disproves the
    proof.
    """

    PROVE = "prove"
    ANNOUNCE = "announce"
    OVERDUE = "overdue"
    NEVER_ANNOUNCED = "never announced"
    UNKNOWABLE = "unknowable"
    EXCUSE = "excuse"
    TAKE_BACK = "take back"


class Excuse(IntEnum):
    """What kept an announcement from coming, without a loss; the greatest of several counts.

    UNSERVED: the runtime was not known to serve the subscription, or no younger event came over it.
    """

    NONE = 0
    UNSERVED = 1
    DISCARDED = 2
    DOWN = 3

    @property
    def cause(self) -> Cause | None:
        """The cause of a miss with this excuse."""
        return _CAUSES[self]


_CAUSES: Final = (None, Cause.STALLED, Cause.DISCARDED, Cause.STREAM_DOWN)


MOVES: Final[dict[tuple[StepState, StepInput], tuple[StepState, Verdict | None]]] = {
    (StepState.OPEN, StepInput.PROVE): (StepState.PROVEN, None),
    (StepState.OPEN, StepInput.ANNOUNCE): (StepState.ANNOUNCED, None),
    (StepState.OPEN, StepInput.OVERDUE): (StepState.GAP, Verdict.GAP),
    (StepState.OPEN, StepInput.EXCUSE): (StepState.EXCUSED, None),
    (StepState.PROVEN, StepInput.ANNOUNCE): (StepState.CONFIRMED, Verdict.CONFIRMED),
    (StepState.PROVEN, StepInput.OVERDUE): (StepState.MISSED, Verdict.MISSED),
    (StepState.PROVEN, StepInput.NEVER_ANNOUNCED): (StepState.BY_DESIGN, Verdict.MISSED),
    (StepState.PROVEN, StepInput.UNKNOWABLE): (StepState.UNDECIDED, Verdict.UNDECIDED),
    (StepState.PROVEN, StepInput.EXCUSE): (StepState.EXCUSED, None),
    (StepState.PROVEN, StepInput.TAKE_BACK): (StepState.OPEN, None),
    (StepState.ANNOUNCED, StepInput.PROVE): (StepState.CONFIRMED, Verdict.CONFIRMED),
    (StepState.ANNOUNCED, StepInput.OVERDUE): (StepState.UNSEEN, Verdict.UNSEEN),
    (StepState.ANNOUNCED, StepInput.EXCUSE): (StepState.EXCUSED, None),
    (StepState.MISSED, StepInput.ANNOUNCE): (StepState.LATE, Verdict.LATE),
}
# Combinations missing above leave the state unchanged.
TRANSITIONS: Final = {
    (state, what): MOVES.get((state, what), (state, None))
    for state in StepState
    for what in StepInput
}


@dataclass(slots=True)
class Standing:
    """One contradiction of that `kind` between witnesses, which counts once it stands.

    Witnesses notice things at different times, and a list may be wrong once. So it stands once
    `LISTS` relists in a row show it, all requested later than its beginning plus its patience. It
    begins when the other witness reports what the lists deny, else with the first list that shows
    it. Its owner drops it once a list does not show it.
    """

    kind: Verdict
    since: float
    patience: float
    lists: int = 0

    @property
    def verdict(self) -> Verdict | None:
        """The verdict while the contradiction stands, else None."""
        return self.kind if self.lists >= LISTS else None

    def shown(self, requested: float) -> bool:
        """Count a relist that shows the contradiction; True if it stands from this one on."""
        self.lists += requested > self.since + self.patience
        return self.lists == LISTS


@dataclass(slots=True)
class Step:
    """What the witnesses reported of one lifecycle event of one container, and the result."""

    state: StepState = StepState.OPEN
    # When it was proven, by a list or the kernel, in seconds.
    proven: float | None = None
    # When its announcement arrived, in seconds; when the runtime made it; by which subscription.
    announced: float | None = None
    created_at_ns: int = 0
    stream: int = 0
    # Whether the announcement is older than its subscription: a replay.
    backlog: bool = False
    # What may have kept this announcement from coming; and those of earlier steps.
    excuse: Excuse = Excuse.NONE
    gap_excuse: Excuse = Excuse.NONE
    # The cause of its MISSED.
    missed: Cause | None = None
    # When the kernel proved it.
    kernel: float | None = None
    # The kernel proved it before any list, and WITNESSED was counted then. Stays set if that proof
    # is taken back.
    kernel_first: bool = False
    # The contradiction of the lists, if any.
    standing: Standing | None = None

    def apply(self, what: StepInput) -> Verdict | None:
        """Apply an input and move to the next state; returns the verdict, if any."""
        self.state, verdict = TRANSITIONS[self.state, what]
        return verdict

    @property
    def waits(self) -> bool:
        """Whether it is proven, not announced and not yet judged."""
        return self.state is StepState.PROVEN

    def repeats(self, event: Announcement) -> bool:
        """Whether another subscription has delivered the same announcement before."""
        return (
            self.announced is not None
            and self.stream != event.stream
            and self.created_at_ns == event.created_at_ns
        )


@dataclass(slots=True)
class Exit:
    """One exit; times in seconds."""

    # When the kernel showed no process any more; `exact`: by a notification.
    seen: float = math.inf
    exact: bool = False
    # The runtime's `finished_at`, with its exit code and reason.
    reported: float = math.inf
    exit_code: int | None = None
    reason: str = ""
    # When the runtime announced it, unless that was a replay.
    announced: float | None = None
    # When the first list that shows the exit was complete.
    listed: float | None = None
    # Set once EXIT_LISTED, EXIT_BELIEVED and EVENT_BELIEVED, in this order, were found.
    measured: bool = False
    timed: bool = False
    paired: bool = False
    # The kubelet's exit code was compared with the announced one.
    compared: bool = False
    # The memory limit at which an OOM kill ended the container, if one did.
    oom: Limit | None = None

    @property
    def ended(self) -> float | None:
        """When the container ended; None if neither source is exact."""
        seen, reported = self.seen, self.reported
        if reported < seen:
            return reported
        return seen if self.exact or reported < math.inf else None
