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
    """The subscription, which was requested at `asked`, carries events."""

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
    """An event of that container came, and could not be read."""

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

    Only changes are facts, in order; a first sight of processes is one, of none is not. `at`: when
    it was seen. `at_wall_ns`: when it happened, if the kernel's notification says so and was read
    at once; else 0, and it may have happened at any time since the last complete read. `pod_uid`:
    "" if unknown.
    """

    container_id: str
    pod_uid: str
    populated: bool
    at: float
    at_wall_ns: int = 0


@dataclass(frozen=True, slots=True)
class CgroupsRead:
    """All cgroups were read, beginning at `requested`; the changes that it showed came before.

    It comes right before each relist, and begins when the lists are requested or later. Of the
    containers that the lists show running: `dead`: those that provably have no process, in this
    read; None: nobody has looked. `frozen`: those whose processes are frozen. `moved`: those,
    sandboxes too, that have none of their own, and may have them elsewhere in their pod. `killed`:
    those of the dead whose own cgroups have counted an OOM kill.
    """

    requested: float
    dead: tuple[str, ...] | None = None
    frozen: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CgroupsLost:
    """The cgroups cannot be observed any more: what they showed is void until the next read."""

    at: float


@dataclass(frozen=True, slots=True)
class Killed:
    """The kernel killed processes for want of memory; read at `at`.

    `container_id`: "" if only its pod's count shows it; `pod_uid`: "" if unknown. `number`: of
    kills, as one counts them; `processes`: as the node's own count does, in which a kill of a whole
    group is its processes and one more.
    """

    at: float
    container_id: str
    pod_uid: str
    number: int
    processes: int
    limit: Limit = Limit.UNKNOWN


@dataclass(frozen=True, slots=True)
class KillsCounted:
    """The node has had so many OOM kills of processes since the counts were first read.

    All counts of pods and containers were read after that. None: they cannot be read any more.
    """

    at: float
    number: int | None


@dataclass(frozen=True, slots=True)
class Believed:
    """The kubelet shows a pod for the first time, differently, or not any more; received at `at`.

    `changed`: containers that are new or changed. `gone`: ids that it shows no more. `removed`: it
    has no such pod any more, whose containers may take `patience` seconds to end. `asked`: it was
    asked about this pod; what is not in `changed` or `gone` is as before. `due`: when its
    containers have to have ended, of a pod that is to be removed and that nothing but them keeps.
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
    """The kubelet has shown all its pods: what it shows from now on is news.

    `restarted`: it may have started just before, and then shows what it has not seen itself.
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
    """The wall clock was set forward by so many `seconds`, back if it is negative.

    Noticed at `at`, right before what else was learnt then. A machine that slept sets it, too: the
    monotonic clock stands still meanwhile.
    """

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Relist:
    """A successful relist, as the difference from the one before; from an empty list at first.

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
    """The time at which the observer learnt the fact; a ledger must take facts in this order."""
    if isinstance(fact, Announcement):
        return fact.received
    if isinstance(fact, Relist):
        return fact.completed
    if isinstance(fact, CgroupsRead):
        return fact.requested
    return fact.at
