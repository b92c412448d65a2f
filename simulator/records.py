"""The simulator's immutable records, their CRI messages, and how to add a flaw to one."""

from dataclasses import dataclass
from typing import Final

from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.decode import CONTAINER_STATES
from exporter.model.events import EventType, ListedState, ObjectKind
from exporter.model.labels import Flaw

_CONTAINER_STATE: Final = {
    state: cri.ContainerState.Name(number) for number, state in CONTAINER_STATES.items()
}
_LATE_NS = 10 * 10**9
_STATES = {
    cri.CONTAINER_STARTED_EVENT: cri.CONTAINER_CREATED,
    cri.CONTAINER_STOPPED_EVENT: cri.CONTAINER_RUNNING,
}


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container as the runtime lists it; times are in nanoseconds since the epoch.

    `started_at_ns` is 0 if it never ran.
    """

    id: str
    sandbox_id: str
    name: str
    attempt: int
    created_at_ns: int
    state: ListedState = ListedState.CREATED
    started_at_ns: int = 0
    finished_at_ns: int = 0
    exit_code: int = 0

    def item(self) -> cri.Container:
        """Its entry in ListContainers."""
        return cri.Container(
            id=self.id,
            pod_sandbox_id=self.sandbox_id,
            metadata=cri.ContainerMetadata(name=self.name, attempt=self.attempt),
            state=_CONTAINER_STATE[self.state],
            created_at=self.created_at_ns,
        )

    def status(self) -> cri.ContainerStatus:
        """Its status as ContainerStatus shows it."""
        return cri.ContainerStatus(
            id=self.id,
            state=_CONTAINER_STATE[self.state],
            created_at=self.created_at_ns,
            started_at=self.started_at_ns,
            finished_at=self.finished_at_ns,
            exit_code=self.exit_code,
        )


@dataclass(frozen=True, slots=True)
class Notice:
    """One announcement in transit; `payload` is its message."""

    container_id: str
    type: EventType
    kind: ObjectKind
    payload: bytes
    flaw: Flaw | None = None


def own_status(message: cri.ContainerEventResponse) -> cri.ContainerStatus | None:
    """The container's own status; none of a sandbox, and none any more in a DELETED."""
    found = (each for each in message.containers_statuses if each.id == message.container_id)
    return next(found, None)


def possible(message: cri.ContainerEventResponse, *, timed: bool) -> list[Flaw]:
    """The flaws that it can have. `timed`: its container's creation was sent."""
    has_own, event = own_status(message) is not None, message.container_event_type
    can = {
        Flaw.OUT_OF_ORDER: event == cri.CONTAINER_CREATED_EVENT,
        Flaw.NO_POD: message.HasField("pod_sandbox_status"),
        Flaw.NO_STATUS: has_own,
        Flaw.EMPTY_STATUS: True,
        Flaw.WRONG_STATE: has_own and event in _STATES,
        Flaw.WRONG_TIME: timed and has_own and event == cri.CONTAINER_STOPPED_EVENT,
    }
    return [flaw for flaw, may in can.items() if may]


def spoil(message: cri.ContainerEventResponse, flaw: Flaw) -> None:
    """Add a possible flaw; OUT_OF_ORDER changes nothing in the message."""
    own = own_status(message)
    if flaw is Flaw.NO_POD:
        message.pod_sandbox_status.ClearField("metadata")
    elif flaw is Flaw.EMPTY_STATUS:
        message.containers_statuses.add()
    elif own is not None and flaw is Flaw.NO_STATUS:
        message.containers_statuses.remove(own)
    elif own is not None and flaw is Flaw.WRONG_STATE:
        own.state = _STATES[message.container_event_type]
    elif own is not None and flaw is Flaw.WRONG_TIME:
        own.state = cri.CONTAINER_EXITED
        own.finished_at = message.created_at + _LATE_NS
