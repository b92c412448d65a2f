"""Decodes CRI messages into facts. Malformed content is counted, never raised.

Only a list or an event that cannot be parsed at all is an `UndecodableError`. Source:
`proto/runtime_v1.proto`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from google.protobuf.message import DecodeError

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.entries import entries
from exporter.errors import UndecodableError
from exporter.pleg.events import Announcement, EventType, Listed, ListedState, ObjectKind, Pod

_Entry = TypeVar("_Entry", pb.PodSandbox, pb.Container)

CONTAINER_STATES: Final[dict[int, ListedState]] = {
    pb.CONTAINER_CREATED: ListedState.CREATED,
    pb.CONTAINER_RUNNING: ListedState.RUNNING,
    pb.CONTAINER_EXITED: ListedState.EXITED,
    pb.CONTAINER_UNKNOWN: ListedState.UNKNOWN,
}
SANDBOX_STATES: Final[dict[int, ListedState]] = {
    pb.SANDBOX_READY: ListedState.RUNNING,
    pb.SANDBOX_NOTREADY: ListedState.EXITED,
}
EVENT_TYPES: Final[dict[int, EventType]] = {int(event): event for event in EventType}
# A clock may be stepped; a timestamp further ahead than this is meaningless.
_FUTURE_NS: Final = 300 * 10**9
_KNOWN_PODS: Final = 256


class Malformed(Enum):
    """A flaw in a runtime's message that does not make it useless as a whole."""

    EMPTY_ID = "empty_id"
    UNKNOWN_STATE = "unknown_state"
    UNKNOWN_EVENT = "unknown_event"
    NO_METADATA = "no_metadata"
    BAD_TIME = "bad_time"
    UNDECODABLE = "undecodable"


@dataclass(slots=True)
class Decoder:
    """Decodes messages and counts their flaws in `flaws`."""

    flaws: Counter[Malformed] = field(default_factory=Counter)
    # A sandbox is announced a dozen times, and its metadata never change.
    _pods: dict[str, Pod] = field(default_factory=dict)

    def lists(self, sandboxes: Iterable[bytes], containers: Iterable[bytes]) -> Iterator[Listed]:
        """Yield the items of both lists, skipping those without an id.

        Each entry is parsed separately: parsing a whole list takes twice its size in memory and
        blocks the interpreter for milliseconds. Streamed lists look the same on the wire.
        """
        known: dict[str, Listed] = {}
        for sandbox in self._entries(sandboxes, pb.PodSandbox):
            if self._named(sandbox.id):
                item = self._sandbox(sandbox)
                known[item.id] = item
                yield item
        for container in self._entries(containers, pb.Container):
            if self._named(container.id):
                yield self._container(container, known.get(container.pod_sandbox_id))

    def announcement(
        self, raw: bytes, received: float, received_ns: int, stream: int
    ) -> Announcement | None:
        """One event; None if it names no container or no known event type."""
        try:
            message = pb.ContainerEventResponse.FromString(raw)
        except DecodeError:
            self.flaws[Malformed.UNDECODABLE] += 1
            return None
        # Each access to a message field creates a new object, so access it only once.
        event, container_id = EVENT_TYPES.get(message.container_event_type), message.container_id
        if event is None:
            self.flaws[Malformed.UNKNOWN_EVENT] += 1
        if event is None or not self._named(container_id):
            return None
        created_at_ns = message.created_at
        if not 0 < created_at_ns <= received_ns + _FUTURE_NS:
            self.flaws[Malformed.BAD_TIME] += 1
            created_at_ns = 0
        sandbox_id, kind, pod = "", None, None
        if message.HasField("pod_sandbox_status"):
            sandbox = message.pod_sandbox_status
            sandbox_id = sandbox.id
            pod = self._pods.get(sandbox_id) or self._new_pod(sandbox)
            if sandbox_id:
                is_sandbox = sandbox_id == container_id
                kind = ObjectKind.SANDBOX if is_sandbox else ObjectKind.CONTAINER
        return Announcement(
            container_id, event, received, created_at_ns, kind, sandbox_id, pod, stream, received_ns
        )

    def _entries(self, lists: Iterable[bytes], kind: type[_Entry]) -> Iterator[_Entry]:
        try:
            for raw in lists:
                yield from map(kind.FromString, entries(raw))
        except DecodeError:
            self.flaws[Malformed.UNDECODABLE] += 1
            raise UndecodableError("list") from None

    def _sandbox(self, sandbox: pb.PodSandbox) -> Listed:
        state = self._state(SANDBOX_STATES.get(sandbox.state))
        sandbox_id, pod = sandbox.id, self._pod(sandbox)
        return Listed(sandbox_id, ObjectKind.SANDBOX, state, sandbox_id, "", pod)

    def _container(self, container: pb.Container, sandbox: Listed | None) -> Listed:
        if not container.HasField("metadata"):
            self.flaws[Malformed.NO_METADATA] += 1
        state = self._state(CONTAINER_STATES.get(container.state))
        name = container.metadata.name
        if sandbox is None:
            sandbox_id = container.pod_sandbox_id
            return Listed(container.id, ObjectKind.CONTAINER, state, sandbox_id, name)
        # All containers of a sandbox share one string.
        return Listed(container.id, ObjectKind.CONTAINER, state, sandbox.id, name, sandbox.pod)

    def _named(self, container_id: str) -> bool:
        if not container_id:
            self.flaws[Malformed.EMPTY_ID] += 1
        return bool(container_id)

    def _state(self, state: ListedState | None) -> ListedState:
        if state is None:
            self.flaws[Malformed.UNKNOWN_STATE] += 1
            return ListedState.UNKNOWN
        return state

    def _pod(self, sandbox: pb.PodSandbox | pb.PodSandboxStatus) -> Pod | None:
        if not sandbox.HasField("metadata"):
            self.flaws[Malformed.NO_METADATA] += 1
            return None
        metadata = sandbox.metadata
        return Pod(metadata.namespace, metadata.name, metadata.uid)

    def _new_pod(self, sandbox: pb.PodSandboxStatus) -> Pod | None:
        pod = self._pod(sandbox)
        if pod is not None and sandbox.id:
            if len(self._pods) >= _KNOWN_PODS:
                self._pods.clear()
            self._pods[sandbox.id] = pod
        return pod
