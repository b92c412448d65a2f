"""How far the stream can be trusted over a period, in constant memory.

Tracks whether the subscription was down, or this process dropped events, since a given time; since
when the runtime is known to serve the subscription; and the time of the youngest event.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from exporter.model.events import ANNOUNCES, Announcement, EventType, Lifecycle
from exporter.model.findings import Verdict
from exporter.pleg.entry import Entry
from exporter.pleg.memory import RETENTION
from exporter.pleg.steps import Excuse, Step, StepInput, StepState

_STARTED: Final = EventType.STARTED
_PROVEN: Final = StepState.PROVEN
_ANNOUNCE: Final = StepInput.ANNOUNCE
# containerd sends the DELETED of a sandbox before the sandbox leaves the lists. If it was sent
# right before the runtime served this watch, lists show the sandbox up to so many seconds longer.
SETTLES: Final = 0.5
# Containers remembered, at most, for an event that could not be read.
UNREAD: Final = 8192


@dataclass(slots=True)
class StreamTrust:
    """The stream as the ledger knows it.

    A watch is one subscription, with the renewals that are known to continue it. An answer to the
    request does not show that the runtime serves the watch: containerd 2 does not register a new
    subscriber while another one holds up its events. There the first event of a watch shows it.
    """

    # False if the stream is unsupported, disabled or refused, and so owes nothing.
    judging: bool = True
    # The last time at which it was down, infinite while it is; and the last discard.
    down_until: float = math.inf
    discarded_at: float = -math.inf
    # Containers with an event that could not be read; which event it was is unknown.
    unread: set[str] = field(default_factory=set)
    # A discard since the last relist has excused all waiting steps; another one adds nothing.
    excused: bool = False
    # When the watch began; and whether as a new connection, not as a renewal.
    began: float = -math.inf
    new_connection: bool = False
    # When the first event of the watch came; changes in the lists after `served_since` must be
    # announced by the watch. Both are infinite until then.
    first_at: float = math.inf
    served_since: float = math.inf
    # When the youngest event so far was made, and whose it was. A stream keeps its order: no older
    # one follows.
    reached: float = -math.inf
    youngest: str = ""
    # When the current subscription was requested; older events are backlog.
    asked: float = -math.inf
    # What happened before this time is unknown; infinite before the baseline.
    horizon: float = math.inf

    def relisted(self, requested: float) -> None:
        """Move the horizon: it starts at the first relist and lags by at most `RETENTION`."""
        before = requested if self.horizon == math.inf else self.horizon
        self.horizon = max(before, requested - RETENTION)

    def begin(self, at: float, *, new_connection: bool, at_once: bool = False) -> None:
        """Begin a watch; it is not known to be served yet, unless the runtime does `at_once`."""
        self.began, self.new_connection = at, new_connection and not at_once
        self.served_since, self.first_at = at + SETTLES if at_once else math.inf, math.inf

    def receive(self, container_id: str, received: float, made: float) -> bool:
        """Note how far the stream has come; True for the first event of a watch."""
        if made > self.reached:
            self.reached, self.youngest = made, container_id
        if self.first_at < math.inf or received <= self.began:
            return False
        self.served_since, self.first_at = min(self.served_since, received + SETTLES), received
        return True

    def announce(
        self, entry: Entry, event: Announcement, since: float | None, made: float
    ) -> Verdict | None:
        """Record a first announcement; an earlier one may have been lost from `since` on.

        Returns the verdict if it leads to one immediately.
        """
        lifecycle = ANNOUNCES[event.type]
        step = entry.steps[lifecycle]
        step.announced, step.stream = event.received, event.stream
        step.created_at_ns, step.backlog = event.created_at_ns, made < self.asked
        # Before the first list nothing is a gap.
        if step.state is not _PROVEN and since is not None:
            step.gap_excuse = self._excuse_since(entry, lifecycle, since)
        if lifecycle > entry.excused_up_to and (step.backlog or made < self.horizon):
            entry.excused_up_to = lifecycle
        if event.type is _STARTED:
            entry.ran = True
        entry.latest = max(entry.latest, lifecycle)
        for later in entry.steps[lifecycle + 1 :]:
            if later.state is _PROVEN:
                # The later step is due from now on: another discard may explain its absence.
                self.excused = False
        return step.apply(_ANNOUNCE)

    def prove(
        self, entry: Entry, event: Lifecycle, step: Step, at: float, since: float
    ) -> Verdict | None:
        """Record the proof, at `at`, of a change that happened after `since`.

        A second proof of a step that still waits keeps the excuse of the first one, if greater.
        """
        before = step.excuse if step.waits else Excuse.NONE
        step.excuse, step.proven = max(before, self._excuse_since(entry, event, since)), at
        # Another discard may follow before the next list, and explain that its event does not come.
        self.excused = False
        return step.apply(StepInput.PROVE)

    def _excuse_since(self, entry: Entry, event: Lifecycle, since: float) -> Excuse:
        """What may have kept an announcement, made after `since`, from coming by now."""
        unserved = self.served_since > since and not self._follows(entry, event)
        # A new connection counts as up only from its first event on.
        opened = unserved and self.new_connection and self.first_at < math.inf
        if self.down_until >= since or opened:
            return Excuse.DOWN
        if self.discarded_at >= since or entry.id in self.unread:
            return Excuse.DISCARDED
        return Excuse.UNSERVED if unserved else Excuse.NONE

    def _follows(self, entry: Entry, event: Lifecycle) -> bool:
        """Whether this watch brought an earlier event of that container, and so serves it."""
        for step in entry.steps[:event]:
            if step.announced is not None and step.announced >= self.first_at:
                return True
        return False
