"""The ledger's output: one finding per verdict."""

from typing import Final, NamedTuple

from exporter.model.events import Lifecycle, ObjectKind, Pod
from exporter.model.labels import Flaw, IdentityEnum, Limit, Never, OomKill


class Verdict(IdentityEnum):
    """The outcome for one announcement or one proof.

    MISSED has a cause, LATE that of the miss which it takes back, and so has a GAP that an outage,
    a stall, another subscriber or this process may explain.

    WITNESSED counts what the relist or the kernel proved and is the denominator. UNDECIDED: an exit
    whose announcement may not have been owed, since it cannot be known any more whether the
    container ever ran. OVERFLOW: the stream named more unknown containers than the ledger holds, so
    the event was dropped. GHOST: listed as running, although its last process has ended. STRAY: not
    listed, or listed as ended, although its processes run. TWIN: it runs beside another container
    of the same pod and name. FROZEN: listed as running, and its processes are stopped until
    somebody thaws them.

    STALE: the kubelet shows it running, although it has ended. DISAGREES: the kubelet shows another
    end of it than the runtime announced. UNKNOWN_TO_KUBELET: it runs, and the kubelet no longer has
    its pod. OVERDUE_PROCESS, OVERDUE_RUNTIME, OVERDUE_KUBELET: a pod should have ended, and a
    process of it lives, or none does and the runtime lists it running, or nothing of it runs and
    the kubelet keeps the pod. FLAWED: an event came, and something is wrong with it: the flaw takes
    the place of a cause.

    EXIT_ANNOUNCED, EXIT_LISTED and EXIT_BELIEVED measure: the stream, the first list, or the
    kubelet showed an exit whose time is known. EVENT_BELIEVED: the kubelet showed one that was
    announced. SLOW: the stream announced it later than the grace after it. OOM: a process was
    killed for want of memory, or is said to have been; what became of it takes a cause's place.
    """

    WITNESSED = "witnessed"
    CONFIRMED = "confirmed"
    MISSED = "missed"
    LATE = "late"
    UNSEEN = "unseen"
    GAP = "gap"
    UNDECIDED = "undecided"
    DUPLICATE = "duplicate"
    CONTRADICTED = "contradicted"
    BACKLOG = "backlog"
    OVERFLOW = "overflow"
    GHOST = "ghost"
    STRAY = "stray"
    TWIN = "twin"
    STALE = "stale"
    DISAGREES = "disagrees"
    FROZEN = "frozen"
    UNKNOWN_TO_KUBELET = "unknown_to_kubelet"
    OVERDUE_PROCESS = "overdue_process"
    OVERDUE_RUNTIME = "overdue_runtime"
    OVERDUE_KUBELET = "overdue_kubelet"
    FLAWED = "flawed"
    EXIT_ANNOUNCED = "exit_announced"
    EXIT_LISTED = "exit_listed"
    EXIT_BELIEVED = "exit_believed"
    EVENT_BELIEVED = "event_believed"
    SLOW = "slow"
    OOM = "oom"


class Cause(IdentityEnum):
    """Why an announcement was missed. Only `SILENT` accuses the runtime.

    `STALLED`: the subscription was open, but nothing came over it, or nothing in time; by whose
    fault is not known. `SHARED`: another subscriber of an exclusive stream may have received it.
    """

    SILENT = "silent"
    STALLED = "stalled"
    STREAM_DOWN = "stream_down"
    DISCARDED = "discarded"
    SHARED = "shared"
    BY_DESIGN = "by_design"


class Untimed(IdentityEnum):
    """Why the delay of an announced exit is not known.

    NO_TIME: neither the kernel nor the runtime reported its time. CLOCK: the runtime did, by a
    clock that was set since. OUTAGE: the subscription was down then.
    """

    NO_TIME = "no_time"
    CLOCK = "clock"
    OUTAGE = "outage"


Why = Cause | Flaw | OomKill


class Finding(NamedTuple):
    """One verdict on (container id, lifecycle event), with the details for a log line.

    `rule`: what the runtime never announces, if that is the cause. `seconds`: since the exit, or
    since its announcement, where that was measured. `before`: a contradiction that stood already
    when observation began, so that an earlier process may have counted it. `other`: the id of the
    older twin. `limit`: whose memory limit it was, of a ghost, too, that an OOM kill ended.
    """

    verdict: Verdict
    event: Lifecycle
    kind: ObjectKind
    container_id: str
    name: str = ""
    pod: Pod | None = None
    cause: Why | None = None
    rule: Never | None = None
    seconds: float | None = None
    before: bool = False
    other: str = ""
    limit: Limit | None = None


class Outcome(NamedTuple):
    """The result of taking one fact.

    `doubts`: containers for which only `ContainerStatus` can say whether they ran. The other
    fields apply to announcements: the kind of object, whether it only repeats what another
    subscription delivered, after how many seconds it came, if that is known and it is no backlog,
    and why the delay of an exit is not known.
    """

    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
    kind: ObjectKind = ObjectKind.CONTAINER
    copy: bool = False
    delay: float | None = None
    untimed: Untimed | None = None


NOTHING: Final = Outcome()
