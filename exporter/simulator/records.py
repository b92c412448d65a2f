"""The immutable records shared by the simulator's modules: objects and announcements."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.pleg.events import EventType, ListedState


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """A sandbox as the runtime lists it; times are in nanoseconds since the epoch."""

    id: str
    name: str
    uid: str
    namespace: str
    created_at_ns: int
    ready: bool = True

    @property
    def state(self) -> ListedState:
        """READY is RUNNING and NOTREADY is EXITED, as everywhere in PLEG."""
        return ListedState.RUNNING if self.ready else ListedState.EXITED


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container as the runtime lists it; `started_at_ns` is 0 if it never ran.

    `deleted_below`: the CRI still lists it, but the underlying runtime does not.
    """

    id: str
    sandbox_id: str
    name: str
    attempt: int
    created_at_ns: int
    state: ListedState = ListedState.CREATED
    started_at_ns: int = 0
    finished_at_ns: int = 0
    deleted_below: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """One announcement in transit. `sandbox` is None if it carries no status.

    `payload`, if given, is sent as is, instead of all the rest.
    """

    container_id: str
    type: EventType
    created_at_ns: int
    sandbox: SandboxRecord | None = None
    payload: bytes | None = None
