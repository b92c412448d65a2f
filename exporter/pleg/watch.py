"""How far the stream can be trusted over a period, in constant memory.

Tracks whether the subscription was down, or this process dropped events, since a given time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from exporter.pleg.memory import RETENTION
from exporter.pleg.steps import Step, StepInput

if TYPE_CHECKING:
    from exporter.pleg.events import Announcement
    from exporter.pleg.findings import Verdict

_RETENTION_NS: Final = int(RETENTION * 1e9)


@dataclass(slots=True)
class StreamTrust:
    """The stream as the ledger knows it.

    `judging`: False if the stream is unsupported, disabled or refused, and so owes nothing.
    `down_until` and `discarded_at`: the latest such time; `down_until` is infinite while down.
    `began_ns`: wall time at which the current subscription began. `horizon_ns`: wall time before
    which nothing is known; None before the baseline.
    """

    judging: bool = True
    down_until: float = math.inf
    discarded_at: float = -math.inf
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

    def is_backlog(self, event: Announcement) -> bool:
        """Whether the event is older than the subscription that delivered it."""
        return 0 < event.created_at_ns < self.began_ns

    def prove(self, step: Step, at: float, since: float) -> Verdict | None:
        """Record the relist's proof of a change since the relist requested at `since`."""
        step.proven = at
        step.stream_down = self.down_until >= since
        step.discarded = self.discarded_at >= since
        return step.turn(StepInput.PROVE)
