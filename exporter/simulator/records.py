"""The records that cross the simulator's modules: what exists, and what is announced.

Here: frozen facts. Not here: their messages on the wire (`wire`).
"""

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
    """A container as the runtime lists it; `started_at_ns` is 0 when it never ran.

    `deleted_below`: the CRI still lists it, the runtime under it does not.
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
    """One announcement on its way. `sandbox` is None when it carries no status.

    `payload`, when given, goes over the wire as it is, instead of all the rest.
    """

    container_id: str
    type: EventType
    created_at_ns: int
    sandbox: SandboxRecord | None = None
    payload: bytes | None = None
