"""Lists and events of realistic size for load tests, serialised before any client asks.

The exporter's own messages lack labels and annotations, most of a real message: these are appended.
"""

import hashlib
import random
from typing import Final

from conformance.cri_client import encoded, entries
from exporter.cri import runtime_v1_pb2 as pb
from testbed.http2 import framed

_CREATED_NS: Final = 1_700_000_000_000_000_000
# Field numbers of labels and annotations, which the trimmed messages do not have.
_MORE: Final = {pb.PodSandbox: (5, 6), pb.Container: (8, 9), pb.PodSandboxStatus: (7, 8)}
# An entry of a list, for a pod of a Deployment with a service mesh.
_ENTRY_BYTES: Final = 1024
_NOTE_BYTES: Final = 220
# One entry in a hundred changes from one list to the next.
_CHANGES: Final = 100
_KINDS: Final = 4
_EVENTS_OF_A_POD: Final = 2 * _KINDS


class World:
    """Running pods. No two lists are alike: their order changes, and some annotations."""

    def __init__(self, pods: int, containers: int) -> None:
        self._sandboxes: list[bytes] = []
        self._containers: list[bytes] = []
        self._lists = 0
        self._draw = random.Random(0)  # noqa: S311 -- no secret; each run has the same lists
        for pod in range(pods):
            sandbox = pb.PodSandbox(
                id=_id(f"sandbox {pod}"),
                metadata=_metadata(pod),
                state=pb.SANDBOX_READY,
                created_at=_CREATED_NS,
            )
            self._sandboxes.append(encoded({1: _filled(sandbox, pod, _ENTRY_BYTES)}))
            for number in range(containers):
                container = pb.Container(
                    id=_id(f"container {pod} {number}"),
                    pod_sandbox_id=sandbox.id,
                    metadata=pb.ContainerMetadata(name=f"container-{number}"),
                    state=pb.CONTAINER_RUNNING,
                    created_at=_CREATED_NS,
                )
                self._containers.append(encoded({1: _filled(container, pod, _ENTRY_BYTES)}))

    def sandboxes(self) -> bytes:
        """The next answer to ListPodSandbox."""
        return self._listed(self._sandboxes)

    def containers(self) -> bytes:
        """The next answer to ListContainers."""
        return self._listed(self._containers)

    def _listed(self, entries: list[bytes]) -> bytes:
        self._lists += 1
        # An entry ends with the text of its last annotation.
        tail = b"%08d" % self._lists
        for number in self._draw.sample(range(len(entries)), -(-len(entries) // _CHANGES)):
            entries[number] = entries[number][: -len(tail)] + tail
        self._draw.shuffle(entries)
        return b"".join(entries)


class Events:
    """The four events of one container after another, two to a pod, all of about one size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._serial = 0
        status = pb.PodSandboxStatus(metadata=_metadata(0), state=pb.SANDBOX_READY)
        self._status = _filled(status, 0, size - len(self._event(0, b"", _CREATED_NS)))

    def take(self, count: int, now_ns: int) -> list[bytes]:
        """The next events, each with gRPC's prefix."""
        first, self._serial = self._serial, self._serial + count
        serials = range(first, self._serial)
        return [framed(self._event(serial, self._status, now_ns)) for serial in serials]

    @staticmethod
    def _event(serial: int, status: bytes, now_ns: int) -> bytes:
        event = pb.ContainerEventResponse(
            container_id=f"{serial // _KINDS:064x}",
            container_event_type=pb.ContainerEventType.Name(serial % _KINDS),
            created_at=now_ns,
        )
        sandbox = encoded({1: b"%064x" % (serial // _EVENTS_OF_A_POD)})
        return event.SerializeToString() + encoded({4: sandbox + status})


def introduction(name: str = "containerd", version: str = "v2.1.9") -> bytes:
    """The answer to Version; by default of a runtime that sends each event to all."""
    return pb.VersionResponse(
        version="0.1.0", runtime_name=name, runtime_version=version, runtime_api_version="v1"
    ).SerializeToString()


def _metadata(pod: int) -> pb.PodSandboxMetadata:
    return pb.PodSandboxMetadata(
        name=f"workload-{pod:05}-7d9f8b6c5d-x2x4z",
        uid=f"{pod:08x}-1e5c-4f8e-9a55-0123456789ab",
        namespace=f"team-{pod % 20}",
    )


def _filled(
    message: pb.PodSandbox | pb.Container | pb.PodSandboxStatus, pod: int, size: int
) -> bytes:
    """A message of that pod with labels, and annotations up to that size."""
    of_labels, of_annotations = _MORE[type(message)]
    its = _metadata(pod)
    names = {"name": its.name, "namespace": its.namespace, "uid": its.uid}
    labels = {f"io.kubernetes.pod.{key}": value for key, value in names.items()}
    if isinstance(message, pb.Container):
        labels["io.kubernetes.container.name"] = message.metadata.name
    whole = message.SerializeToString() + encoded({of_labels: entries(labels)})
    count, rest = divmod(max(0, size - len(whole)), _NOTE_BYTES)
    sizes = [rest] + [_NOTE_BYTES] * count
    keys = (f"example.org/note-{index}" for index in range(len(sizes)))
    notes = {key: "x" * (size - len(key) - 8) for key, size in zip(keys, sizes, strict=True)}
    return whole + encoded({of_annotations: entries(notes)})


def _id(seed: str) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()
