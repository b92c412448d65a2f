"""How far the stream can be trusted for a stretch of time, in constant memory.

Here: whether the watch was down, or events were discarded here, since a moment.
Not here: the states of the subscription itself (`loops.stream`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from exporter.pleg.entry import Step


@dataclass(slots=True)
class Watch:
    """The stream as the ledger knows it.

    `judging`: a stream that nobody subscribed to on purpose owes nothing.
    `down_until` and `discarded_at`: the latest such moment; infinite while down.
    `began_ns`: wall time at which the current subscription began.
    """

    judging: bool = True
    down_until: float = math.inf
    discarded_at: float = -math.inf
    began_ns: int = 0

    def prove(self, step: Step, at: float, since: float) -> None:
        """Note the relist's proof, for a change that came after the relist at `since`."""
        step.proven = at
        step.stream_down = self.down_until >= since
        step.discarded = self.discarded_at >= since
