"""Decodes events into facts. Malformed content is counted, never raised.

Source: `proto/runtime_v1.proto`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import DecodeError

from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.entries import is_crowded
from exporter.cri.fields import Fields
from exporter.model.events import Announcement, EventType, Inquiry, ObjectKind, Pod
from exporter.model.labels import Malformed

EVENT_TYPES: Final[dict[int, EventType]] = {int(event): event for event in EventType}
_CONTAINER: Final = ObjectKind.CONTAINER
_SANDBOX: Final = ObjectKind.SANDBOX
_STARTED: Final = Inquiry.STARTED
_NEVER_STARTED: Final = Inquiry.NEVER_STARTED
_STOPPED: Final = EventType.STOPPED
_EXITED: Final = pb.CONTAINER_EXITED
# A clock may be stepped; a timestamp further ahead than this is meaningless.
_FUTURE_NS: Final = 300 * 10**9
_KNOWN_PODS: Final = 256


def inquiry_of(status: pb.ContainerStatus) -> Inquiry:
    """Whether a container that does not run any more ever ran."""
    return _STARTED if status.started_at > 0 else _NEVER_STARTED


@dataclass(slots=True)
class Decoder(Fields):
    """Decodes events, and counts their flaws in `flaws`."""

    # A sandbox is announced a dozen times, and its metadata never change.
    _pods: dict[str, Pod] = field(default_factory=dict)

    def event(
        self, raw: bytes, received: float, received_ns: int, stream: int
    ) -> tuple[Announcement, list[tuple[str, Inquiry]]] | None:
        """One event, and which exited containers of the pod ever ran.

        None if it names no container or no known event type.
        """
        try:
            if len(raw) > limits.UNCOUNTED_BYTES and is_crowded(raw):
                self.flaws[Malformed.TOO_LARGE] += 1
                return None
            message = pb.ContainerEventResponse.FromString(raw)
        except DecodeError:
            self.flaws[Malformed.UNDECODABLE] += 1
            return None
        # Each access to a message field creates a new object, so access it only once.
        event, container_id = EVENT_TYPES.get(message.container_event_type), message.container_id
        if event is None:
            self.flaws[Malformed.UNKNOWN_EVENT] += 1
        if event is None or not self.is_id(container_id):
            return None
        created_at_ns = message.created_at
        if not 0 < created_at_ns <= received_ns + _FUTURE_NS:
            self.flaws[Malformed.BAD_TIME] += 1
            created_at_ns = 0
        sandbox_id, kind, pod = "", None, None
        if message.HasField("pod_sandbox_status"):
            sandbox = message.pod_sandbox_status
            sandbox_id = self.cut(sandbox.id)
            pod = self._pods.get(sandbox_id) or self._new_pod(sandbox, sandbox_id)
            if sandbox_id:
                kind = _SANDBOX if sandbox_id == container_id else _CONTAINER
        exited: list[tuple[str, Inquiry]] = []
        ended_ns: int | None = None
        if statuses := message.containers_statuses:
            exited, ended_ns = _exits(statuses, container_id if event is _STOPPED else None)
        announcement = Announcement(
            container_id,
            event,
            received,
            created_at_ns,
            kind,
            sandbox_id,
            pod,
            stream,
            received_ns,
            ended_ns,
        )
        return announcement, exited

    def _new_pod(self, sandbox: pb.PodSandboxStatus, sandbox_id: str) -> Pod | None:
        pod = self.pod(sandbox)
        if pod is not None and sandbox_id:
            if len(self._pods) >= _KNOWN_PODS:
                self._pods.clear()
            self._pods[sandbox_id] = pod
        return pod


def _exits(
    statuses: Iterable[pb.ContainerStatus], stopped: str | None
) -> tuple[list[tuple[str, Inquiry]], int | None]:
    """Which exited containers ever ran; and the `finished_at` of the one that stopped.

    None without a status of that one, 0 if it tells nothing.
    """
    exited: list[tuple[str, Inquiry]] = []
    ended_ns: int | None = None
    for status in statuses:
        has_exited = status.state == _EXITED
        if has_exited or stopped is not None:
            status_id = status.id
            if has_exited:
                exited.append((status_id, inquiry_of(status)))
            if status_id == stopped:
                ended_ns = max(0, status.finished_at)
    return exited, ended_ns
