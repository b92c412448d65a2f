"""Decodes events, and checks texts. Malformed content is counted, never raised.

Source: `proto/runtime_v1.proto`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from google.protobuf.message import DecodeError

from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.entries import entries, is_crowded
from exporter.cri.flaws import EMPTY_STATUS, flawed, flaws_of
from exporter.model.events import Announcement, EventType, Inquiry, ListedState, ObjectKind, Pod
from exporter.model.facts import Discarded, Unread
from exporter.model.labels import Flaw, Malformed

EVENT_TYPES: Final[dict[int, EventType]] = {int(event): event for event in EventType}
_CONTAINER: Final = ObjectKind.CONTAINER
_SANDBOX: Final = ObjectKind.SANDBOX
_STARTED: Final = Inquiry.STARTED
_NEVER_STARTED: Final = Inquiry.NEVER_STARTED
_STOPPED: Final = EventType.STOPPED
_EXITED: Final = pb.CONTAINER_EXITED
_KNOWN_PODS: Final = 256
_NO_END: Final = None, None, ""
# If a text is not UTF-8, protobuf returns its bytes, as proto/runtime_v1.proto asks; its types do
# not say so.
_Text = str | bytes
CONTAINER_STATES: Final[dict[int, ListedState]] = {
    pb.CONTAINER_CREATED: ListedState.CREATED,
    pb.CONTAINER_RUNNING: ListedState.RUNNING,
    pb.CONTAINER_EXITED: ListedState.EXITED,
    pb.CONTAINER_UNKNOWN: ListedState.UNKNOWN,
}


def readable(text: _Text) -> str:
    """The text; if it is not UTF-8, with all bytes other than ASCII escaped."""
    return text.decode("ascii", "backslashreplace") if isinstance(text, bytes) else text


@dataclass(slots=True)
class Fields:
    """Checks ids, texts and pods of events and lists; `flaws` counts what is wrong."""

    flaws: Counter[Malformed] = field(default_factory=Counter)

    def flawed(self, flaw: Malformed) -> None:
        """Count a flaw of the message being read."""
        self.flaws[flaw] += 1

    def is_id(self, text: _Text) -> TypeGuard[str]:
        """Whether the text can be an id; a long one is not cut, for it might become another's."""
        if not text:
            self.flawed(Malformed.EMPTY_ID)
            return False
        if len(text) > limits.TEXT:
            self.flawed(Malformed.TOO_LONG)
            return False
        if not text.isascii():
            self.flawed(Malformed.NOT_UTF8 if isinstance(text, bytes) else Malformed.NOT_ASCII)
            return False
        return True

    def cut(self, text: _Text) -> str:
        """The text, cut to `limits.TEXT`, in ASCII."""
        if len(text) > limits.TEXT:
            self.flawed(Malformed.TOO_LONG)
            text = text[: limits.TEXT]
        if isinstance(text, bytes):
            self.flawed(Malformed.NOT_UTF8)
            return readable(text)[: limits.TEXT]
        if not text.isascii():
            # Kubernetes' names are ASCII; others would take four times their size in memory.
            self.flawed(Malformed.NOT_ASCII)
            return text.encode("ascii", "replace").decode("ascii")
        return text

    def pod(self, sandbox: pb.PodSandbox | pb.PodSandboxStatus) -> Pod | None:
        """The sandbox's pod."""
        if not sandbox.HasField("metadata"):
            self.flawed(Malformed.NO_METADATA)
            return None
        metadata = sandbox.metadata
        return Pod(self.cut(metadata.namespace), self.cut(metadata.name), self.cut(metadata.uid))


def inquiry_of(status: pb.ContainerStatus) -> Inquiry:
    """Whether a container that is not running now ever ran.

    If a start failed, CRI-O sets started_at to the time of creation, and a message.
    """
    failed = status.started_at <= 0 or (status.reason == "Error" and status.message)
    return _NEVER_STARTED if failed else _STARTED


def whose(raw: bytes) -> str:
    """The container id of an unreadable event; "" if the event does not begin with a usable id."""
    try:
        begin = next(entries(raw), None) or b""
    except DecodeError:
        begin = b""
    return begin.decode() if len(begin) <= limits.TEXT and begin.isascii() else ""


