"""Messages of a runtime, good but for what a test changes, and what becomes of them."""

import time
from collections import Counter
from typing import Any

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import Decoder
from exporter.cri.lists import ListDecoder
from exporter.model.events import Announcement, EventType, Listed, Pod
from exporter.model.labels import Malformed

NOW_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000
GARBAGE = b"\xff\xff\xff no protobuf"
SHOP = Pod("shop", "cart", "uid-1")
METADATA = pb.PodSandboxMetadata(namespace="shop", name="cart", uid="uid-1")
Decoded = tuple[tuple[Listed, ...], Counter[Malformed]]


def sandbox(**changed: Any) -> pb.PodSandbox:
    """A ready sandbox, but for what is changed; None leaves a field out."""
    fields = {"id": "p1", "metadata": METADATA, "state": pb.SANDBOX_READY, "created_at": NOW_NS}
    return pb.PodSandbox(**_given(fields | changed))


def container(**changed: Any) -> pb.Container:
    fields = {
        "id": "c1",
        "pod_sandbox_id": "p1",
        "metadata": pb.ContainerMetadata(name="app"),
        "state": pb.CONTAINER_RUNNING,
        "created_at": NOW_NS,
    }
    return pb.Container(**_given(fields | changed))


def event(**changed: Any) -> bytes:
    fields = {
        "container_id": "c1",
        "container_event_type": pb.CONTAINER_STARTED_EVENT,
        "created_at": NOW_NS,
        "pod_sandbox_status": pb.PodSandboxStatus(id="p1", metadata=METADATA),
        "containers_statuses": [pb.ContainerStatus(id="c1", state=pb.CONTAINER_RUNNING)],
    }
    return pb.ContainerEventResponse(**_given(fields | changed)).SerializeToString()


def raw_event(
    container: str,
    what: EventType,
    created_at_ns: int | None = None,
    sandbox: pb.PodSandboxStatus | None = None,
) -> bytes:
    """An event without statuses of containers, made now unless `created_at_ns` says otherwise."""
    return event(
        container_id=container,
        container_event_type=what,
        created_at=time.time_ns() if created_at_ns is None else created_at_ns,
        pod_sandbox_status=sandbox,
        containers_statuses=None,
    )


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def lists(*items: pb.PodSandbox | pb.Container) -> tuple[bytes, bytes]:
    sandboxes = [item for item in items if isinstance(item, pb.PodSandbox)]
    containers = [item for item in items if isinstance(item, pb.Container)]
    return (
        pb.ListPodSandboxResponse(items=sandboxes).SerializeToString(),
        pb.ListContainersResponse(containers=containers).SerializeToString(),
    )


def decoded(*items: pb.PodSandbox | pb.Container) -> Decoded:
    decoder = ListDecoder()
    sandboxes, containers = lists(*items)
    return tuple(decoder.items([sandboxes], [containers])), decoder.flaws


def heard(raw: bytes) -> tuple[Announcement | None, Counter[Malformed]]:
    decoder = Decoder()
    decoded = decoder.event(raw, 12.5, NOW_NS, stream=3)
    return decoded[0] if isinstance(decoded, tuple) else None, decoder.flaws
