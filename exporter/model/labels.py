"""Values of metrics' labels, and other enums that several packages share."""

from enum import Enum
from typing import Final, NamedTuple


class IdentityEnum(Enum):
    """An Enum whose members use the identity hash; Enum's own `__hash__` runs in Python."""

    __hash__ = object.__hash__


class Malformed(Enum):
    """Something malformed in a runtime's message; the rest of the message may be usable."""

    EMPTY_ID = "empty_id"
    UNKNOWN_STATE = "unknown_state"
    UNKNOWN_EVENT = "unknown_event"
    NO_METADATA = "no_metadata"
    BAD_TIME = "bad_time"
    UNDECODABLE = "undecodable"
    TOO_LONG = "too_long"
    TOO_LARGE = "too_large"
    NOT_ASCII = "not_ascii"
    NOT_UTF8 = "not_utf8"


class Flaw(IdentityEnum):
    """What is wrong with an event that came; `cri.flaws` has the rules."""

    OUT_OF_ORDER = "out_of_order"
    NO_POD = "no_pod"
    NO_STATUS = "no_status"
    EMPTY_STATUS = "empty_status"
    WRONG_STATE = "wrong_state"
    WRONG_TIME = "wrong_time"


class Meaning(NamedTuple):
    """`what` is wrong with an event, and what a kubelet that takes states from events `does` then.

    A wrong event is worse than a lost one. Source: `pkg/kubelet/pleg/evented.go` of k/k.
    """

    what: str
    does: str


MEANINGS: Final = {
    Flaw.OUT_OF_ORDER: Meaning(
        "came after a later step of its container, over the same subscription",
        "takes the older state for the newer one",
    ),
    Flaw.NO_POD: Meaning("names no pod", "ignores it"),
    Flaw.NO_STATUS: Meaning(
        "has no status of the container itself", "takes the pod for one without that container"
    ),
    Flaw.EMPTY_STATUS: Meaning("has a container status without an id", "may panic"),
    Flaw.WRONG_STATE: Meaning(
        "shows its container in another state: created where it started, or not exited where it"
        " stopped",
        "takes the wrong state",
    ),
    Flaw.WRONG_TIME: Meaning(
        "says that the container ended over five seconds before it started, or after the event was"
        " made",
        "puts the wrong time into the pod's status",
    ),
}


class OomKill(IdentityEnum):
    """What the runtime made of an OOM kill; or an OOMKilled reason without a kill.

    ANNOUNCED: the kill ended its container, announced as OOMKilled. ANNOUNCED_AS_ERROR: it ended
    its container, announced with exit code 137 and another reason. UNANNOUNCED: the container has
    ended, and no announcement says how. SURVIVED: the container runs on, or ended otherwise.
    REASON_ONLY: OOMKilled was announced of an exit that no kill caused. UNATTRIBUTED: the node
    counted the kill, and its container is not known.
    """

    ANNOUNCED = "announced"
    ANNOUNCED_AS_ERROR = "announced_as_error"
    UNANNOUNCED = "unannounced"
    SURVIVED = "survived"
    REASON_ONLY = "reason_only"
    UNATTRIBUTED = "unattributed"


class Limit(IdentityEnum):
    """Whose memory limit caused an OOM kill. ABOVE: that of all pods, or the node's memory."""

    CONTAINER = "the container's own"
    POD = "its pod's"
    ABOVE = "the node's, or that of all pods"
    UNKNOWN = "not known"


class OomWitness(Enum):
    """Whether OOM kills are counted; exactly one at a time.

    `COUNTING`: each pod's own count is kept until it is read. `PARTLY`: a container's count is gone
    with its cgroup; the node's count and the runtime's OOMKilled reasons make up for it.
    `UNAVAILABLE`: there is nothing to read.
    """

    COUNTING = "counting"
    PARTLY = "partly"
    UNAVAILABLE = "unavailable"
    OFF = "off"


class Call(IdentityEnum):
    """A call to the runtime, made for a relist or for a question about a container."""

    SANDBOXES = "list_pod_sandbox"
    CONTAINERS = "list_containers"
    STATUS = "container_status"


class StreamKind(Enum):
    """The effect of a second subscriber on the first one, the kubelet."""

    NONE = "none"
    EXCLUSIVE = "exclusive"
    FRAGILE = "fragile"
    BROADCAST = "broadcast"


class Never(IdentityEnum):
    """What a runtime never announces. STOPPED_ONLY_IF_RAN: its STOPPED does not show a start."""

    SANDBOX_CREATED = "the creation of a sandbox"
    SANDBOX_REMOVED = "the removal of a sandbox"
    SANDBOX_FAILED = "a sandbox that failed to set up and is first listed NOTREADY"
    FAILED_START = "the exit of a container whose start failed"
    FAILED_START_REMOVED = "the removal of a container whose start failed"
    REMOVED_WITH_SANDBOX = "the removal of a container inside RemovePodSandbox"
    FORCED_REMOVAL = "the exits when a READY sandbox is removed"
    DELETED_BELOW = "the removal of a container that was deleted behind the CRI"
    STOPPED_ONLY_IF_RAN = "STOPPED only for containers that ran (it comes for all)"


# The reason for the end of a stream that the runtime closed without an error.
EOF: Final = "eof"


class StreamState(Enum):
    """State of the subscription; exactly one at a time."""

    CONNECTING = "connecting"
    STREAMING = "streaming"
    BACKOFF = "backoff"
    DISABLED = "disabled"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"


# A stream in one of these states owes no announcements.
BY_CHOICE: Final = (StreamState.DISABLED, StreamState.REFUSED, StreamState.UNSUPPORTED)


class KernelWitness(Enum):
    """Whether the kernel's view of the containers is used; exactly one at a time.

    `POLLING`: cgroups are read beside each relist; the kernel does not notify all changes between.
    `UNAVAILABLE`: there is nothing to read, or the cgroups are not those of the listed containers.
    """

    WATCHING = "watching"
    POLLING = "polling"
    UNAVAILABLE = "unavailable"
    OFF = "off"


class KubeletPods(Enum):
    """Whether the kubelet's pods are watched; exactly one at a time.

    `UNAVAILABLE`: no kubelet serves them now. `DENIED`: this process may not connect.
    """

    WATCHING = "watching"
    UNAVAILABLE = "unavailable"
    DENIED = "denied"
    OFF = "off"


class PodsEnd(Enum):
    """Why the kubelet's pods are not, or no longer, watched.

    `NOT_SYNCHRONIZED`: the kubelet does not know all pods yet. `LAGGED`: the kubelet dropped this
    client because it read too slowly. `OVERFLOW`: the kubelet sent more than this process takes.
    """

    EOF = "eof"
    UNAVAILABLE = "unavailable"
    NOT_SYNCHRONIZED = "not_synchronized"
    LAGGED = "lagged"
    OVERFLOW = "overflow"
    MALFORMED = "malformed"
    DENIED = "denied"
    UNSUPPORTED = "unsupported"
    OTHER = "other"


class Refusal(Enum):
    """Why the HTTP server refused a client."""

    CONNECTIONS = "connections"
    CREDENTIALS = "credentials"
    HANDSHAKE = "handshake"
    HOST = "host"
    RATE = "rate"