@dataclass(slots=True)
class Decoder(Fields):
    """Decodes events, and counts their flaws in `flaws`."""

    # A sandbox is announced a dozen times, and its metadata never change.
    _pods: dict[str, Pod] = field(default_factory=dict)

    def event(
        self, raw: bytes, received: float, received_ns: int, stream: int
    ) -> tuple[Announcement, list[tuple[str, Inquiry]]] | Discarded | Unread | None:
        """One event, and which exited containers of its pod ever ran; or a fact that it is lost.

        None if its type is unknown, or if its container's id is one that no list can have either.
        """
        try:
            if len(raw) > limits.UNCOUNTED_BYTES and is_crowded(raw):
                return self._unread(raw, received, Malformed.TOO_LARGE)
            message = pb.ContainerEventResponse.FromString(raw)
        except DecodeError:
            return self._unread(raw, received, Malformed.UNDECODABLE)
        # Each access to a message field creates a new object, so access it only once.
        event, container_id = EVENT_TYPES.get(message.container_event_type), message.container_id
        if event is None:
            self.flawed(Malformed.UNKNOWN_EVENT)
        if event is None or not self.is_id(container_id):
            return None if container_id or event is None else Discarded(received)
        created_at_ns = message.created_at
        if created_at_ns <= 0:
            self.flawed(Malformed.BAD_TIME)
            created_at_ns = 0
        sandbox_id, kind, pod, uid = "", None, None, ""
        if message.HasField("pod_sandbox_status"):
            sandbox = message.pod_sandbox_status
            # Read even if the sandbox is known: a kubelet takes the pod from here.
            sandbox_id, uid = sandbox.id, sandbox.metadata.uid
            pod = self._pods.get(sandbox_id)
            if pod is None:
                sandbox_id = self.cut(sandbox_id)
                pod = self._new_pod(sandbox, sandbox_id)
            if sandbox_id:
                kind = _SANDBOX if sandbox_id == container_id else _CONTAINER
        statuses = message.containers_statuses
        exited, own, flaws = _read(statuses, container_id)
        flaws += flaws_of(event, kind, uid, own, created_at_ns)
        ended_ns, exit_code, reason = self._end(own) if event is _STOPPED else _NO_END
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
            exit_code,
            reason,
            flawed(flaws, len(statuses), own, CONTAINER_STATES) if flaws else None,
        )
        return announcement, exited

    def _unread(self, raw: bytes, received: float, why: Malformed) -> Discarded | Unread:
        self.flawed(why)
        container_id = whose(raw)
        return Unread(received, container_id) if container_id else Discarded(received)

    def _end(self, own: pb.ContainerStatus | None) -> tuple[int | None, int | None, str]:
        """When the container ended; if the status shows it exited, also exit code and reason."""
        if own is None:
            return _NO_END
        has_ended = own.state == _EXITED
        code, reason = (own.exit_code, self.cut(own.reason)) if has_ended else (None, "")
        return max(0, own.finished_at), code, reason

    def _new_pod(self, sandbox: pb.PodSandboxStatus, sandbox_id: str) -> Pod | None:
        pod = self.pod(sandbox)
        if pod is not None and sandbox_id:
            if len(self._pods) >= _KNOWN_PODS:
                self._pods.clear()
            self._pods[sandbox_id] = pod
        return pod


def _read(
    statuses: Iterable[pb.ContainerStatus], container_id: str
) -> tuple[list[tuple[str, Inquiry]], pb.ContainerStatus | None, tuple[Flaw, ...]]:
    """Which exited containers ever ran; that container's own status; a flaw if one has no id."""
    exited: list[tuple[str, Inquiry]] = []
    own: pb.ContainerStatus | None = None
    flaws: tuple[Flaw, ...] = ()
    for status in statuses:
        status_id = status.id
        if status_id == container_id:
            own = status
        elif not status_id:
            flaws = EMPTY_STATUS
            continue
        if status.state == _EXITED:
            exited.append((status_id, inquiry_of(status)))
    return exited, own, flaws
