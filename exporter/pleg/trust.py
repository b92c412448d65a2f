"""How far the stream can be trusted over a period, in constant memory.

Tracks whether the subscription was down, or this process dropped events, since a given time; since
when the runtime is known to serve it; and how far it has come.
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
_RETENTION_NS: Final = int(RETENTION * 1e9)
# containerd sends the DELETED of a sandbox before it lists it no more. One that was sent right
# before the runtime served this watch shows in the lists until so many seconds later.
SETTLES: Final = 0.5
# Of how many containers it is known that an event could not be read.
UNREAD: Final = 8192


@dataclass(slots=True)
class StreamTrust:
    """The stream as the ledger knows it.

    A watch is one subscription, with the renewals that are known to continue it. That the runtime
    answered the request does not show that it serves it: containerd 2 does not register a new
    subscriber while another one holds up its events. The first event of a watch shows it.

    `judging`: False if the stream is unsupported, disabled or refused, and so owes nothing.
    `down_until` and `discarded_at`: the latest such time; `down_until` is infinite while down.
    `unread`: containers of which an event came that could not be read: nobody knows which.
    `excused`: a discard since the last relist has marked all that waits; another adds nothing.
    `began`: when the watch began; `fresh`: as a new connection, not as a renewal.
    `first_at`: when the first event of the watch came; `served_since`: what a list shows to have
    changed since then comes over it. Both are infinite until then. `reached`: when the youngest
    event so far was made; a stream keeps its order, so older ones do not follow. `began_ns`: wall
    time at which the current subscription began; older events are backlog. `horizon_ns`: wall time
    before which nothing is known; None before the baseline.
    """

    judging: bool = True
    down_until: float = math.inf
    discarded_at: float = -math.inf
    unread: set[str] = field(default_factory=set)
    excused: bool = False
    began: float = -math.inf
    fresh: bool = False
    served_since: float = math.inf
    first_at: float = math.inf
    reached: float = -math.inf
    began_ns: int = 0
    horizon_ns: int | None = None

    def relisted(self, requested_wall_ns: int) -> None:
        """Move the horizon: it starts at the first relist and lags by at most `RETENTION`."""
        if self.horizon_ns is None:
            self.horizon_ns = requested_wall_ns
        self.horizon_ns = max(self.horizon_ns, requested_wall_ns - _RETENTION_NS)

    def is_before_our_time(self, event: Announcement) -> bool:
        """Whether the event predates the baseline or the retention period."""
        return self.horizon_ns is None or 0 < event.created_at_ns < self.horizon_ns

    def begin(self, at: float, *, fresh: bool) -> None:
        """Begin a watch, which is not known to be served yet."""
        self.began, self.fresh = at, fresh
        self.served_since = self.first_at = math.inf

    def receive(self, event: Announcement) -> bool:
        """Note how far the stream has come; True for the first event of a watch."""
        made = event.received
        if event.created_at_ns > 0:
            made -= max(0.0, (event.received_wall_ns - event.created_at_ns) / 1e9)
        self.reached = max(self.reached, made)
        if self.first_at < math.inf or event.received <= self.began:
            return False
        self.served_since, self.first_at = event.received + SETTLES, event.received
        return True

    def announce(
        self, entry: Entry, event: Announcement, since: float | None, *, backlog: bool
    ) -> Verdict | None:
        """Record a first announcement; what may explain that none came before it began `since`.

        Returns the verdict if it leads to one immediately.
        """
        lifecycle = ANNOUNCES[event.type]
        step = entry.steps[lifecycle]
        step.announced, step.stream = event.received, event.stream
        step.created_at_ns, step.backlog = event.created_at_ns, backlog
        since = -math.inf if since is None else since
        if step.state is not _PROVEN:
            step.unheard = self._befell(entry, lifecycle, since)
        if lifecycle > entry.excused_up_to and (backlog or self.is_before_our_time(event)):
            entry.excused_up_to = lifecycle
        if event.type is _STARTED:
            entry.ran = True
        entry.latest = max(entry.latest, lifecycle)
        for later in entry.steps[lifecycle + 1 :]:
            # It is due from now on: another discard may explain that it does not come.
            self.excused &= later.state is not _PROVEN
        return step.turn(_ANNOUNCE)

    def prove(
        self, entry: Entry, event: Lifecycle, step: Step, at: float, since: float
    ) -> Verdict | None:
        """Record the proof, at that time, of a change since `since`.

        A second proof of what still waits keeps what may explain
        that the first one was missed.
        """
        before = step.excuse if step.waits else Excuse.NONE
        step.excuse, step.proven = max(before, self._befell(entry, event, since)), at
        return step.turn(StepInput.PROVE)

    def _befell(self, entry: Entry, event: Lifecycle, since: float) -> Excuse:
        """What kept an announcement of that container, made after `since`, from coming by now."""
        unserved = self.served_since > since and not self._follows(entry, event)
        # A new connection counts as up from its first event on.
        opened = unserved and self.fresh and self.first_at < math.inf
        if self.down_until >= since or opened:
            return Excuse.DOWN
        if self.discarded_at >= since or entry.id in self.unread:
            return Excuse.DISCARDED
        return Excuse.UNSERVED if unserved else Excuse.NONE

    def _follows(self, entry: Entry, event: Lifecycle) -> bool:
        """Whether this watch brought an earlier event of that container: it serves later ones."""
        for step in entry.steps[:event]:
            if step.announced is not None and step.announced >= self.first_at:
                return True
        return False
