"""Every fact that a ledger can take, as immutable types.

`at` is the time at which the observer learnt the fact. `Announcement` is in `events`.
"""

from dataclasses import dataclass

from exporter.model.events import Announcement, Inquiry, Listed, Pod, Status
from exporter.model.labels import Limit


@dataclass(frozen=True, slots=True)
class StreamAsked:
    """A subscription was requested; it does not carry events yet."""

    at: float


@dataclass(frozen=True, slots=True)
class StreamUp:
    """The subscription that was requested at `asked` carries events."""

    at: float
    asked: float


@dataclass(frozen=True, slots=True)
class StreamUnproven:
    """Only a renewed subscription is left, and no event shows yet that the runtime serves it."""

    at: float


@dataclass(frozen=True, slots=True)
class StreamDown:
    """The subscription ended, or never existed."""

    at: float


@dataclass(frozen=True, slots=True)
class StreamRefused:
    """There is no stream to judge: it is unsupported, disabled or refused."""

    at: float


@dataclass(frozen=True, slots=True)
class Discarded:
    """This process dropped events of any container from `at` to `until` (None: a single event).

    No other fact lies in between.
    """

    at: float
    until: float | None = None
    events: int = 1


@dataclass(frozen=True, slots=True)
class Unread:
    """An event of that container came but could not be read."""

    at: float
    container_id: str


@dataclass(frozen=True, slots=True)
class Inquired:
    """`ContainerStatus` answered."""

    at: float
    container_id: str
    answer: Inquiry


@dataclass(frozen=True, slots=True)
class CgroupChanged:
    """The container's cgroup has processes now, or has none any more, or is gone.

    Only changes are facts, in order: a new cgroup is a change only once it has processes. `at`:
    when the change was seen. `at_wall_ns`: when it happened, if a notification of the kernel was
    read at once; else 0, and it may have happened at any time since the last complete read.
    `pod_uid`: "" if unknown.
    """

    container_id: str
    pod_uid: str
    populated: bool
    at: float
    at_wall_ns: int = 0


@dataclass(frozen=True, slots=True)
class CgroupsRead:
    """All cgroups were read, from `requested` on; changes that the read showed are earlier facts.

    It comes right before each relist; the read begins when the lists are requested, or later. All
    ids are of containers that the lists show running. `dead`: this read proves that they have no
    process; None if not looked for. `frozen`: their processes are frozen. `moved`: containers and
    sandboxes without processes of their own, which may be elsewhere in their pod. `killed`: dead
    containers whose own cgroup has counted an OOM kill.
    """

    requested: float
    dead: tuple[str, ...] | None = None
    frozen: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CgroupsLost:
    """The cgroups cannot be read any more: what they showed is void until the next read."""

    at: float


@dataclass(frozen=True, slots=True)
class Killed:
    """The kernel's out-of-memory killer killed processes; the count was read at `at`.

    `container_id`: "" if only the pod's count shows the kill; `pod_uid`: "" if unknown. `number`:
    how many kills; that of a whole group is one. `processes`: by how much they raise the node's own
    count, to which a kill of a whole group adds its processes and one more.
    """

    at: float
    container_id: str
    pod_uid: str
    number: int
    processes: int
    limit: Limit = Limit.UNKNOWN


@dataclass(frozen=True, slots=True)
class KillsCounted:
    """How many OOM kills of processes the node has had since the counts were first read.

    All counts of pods and containers were read after the node's. `number` is None if the counts
    cannot be read any more.
    """

    at: float
    number: int | None


@dataclass(frozen=True, slots=True)
class Believed:
    """The kubelet shows a pod for the first time, differently, or not any more; received at `at`.

    `changed`: containers that are new or changed. `gone`: ids of containers no longer shown.
    `removed`: the kubelet has dropped the pod, whose containers may take `patience` seconds to end.
    `asked`: this answers a question about the pod; what is not in `changed` or `gone` is as before.
    `due`: when the containers must have ended, if the pod is terminating and has no finalizer.
    """

    at: float
    pod: Pod
    changed: tuple[Status, ...]
    gone: tuple[str, ...]
    removed: bool = False
    patience: float = 0.0
    asked: bool = False
    due: float | None = None


@dataclass(frozen=True, slots=True)
class BeliefsShown:
    """The kubelet has shown all its pods: all that follows are changes.

    `restarted`: it may have started just before, and then shows states it has not checked itself.
    """

    at: float
    restarted: bool = False


@dataclass(frozen=True, slots=True)
class BeliefsLost:
    """The kubelet's pods cannot be watched any more: what it showed is void."""

    at: float


@dataclass(frozen=True, slots=True)
class ProfileChosen:
    """The runtime identified itself; the profile for that name and version applies from now on."""

    at: float
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class ClockSet:
    """The wall clock was set forward by `seconds`, or back if that is negative.

    Noticed at `at`, before any other fact of that time. A machine that slept counts, too: its
    monotonic clock stood still meanwhile.
    """

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Relist:
    """A successful relist, as the difference from the one before; the first, from an empty list.

    The lists were requested at `requested` and complete at `completed`. `listed`: number of ids.
    `changed`: new or changed items, sandboxes first. `gone`: ids no longer listed.
    """

    requested: float
    completed: float
    listed: int
    changed: tuple[Listed, ...]
    gone: tuple[str, ...]


StreamFact = StreamAsked | StreamUp | StreamUnproven | StreamDown | StreamRefused
KernelFact = CgroupChanged | CgroupsRead | CgroupsLost | Killed | KillsCounted
KubeletFact = Believed | BeliefsShown | BeliefsLost
LocalFact = Discarded | Unread | Inquired | ProfileChosen | ClockSet
OtherFact = Relist | StreamFact | KernelFact | KubeletFact | LocalFact
Fact = Announcement | OtherFact


def learnt(fact: Fact) -> float:
    """The time at which the observer learnt the fact; a ledger must take facts in that order."""
    if isinstance(fact, Announcement):
        return fact.received
    if isinstance(fact, Relist):
        return fact.completed
    if isinstance(fact, CgroupsRead):
        return fact.requested
    return fact.at
