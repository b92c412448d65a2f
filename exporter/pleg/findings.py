"""What the ledger answers: one finding for each verdict it reaches.

Here: verdicts, causes and the record that carries them out of the core.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from exporter.pleg.events import Lifecycle, ObjectKind, Pod, Quick
from exporter.pleg.profiles import Never


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
    """One verdict on (container id, lifecycle event), with what a log line needs.

    `rule`: what the runtime never announces, where that is the cause.
    """

    verdict: Verdict
    event: Lifecycle
    kind: ObjectKind
    container_id: str
    name: str = ""
    pod: Pod | None = None
    cause: Cause | None = None
    rule: Never | None = None


class Taken(NamedTuple):
    """What came of one fact.

    `doubts`: containers of which only `ContainerStatus` can tell whether they ran. The rest is told
    of an announcement: what its id names; whether it only repeats what another subscription
    brought; whether it is older than the subscription that brought it.
    """

    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
    kind: ObjectKind = ObjectKind.CONTAINER
    copy: bool = False
    backlog: bool = False


NOTHING: Final = Taken()
