"""What the ledger answers: one finding for each verdict it reaches.

Here: verdicts, causes and the record that carries them out of the core.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.pleg.events import Lifecycle, ObjectKind, Pod, Quick


class Verdict(Quick):
    """What became of one announcement or one proof. Only MISSED has a cause.

    WITNESSED is the relist's own count, the denominator. OVERFLOW: the stream
    named more unknown containers than the ledger will hold; the event was dropped.
    """

    WITNESSED = "witnessed"
    CONFIRMED = "confirmed"
    MISSED = "missed"
    LATE = "late"
    UNSEEN = "unseen"
    GAP = "gap"
    DUPLICATE = "duplicate"
    CONTRADICTED = "contradicted"
    BACKLOG = "backlog"
    OVERFLOW = "overflow"


class Cause(Quick):
    """Why an announcement was missed. `SILENT` is the one that pages."""

    SILENT = "silent"
    STREAM_DOWN = "stream_down"
    DISCARDED = "discarded"
    BY_DESIGN = "by_design"


class Finding(NamedTuple):
    """One verdict on (container id, lifecycle event), with what a log line needs."""

    verdict: Verdict
    event: Lifecycle
    kind: ObjectKind
    container_id: str
    name: str = ""
    pod: Pod | None = None
    cause: Cause | None = None
