"""The simulator's immutable records, and their CRI messages."""

from dataclasses import dataclass
from typing import Final

from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.decode import CONTAINER_STATES
from exporter.model.events import EventType, ListedState, ObjectKind
from exporter.model.labels import Flaw

_CONTAINER_STATE: Final = {
    state: cri.ContainerState.Name(number) for number, state in CONTAINER_STATES.items()
}


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """A sandbox as the runtime lists it; times are in nanoseconds since the epoch."""

    id: str
    name: str
    uid: str
    namespace: str
    created_at_ns: int
    ready: bool = True

    def item(self) -> cri.PodSandbox:
        """Its entry in ListPodSandbox."""
        return cri.PodSandbox(
            id=self.id,
            metadata={"name": self.name, "uid": self.uid, "namespace": self.namespace},
            state=cri.SANDBOX_READY if self.ready else cri.SANDBOX_NOTREADY,
            created_at=self.created_at_ns,
        )

    def status(self) -> cri.PodSandboxStatus:
        """Its status as announcements carry it."""
        item = self.item()
        return cri.PodSandboxStatus(id=item.id, metadata=item.metadata, state=item.state)


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container as the runtime lists it; `started_at_ns` is 0 if it never ran."""

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
    created_at_ns: int
    payload: bytes = b""
    flaw: Flaw | None = None
