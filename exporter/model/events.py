"""States, lifecycle events, and the facts that relist and stream provide.

Enums and immutable facts only. High-volume facts are tuples: creating one costs a third of a frozen
dataclass. Before Python 3.12, `EventType.STOPPED` takes as long as a call, so code that runs for
each event keeps the members that it needs in constants of its module. Source: the kubelet's
`pkg/kubelet/pleg` and the CRI's `runtime.v1`.
"""

from enum import Enum, IntEnum
from typing import Final, NamedTuple

from exporter.model.labels import Flaw, IdentityEnum


class ObjectKind(IdentityEnum):
    """The kind of object behind an id. The CRI uses the same event types for both."""

    CONTAINER = "container"
    SANDBOX = "sandbox"


class Lifecycle(IntEnum):
    """PLEG lifecycle events, in the order in which a container goes through them."""

    __hash__ = int.__hash__

    CHANGED = 0
    STARTED = 1
    DIED = 2
    REMOVED = 3

    @property
    def label(self) -> str:
        """The kubelet's name for the event, as exported."""
        return _LIFECYCLE_LABELS[self]


_LIFECYCLE_LABELS: Final = {
    Lifecycle.CHANGED: "ContainerChanged",
    Lifecycle.STARTED: "ContainerStarted",
    Lifecycle.DIED: "ContainerDied",
    Lifecycle.REMOVED: "ContainerRemoved",
}


# Iterating over an Enum runs in Python; over this tuple it does not.
EVENTS: Final = tuple(Lifecycle)


class EventType(IntEnum):
    """The CRI's `ContainerEventType`, with the values used on the wire."""

    __hash__ = int.__hash__

    CREATED = 0
    STARTED = 1
    STOPPED = 2
    DELETED = 3

    @property
    def announces(self) -> Lifecycle:
        """The lifecycle event that this announcement corresponds to."""
        return ANNOUNCES[self]


ANNOUNCES: Final = {
    EventType.CREATED: Lifecycle.CHANGED,
    EventType.STARTED: Lifecycle.STARTED,
    EventType.STOPPED: Lifecycle.DIED,
    EventType.DELETED: Lifecycle.REMOVED,
}
ANNOUNCED_BY: Final = {event: announcement for announcement, event in ANNOUNCES.items()}


class ListedState(IdentityEnum):
    """The state in which a list shows an object; for sandboxes READY=RUNNING, NOTREADY=EXITED."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class Pod(NamedTuple):
    """The pod a container belongs to; for logs and exemplars, never for labels."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class Listed(NamedTuple):
    """One sandbox or container in a relist. For a sandbox, `sandbox_id` is its own id.

    `elsewhere`: this is a sandbox whose runtime handler keeps processes out of the containers'
    cgroups.
    """

    id: str
    kind: ObjectKind
    state: ListedState
    sandbox_id: str = ""
    name: str = ""
    pod: Pod | None = None
    elsewhere: bool = False


class Status(NamedTuple):
    """One container as the kubelet shows it: RUNNING, or EXITED with its exit code and reason."""

    id: str
    state: ListedState
    name: str = ""
    exit_code: int = 0
    reason: str = ""


class Flawed(NamedTuple):
    """What is wrong with an event, and what the event says about its own container.

    `statuses`: how many container statuses the event holds. `state`: None if its own container has
    no status there; then the times are 0.
    """

    flaws: tuple[Flaw, ...]
    statuses: int
    state: ListedState | None = None
    started_ns: int = 0
    finished_ns: int = 0


class Announcement(NamedTuple):
    """One event of the stream. `kind` is None when the runtime sent no sandbox status.

    `created_at_ns` is 0 when the runtime gave no usable time; `received_wall_ns` is the wall clock
    at `received`. `stream` numbers the subscription that delivered the event: a copy with the same
    `created_at_ns` is a duplicate only within one subscription. `ended_ns`: the `finished_at` of
    the container's own status in a STOPPED, 0 if unset; None if the event has no such status.
    `exit_code`, `reason`: from that status, if it shows the container as exited. `flawed`: None if
    the event by itself shows no flaw.
    """

    container_id: str
    type: EventType
    received: float
    created_at_ns: int
    kind: ObjectKind | None = None
    sandbox_id: str = ""
    pod: Pod | None = None
    stream: int = 0
    received_wall_ns: int = 0
    ended_ns: int | None = None
    exit_code: int | None = None
    reason: str = ""
    flawed: Flawed | None = None


class Inquiry(Enum):
    """The answer of `ContainerStatus` about one container. A missing answer is not a fact.

    `DELETED_BELOW`: the CRI still knows the container, but the underlying runtime does not.
    """

    STARTED = "started"
    NEVER_STARTED = "never_started"
    DELETED_BELOW = "deleted_below"
