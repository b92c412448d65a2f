"""Encodes the simulator's records as CRI messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from exporter.cri import runtime_v1_pb2 as cri
from exporter.pleg.events import ListedState
from exporter.simulator.records import ContainerRecord, Notice, SandboxRecord

_CONTAINER_STATE: Final = {
    ListedState.CREATED: cri.CONTAINER_CREATED,
    ListedState.RUNNING: cri.CONTAINER_RUNNING,
    ListedState.EXITED: cri.CONTAINER_EXITED,
    ListedState.UNKNOWN: cri.CONTAINER_UNKNOWN,
}


def event(notice: Notice) -> bytes:
    """An announcement as GetContainerEvents sends it."""
    if notice.payload is not None:
        return notice.payload
    sandbox = notice.sandbox
    return cri.ContainerEventResponse(
        container_id=notice.container_id,
        container_event_type=cri.ContainerEventType.Name(notice.type),
        created_at=notice.created_at_ns,
        pod_sandbox_status=None if sandbox is None else _sandbox_status(sandbox),
    ).SerializeToString()


def sandbox_list(records: Iterable[SandboxRecord]) -> cri.ListPodSandboxResponse:
    """The answer to ListPodSandbox."""
    return cri.ListPodSandboxResponse(
        items=[
            cri.PodSandbox(
                id=record.id,
                metadata=_metadata(record),
                state=_sandbox_state(record),
                created_at=record.created_at_ns,
            )
            for record in records
        ]
    )


def container_list(records: Iterable[ContainerRecord]) -> cri.ListContainersResponse:
    """The answer to ListContainers."""
    return cri.ListContainersResponse(
        containers=[
            cri.Container(
                id=record.id,
                pod_sandbox_id=record.sandbox_id,
                metadata=cri.ContainerMetadata(name=record.name, attempt=record.attempt),
                state=_CONTAINER_STATE[record.state],
                created_at=record.created_at_ns,
            )
            for record in records
        ]
    )


def split_sandboxes(payload: bytes, size: int) -> Iterator[bytes]:
    """Split a list of sandboxes into messages of StreamPodSandboxes, `size` items each."""
    items = cri.ListPodSandboxResponse.FromString(payload).items
    for at in range(0, len(items), size):
        yield cri.ListPodSandboxResponse(items=items[at : at + size]).SerializeToString()


def split_containers(payload: bytes, size: int) -> Iterator[bytes]:
    """Split a list of containers into messages of StreamContainers, `size` items each."""
    items = cri.ListContainersResponse.FromString(payload).containers
    for at in range(0, len(items), size):
        yield cri.ListContainersResponse(containers=items[at : at + size]).SerializeToString()


def container_status(record: ContainerRecord) -> cri.ContainerStatusResponse:
    """The answer to ContainerStatus."""
    return cri.ContainerStatusResponse(
        status=cri.ContainerStatus(
            id=record.id,
            state=_CONTAINER_STATE[record.state],
            created_at=record.created_at_ns,
            started_at=record.started_at_ns,
            finished_at=record.finished_at_ns,
        )
    )


def _sandbox_status(record: SandboxRecord) -> cri.PodSandboxStatus:
    return cri.PodSandboxStatus(
        id=record.id, metadata=_metadata(record), state=_sandbox_state(record)
    )


def _metadata(record: SandboxRecord) -> cri.PodSandboxMetadata:
    return cri.PodSandboxMetadata(name=record.name, uid=record.uid, namespace=record.namespace)


def _sandbox_state(record: SandboxRecord) -> cri.PodSandboxState:
    return cri.SANDBOX_READY if record.ready else cri.SANDBOX_NOTREADY
