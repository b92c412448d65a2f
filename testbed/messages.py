"""Lists and events of realistic size for load tests, serialised before any client asks.

The exporter's own messages lack labels and annotations, most of a real message: these are appended.
"""

import hashlib
import random
from collections.abc import Mapping
from typing import Final

from conformance.wire import encoded, entries, field, varint
from exporter.cri import runtime_v1_pb2 as pb
from testbed.http2 import framed

_CREATED_NS: Final = 1_700_000_000_000_000_000
# Field numbers of labels and annotations, which the trimmed messages do not have.
_OF_SANDBOX, _OF_CONTAINER, _OF_STATUS = (5, 6), (8, 9), (7, 8)
# An entry of a list, for a pod of a Deployment with a service mesh.
_ENTRY_BYTES: Final = 1024
_NOTE_BYTES: Final = 220
# One entry in a hundred changes from one list to the next.
_CHANGES: Final = 100
# gRPC's prefix of a message: whether it is compressed, and its length.
_PREFIX_BYTES: Final = 5
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
            sandbox_id = _id(f"sandbox {pod}")
            self._sandboxes.append(field(1, _sandbox(pod, sandbox_id)))
            for number in range(containers):
                container_id = _id(f"container {pod} {number}")
                self._containers.append(field(1, _container(pod, number, container_id, sandbox_id)))

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
    """The four events of one container after another, two to a pod, all of one length."""

    def __init__(self, size: int) -> None:
        self._serial = 0
        # Ids, type and time are of fixed length, so only they are new in each event.
        fixed = len(self._message(0, b""))
        status = field(4, _sandbox_status(max(0, size - fixed - 4)))
        self._status, self._rest = status.split(_id("sandbox 0").encode(), 1)
        self.framed_size = _PREFIX_BYTES + fixed + len(status)
        self._prefix = framed(bytes(self.framed_size - _PREFIX_BYTES))[:_PREFIX_BYTES]

    def take(self, count: int, now_ns: int) -> list[bytes]:
        """The next events, each with gRPC's prefix."""
        stamp = varint(now_ns)
        first, self._serial = self._serial, self._serial + count
        prefix, status, rest = self._prefix, self._status, self._rest
        return [
            b"%b\x0a\x40%064x\x10%c\x18%b%b%064x%b"
            % (prefix, n // _KINDS, n % _KINDS, stamp, status, n // _EVENTS_OF_A_POD, rest)
            for n in range(first, first + count)
        ]

    @staticmethod
    def _message(serial: int, tail: bytes) -> bytes:
        return b"\x0a\x40%064x\x10%c\x18%b%b" % (serial, 0, varint(_CREATED_NS), tail)


def introduction(name: str = "containerd", version: str = "v2.1.9") -> bytes:
    """The answer to Version; by default of a runtime that sends each event to all."""
    return pb.VersionResponse(
        version="0.1.0", runtime_name=name, runtime_version=version, runtime_api_version="v1"
    ).SerializeToString()


def _sandbox(pod: int, sandbox_id: str) -> bytes:
    message = pb.PodSandbox(
        id=sandbox_id, metadata=_metadata(pod), state=pb.SANDBOX_READY, created_at=_CREATED_NS
    )
    return _filled(message.SerializeToString(), _OF_SANDBOX, _labels(pod), _ENTRY_BYTES)


def _container(pod: int, number: int, container_id: str, sandbox_id: str) -> bytes:
    name = f"container-{number}"
    message = pb.Container(
        id=container_id,
        pod_sandbox_id=sandbox_id,
        metadata=pb.ContainerMetadata(name=name),
        state=pb.CONTAINER_RUNNING,
        created_at=_CREATED_NS,
    )
    labels = _labels(pod) | {"io.kubernetes.container.name": name}
    return _filled(message.SerializeToString(), _OF_CONTAINER, labels, _ENTRY_BYTES)


def _sandbox_status(size: int) -> bytes:
    message = pb.PodSandboxStatus(
        id=_id("sandbox 0"), metadata=_metadata(0), state=pb.SANDBOX_READY
    )
    return _filled(message.SerializeToString(), _OF_STATUS, _labels(0), size)


def _metadata(pod: int) -> pb.PodSandboxMetadata:
    labels = _labels(pod)
    return pb.PodSandboxMetadata(
        name=labels["io.kubernetes.pod.name"],
        uid=labels["io.kubernetes.pod.uid"],
        namespace=labels["io.kubernetes.pod.namespace"],
    )


def _labels(pod: int) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": f"workload-{pod:05}-7d9f8b6c5d-x2x4z",
        "io.kubernetes.pod.namespace": f"team-{pod % 20}",
        "io.kubernetes.pod.uid": f"{pod:08x}-1e5c-4f8e-9a55-0123456789ab",
    }


def _filled(
    message: bytes, numbers: tuple[int, int], labels: Mapping[str, str], size: int
) -> bytes:
    message += encoded({numbers[0]: entries(labels)})
    count, rest = divmod(max(0, size - len(message)), _NOTE_BYTES)
    sizes = [rest] + [_NOTE_BYTES] * count
    keys = (f"example.org/note-{index}" for index in range(len(sizes)))
    notes = {key: "x" * (size - len(key) - 8) for key, size in zip(keys, sizes, strict=True)}
    return message + encoded({numbers[1]: entries(notes)})


def _id(seed: str) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()
