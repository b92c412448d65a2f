"""The vocabulary: states, lifecycle events, and the facts the two witnesses bring.

Here: enums and immutable facts only; those of which there are many are tuples,
which cost a third of a frozen dataclass to make. Not here: what follows from them (`relist`
for transitions, `ledger` for verdicts).
Source: kubelet's `pkg/kubelet/pleg` and the CRI's `runtime.v1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple


class Quick(Enum):
    """An Enum whose members hash as the single objects they are: Enum's own hash is Python."""

    __hash__ = object.__hash__


class ObjectKind(Quick):
    """What an id names. The CRI announces both through the same event type."""

    CONTAINER = "container"
    SANDBOX = "sandbox"


class Lifecycle(IntEnum):
    """PLEG's lifecycle events, in the order in which one container meets them."""

    __hash__ = int.__hash__

    CHANGED = 0
    STARTED = 1
    DIED = 2
    REMOVED = 3

    @property
    def label(self) -> str:
        """The kubelet's name of the event, as exported."""
        return _LIFECYCLE_LABELS[self]


_LIFECYCLE_LABELS = {
    Lifecycle.CHANGED: "ContainerChanged",
    Lifecycle.STARTED: "ContainerStarted",
    Lifecycle.DIED: "ContainerDied",
    Lifecycle.REMOVED: "ContainerRemoved",
}


class EventType(IntEnum):
    """The CRI's `ContainerEventType`; the numbers are those on the wire."""

    __hash__ = int.__hash__

    CREATED = 0
    STARTED = 1
    STOPPED = 2
    DELETED = 3

    @property
    def announces(self) -> Lifecycle:
        """The one lifecycle event that this announcement stands for."""
        return ANNOUNCES[self]


ANNOUNCES = {
    EventType.CREATED: Lifecycle.CHANGED,
    EventType.STARTED: Lifecycle.STARTED,
    EventType.STOPPED: Lifecycle.DIED,
    EventType.DELETED: Lifecycle.REMOVED,
}


class ListedState(Quick):
    """A state as the lists show it; sandboxes are READY=RUNNING, NOTREADY=EXITED."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class Pod(NamedTuple):
    """Whose container it is; for logs and exemplars, never for labels."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class Listed(NamedTuple):
    """One sandbox or container in a relist. `sandbox_id` of a sandbox is its own id."""

    id: str
    kind: ObjectKind
    state: ListedState
    sandbox_id: str = ""
    name: str = ""
    pod: Pod | None = None


@dataclass(frozen=True, slots=True)
class Relist:
    """A successful relist: what both lists showed, somewhere between its two times.

    `requested_wall_ns` is the wall clock at `requested`, for comparison with
    the `created_at` of events.
    """

    requested: float
    completed: float
    requested_wall_ns: int
    items: tuple[Listed, ...]


class Announcement(NamedTuple):
    """One event of the stream. `kind` is None when the runtime sent no sandbox status.

    `created_at_ns` is 0 when the runtime gave no usable time;
    `received_wall_ns` is the wall clock at `received`. `stream` numbers the
    subscription that brought it: a copy with the same `created_at_ns` is a
    duplicate only on the same one.
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


class Inquiry(Enum):
    """What `ContainerStatus` told about one container. No answer is no fact.

    `DELETED_BELOW`: the CRI still lists it, the runtime under it does not.
    """

    STARTED = "started"
    NEVER_STARTED = "never_started"
    DELETED_BELOW = "deleted_below"
