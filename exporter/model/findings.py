"""The ledger's output: one finding per verdict."""

from typing import Final, NamedTuple

from exporter.model.events import Lifecycle, ObjectKind, Pod
from exporter.model.labels import Flaw, IdentityEnum, Limit, Never, OomKill


class Verdict(IdentityEnum):
    """The outcome for one announcement or one proof.

    A MISSED has a cause. A LATE has the cause of the miss that it takes back. A GAP has one if an
    outage, a stall, another subscriber or this process may explain it.

    WITNESSED counts what the relist or the kernel proved and is the denominator. UNDECIDED: an exit
    whose announcement may not have been owed, since it cannot be known any more whether the
    container ever ran. OVERFLOW: the stream named more unknown containers than the ledger holds, so
    the event was dropped. GHOST: listed as running, although its last process has ended. STRAY: not
    listed, or listed as ended, although its processes run. TWIN: it runs beside another container
    of the same pod and name. FROZEN: listed as running, and its processes are stopped until
    somebody thaws them.

    STALE: the kubelet shows a container running that has ended. DISAGREES: the kubelet shows
    another exit code or reason than the runtime announced. UNKNOWN_TO_KUBELET: a container runs,
    and the kubelet no longer has its pod. A pod should have ended, but: OVERDUE_PROCESS, one of its
    processes lives; OVERDUE_RUNTIME, none does, and the runtime lists a container running;
    OVERDUE_KUBELET, nothing of it runs, and the kubelet keeps the pod. FLAWED: an event came with
    wrong contents or out of order; the finding has the flaw in place of a cause.

    EXIT_ANNOUNCED, EXIT_LISTED and EXIT_BELIEVED are measurements: the stream, the first list, or
    the kubelet showed an exit whose time is known. EVENT_BELIEVED: the kubelet showed an exit that
    was announced. SLOW: the stream announced an exit later than the grace after it. OOM: the kernel
    OOM-killed a process, or the runtime says so; the finding has the kind in place of a cause.
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

    `STALLED`: the subscription was open, but delivered nothing, or nothing in time; who is at fault
    is not known. `SHARED`: another subscriber of an exclusive stream may have received the event.
    """

    SILENT = "silent"
    STALLED = "stalled"
    STREAM_DOWN = "stream_down"
    DISCARDED = "discarded"
    SHARED = "shared"
    BY_DESIGN = "by_design"


class Untimed(IdentityEnum):
    """Why the delay of an announced exit is not known.

    NO_TIME: neither the kernel nor the runtime reported the time of the exit. CLOCK: only the
    runtime did, and its time is in doubt. OUTAGE: the subscription was down at the exit.
    """

    NO_TIME = "no_time"
    CLOCK = "clock"
    OUTAGE = "outage"


Why = Cause | Flaw | OomKill


class Finding(NamedTuple):
    """One verdict on (container id, lifecycle event), with the details for a log line.

    `rule`: what the runtime never announces, if that is the cause. `seconds`: since the exit, or
    since its announcement, where that was measured. `before`: the contradiction began before
    observation, so an earlier process may have counted it. `other`: the id of the older twin,
    or of the container whose younger event shows that this one is lost.
    `limit`: whose memory limit caused an OOM kill; also for a ghost that an OOM kill ended.
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
    fields describe an announcement. `copy`: another subscription delivered the same one before.
    `delay`: seconds from its making to its arrival; None if unknown, or if it is backlog.
    `untimed`: why the delay of an exit is not known.
    """

    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
    kind: ObjectKind = ObjectKind.CONTAINER
    copy: bool = False
    delay: float | None = None
    untimed: Untimed | None = None


NOTHING: Final = Outcome()
