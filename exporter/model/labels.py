"""Values of metrics' labels, and other words that several packages share."""

from enum import Enum
from typing import Final, NamedTuple


class IdentityEnum(Enum):
    """An Enum whose members use the identity hash; Enum's own `__hash__` runs in Python."""

    __hash__ = object.__hash__


class Malformed(Enum):
    """A flaw in a runtime's message that does not make it useless as a whole."""

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
    """`what` is wrong with an event, and what a kubelet that takes states from it `does` then.

    `pkg/kubelet/pleg/evented.go` of k/k: one that lies is worse than one that is lost.
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
    """What became of an OOM kill, by the runtime's word; or a word without one.

    ANNOUNCED: its container ended by it, as OOMKilled. ANNOUNCED_AS_ERROR: it did, and was
    announced with 137 and another reason. UNANNOUNCED: its container has ended, and no announcement
    says how. SURVIVED: its container runs on, or ended otherwise. REASON_ONLY: OOMKilled was
    announced of an end that no kill made. UNATTRIBUTED: the node had it, and no container is known.
    """

    ANNOUNCED = "announced"
    ANNOUNCED_AS_ERROR = "announced_as_error"
    UNANNOUNCED = "unannounced"
    SURVIVED = "survived"
    REASON_ONLY = "reason_only"
    UNATTRIBUTED = "unattributed"


class Limit(IdentityEnum):
    """Whose memory limit an OOM kill was for. ABOVE: that of all pods, or the node's memory."""

    CONTAINER = "the container's own"
    POD = "its pod's"
    ABOVE = "the node's, or that of all pods"
    UNKNOWN = "not known"


class OomWitness(Enum):
    """Whether OOM kills are counted; exactly one at a time.

    `COUNTING`: each pod's own count is kept until it is read. `PARTLY`: a container's is gone with
    it, so that the node's count and the runtime's word make up for it. `UNAVAILABLE`: there is
    nothing to read.
    """

    COUNTING = "counting"
    PARTLY = "partly"
    UNAVAILABLE = "unavailable"
    OFF = "off"


class Call(IdentityEnum):
    """A call to the runtime that a relist, or a question about a container, consists of."""

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
    """Something that a runtime never announces; STOPPED_MEANS_RAN: see there."""

    SANDBOX_CREATED = "the creation of a sandbox"
    SANDBOX_REMOVED = "the removal of a sandbox"
    SANDBOX_FAILED = "a sandbox that failed to set up and is first listed NOTREADY"
    FAILED_START = "the exit of a container whose start failed"
    REMOVED_WITH_SANDBOX = "the removal of a container inside RemovePodSandbox"
    FORCED_REMOVAL = "the exits when a READY sandbox is removed"
    DELETED_BELOW = "the removal of a container that was deleted behind the CRI"
    STOPPED_MEANS_RAN = "STOPPED only for containers that ran (it comes for all)"


# The reason of an end which the runtime made without an error.
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

    `POLLING`: it is read beside each relist, and the kernel notifies not all changes in between.
    `UNAVAILABLE`: there is nothing to read, or not the listed containers.
    """

    WATCHING = "watching"
    POLLING = "polling"
    UNAVAILABLE = "unavailable"
    OFF = "off"


class KubeletPods(Enum):
    """Whether the kubelet's pods are watched; exactly one at a time.

    `UNAVAILABLE`: no kubelet shows them, or not now. `DENIED`: this process may not connect.
    """

    WATCHING = "watching"
    UNAVAILABLE = "unavailable"
    DENIED = "denied"
    OFF = "off"


class PodsEnd(Enum):
    """Why the kubelet's pods are not, or no longer, watched.

    `NOT_SYNCHRONIZED`: the kubelet does not know them all yet. `LAGGED`: it dropped this client,
    which read too slowly. `OVERFLOW`: this process dropped what it cannot take.
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
    """Why a client got no page."""

    CONNECTIONS = "connections"
    CREDENTIALS = "credentials"
    HANDSHAKE = "handshake"
    HOST = "host"
    RATE = "rate"
