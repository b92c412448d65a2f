"""How far the stream can be trusted over a period, in constant memory.

Tracks whether the subscription was down, or this process dropped events, since a given time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from exporter.pleg.events import ANNOUNCES, EventType
from exporter.pleg.findings import Cause
from exporter.pleg.memory import RETENTION
from exporter.pleg.steps import Step, StepInput

if TYPE_CHECKING:
    from exporter.pleg.entry import Entry
    from exporter.pleg.events import Announcement
    from exporter.pleg.findings import Verdict

_STARTED: Final = EventType.STARTED
_ANNOUNCE: Final = StepInput.ANNOUNCE
# A new connection that brings an event so soon was served from its beginning.
_SOON_SECONDS: Final = 1.0
_RETENTION_NS: Final = int(RETENTION * 1e9)


@dataclass(slots=True)
class StreamTrust:
    """The stream as the ledger knows it.

    `judging`: False if the stream is unsupported, disabled or refused, and so owes nothing.
    `down_until` and `discarded_at`: the latest such time; `down_until` is infinite while down.
    `deaf_until`: the latest time until which the subscription was up but may not have been served.
    `unproven_until`: the same of the times in which the subscription was not known to be served;
    `unproven_since`: when the last of them began, if it was a new connection. `lapsed`: it began
    otherwise, and no event has come since: the lease ended before its renewal had proven itself.
    `heard_until`: when the newest event so far was created. `began_ns`: wall time at which the
    current subscription began; older events are backlog. `horizon_ns`: wall time before which
    nothing is known; None before the baseline.
    """

    judging: bool = True
    down_until: float = math.inf
    deaf_until: float = -math.inf
    discarded_at: float = -math.inf
    unproven_since: float = -math.inf
    unproven_until: float = -math.inf
    lapsed: bool = False
    heard_until: float = -math.inf
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

    def hear(self, event: Announcement) -> float:
        """Note that the stream has come this far; returns the event's age in seconds."""
        age = 0.0
        if event.created_at_ns > 0 and event.received_wall_ns:
            age = max(0.0, (event.received_wall_ns - event.created_at_ns) / 1e9)
        self.heard_until = max(self.heard_until, event.received - age)
        if self.unproven_until == math.inf:
            if self.lapsed:
                self.lapsed, self.deaf_until = False, event.received
            soon = event.received <= self.unproven_since + _SOON_SECONDS
            self.unproven_until = -math.inf if soon else event.received
        return age

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
        if max(self.down_until, self.deaf_until) >= since:
            step.gap_cause = Cause.STREAM_DOWN
        elif self.discarded_at >= since:
            step.gap_cause = Cause.DISCARDED
        if lifecycle > entry.excused_up_to and (backlog or self.is_before_our_time(event)):
            entry.excused_up_to = lifecycle
        if event.type is _STARTED:
            entry.ran = True
        return step.turn(_ANNOUNCE)

    def prove(self, entry: Entry, step: Step, at: float, since: float) -> Verdict | None:
        """Record the proof, at that time, of a change since `since`.

        A second proof of what still waits keeps what may explain that the first one was missed.
        """
        again = step.waits
        step.proven = at
        # It could be heard if the subscription has brought an announcement of that container since:
        # what follows comes over it, too.
        down = self.down_until >= since or (
            self.deaf_until >= since and entry.heard < self.deaf_until
        )
        step.stream_down = down or (again and step.stream_down)
        step.discarded = self.discarded_at >= since or (again and step.discarded)
        step.unproven = self.unproven_until >= since
        return step.turn(StepInput.PROVE)
