"""Whether the stream stands still although it is up, because another subscriber does not read.

What is missing then was not lost by the runtime, or it cannot be known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from exporter.pleg.events import EVENTS, Lifecycle
from exporter.pleg.findings import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from exporter.pleg.entry import Entry
    from exporter.pleg.steps import Step
    from exporter.pleg.watch import StreamTrust

# So many objects with missing announcements, and nothing after them, look like a stream that stands
# still; fewer may be lost. If nothing comes for so many seconds, it is called a stall.
_SUSPICIOUS: Final = 4
_HOLD_SECONDS: Final = 30.0


@dataclass(slots=True)
class Stalls:
    """Finds stalls, and marks what they explain.

    `entries`: the ledger's open entries. `number`: how many stalls so far. `suspected`: whether so
    many events are missing that the stream seems to stand still.
    """

    grace: float
    trust: StreamTrust
    entries: dict[str, Entry]
    number: int = 0
    suspected: bool = False

    def held_after(
        self, requested: float, is_due: Callable[[Entry, Lifecycle], bool]
    ) -> Generator[None, None, float]:
        """Return since when proofs are not judged by the relist requested at that time, in steps.

        Events are missing, and none that is younger has come. A few are judged once no more go
        missing, if the subscription is known to be served; else they wait. If that lasts, or if
        younger ones come over a subscription that may have begun only after them, the stream stood
        still, and what was lost is unknown. If they come over one that was there, it did not.
        `is_due`: whether that event must be announced.
        """
        heard = self.trust.heard_until
        passed: list[float] = []
        quiet: list[float] = []
        # Copy: between steps, other tasks may remove entries.
        for entry in list(self.entries.values()):
            proven = self._missing(entry, heard, is_due)
            if proven is not None:
                (quiet if proven > heard else passed).append(proven)
            yield
        if len(passed) >= _SUSPICIOUS and requested > min(passed) + self.grace:
            self.found(requested)
            return math.inf
        self.suspected = bool(quiet) and (len(quiet) >= _SUSPICIOUS or self.trust.lapsed)
        if self.suspected and requested > min(quiet) + self.grace + _HOLD_SECONDS:
            self.found(requested)
            return math.inf
        more = len(quiet) > 1 and requested <= max(quiet) + self.grace
        return heard if self.suspected or more else math.inf

    def _missing(
        self, entry: Entry, heard: float, is_due: Callable[[Entry, Lifecycle], bool]
    ) -> float | None:
        """When a missing event of that entry was proven, if a stall may explain it."""
        last = None
        gone = entry.disappearance
        if gone is not None and entry.announced is not None and _is_open(gone, heard):
            last = gone.proven
        for event, step in zip(EVENTS, entry.steps, strict=True):
            if step.waits and _is_open(step, heard) and is_due(entry, event):
                last = step.proven
        return last

    def found(self, until: float) -> None:
        """The stream stood still: what is missing until then has the cause `stream_down`."""
        self.number += 1
        self.suspected = False
        self.trust.deaf_until = max(self.trust.deaf_until, until)
        for entry in self.entries.values():
            if entry.disappearance is not None:
                entry.disappearance.stream_down = True
            for step in entry.steps:
                if step.waits:
                    step.stream_down = True
                elif step.announced is not None:
                    step.gap_cause = Cause.STREAM_DOWN


def _is_open(step: Step, heard: float) -> bool:
    """Whether a stall would explain that the proven event is missing, and nothing else does."""
    return step.cause is Cause.SILENT and (step.unproven or (step.proven or 0.0) > heard)
