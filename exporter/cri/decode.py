"""From the CRI's messages to facts. What is malformed is counted, never raised.

Here: bytes in, facts of `pleg.events` out, with a count of each flaw. A list or
an event that cannot be parsed at all is an `UndecodableError`.
Source: `proto/runtime_v1.proto`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from exporter.cri import runtime_v1_pb2 as pb
from exporter.errors import CriError
from exporter.pleg.events import Announcement, EventType, Listed, ListedState, ObjectKind, Pod
from exporter.pleg.node import Malformed

_Answer = TypeVar("_Answer", bound=Message)

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
# A clock may be stepped; one that is further ahead than this tells nothing.
_FUTURE_NS: Final = 300 * 10**9


class UndecodableError(CriError):
    """The bytes are no message of this kind."""

    def __init__(self, what: str) -> None:
        super().__init__("internal", f"the runtime sent a {what} that is no protobuf message")


@dataclass(slots=True)
class Decoder:
    """Decodes messages and counts, in `flaws`, what was wrong with them."""

    flaws: Counter[Malformed] = field(default_factory=Counter)

    def lists(self, sandboxes: Iterable[bytes], containers: Iterable[bytes]) -> Iterator[Listed]:
        """The items of both lists one by one, those without an id left out.

        Parsing is quick, and making objects of it is not: between two items
        others may have their turn. Streamed lists look the same on the wire.
        """
        pod_of: dict[str, Pod | None] = {}
        for raw in sandboxes:
            for sandbox in self._parsed(pb.ListPodSandboxResponse, raw).items:
                if self._named(sandbox.id):
                    item = self._sandbox(sandbox)
                    pod_of[item.id] = item.pod
                    yield item
        for raw in containers:
            for container in self._parsed(pb.ListContainersResponse, raw).containers:
                if self._named(container.id):
                    yield self._container(container, pod_of.get(container.pod_sandbox_id))

    def announcement(
        self, raw: bytes, received: float, received_ns: int, stream: int
    ) -> Announcement | None:
        """One event, or None if it names no container or no known type of event."""
        try:
            message = pb.ContainerEventResponse.FromString(raw)
        except DecodeError:
            self.flaws[Malformed.UNDECODABLE] += 1
            return None
        event = EVENT_TYPES.get(message.container_event_type)
        if event is None:
            self.flaws[Malformed.UNKNOWN_EVENT] += 1
        if event is None or not self._named(message.container_id):
            return None
        sandbox = message.pod_sandbox_status if message.HasField("pod_sandbox_status") else None
        kind = None
        if sandbox is not None and sandbox.id:
            is_sandbox = sandbox.id == message.container_id
            kind = ObjectKind.SANDBOX if is_sandbox else ObjectKind.CONTAINER
        return Announcement(
            container_id=message.container_id,
            type=event,
            received=received,
            created_at_ns=self._time(message.created_at, received_ns),
            kind=kind,
            sandbox_id=sandbox.id if sandbox is not None else "",
            pod=self._pod(sandbox) if sandbox is not None else None,
            stream=stream,
            received_wall_ns=received_ns,
        )

    def _parsed(self, kind: type[_Answer], raw: bytes) -> _Answer:
        try:
            return kind.FromString(raw)
        except DecodeError:
            self.flaws[Malformed.UNDECODABLE] += 1
            raise UndecodableError("list") from None

    def _sandbox(self, sandbox: pb.PodSandbox) -> Listed:
        state = self._state(SANDBOX_STATES.get(sandbox.state))
        pod = self._pod(sandbox)
        return Listed(sandbox.id, ObjectKind.SANDBOX, state, sandbox.id, "", pod)

    def _container(self, container: pb.Container, pod: Pod | None) -> Listed:
        if not container.HasField("metadata"):
            self.flaws[Malformed.NO_METADATA] += 1
        state = self._state(CONTAINER_STATES.get(container.state))
        name, sandbox = container.metadata.name, container.pod_sandbox_id
        return Listed(container.id, ObjectKind.CONTAINER, state, sandbox, name, pod)

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

    def _time(self, created_at: int, received_ns: int) -> int:
        if 0 < created_at <= received_ns + _FUTURE_NS:
            return created_at
        self.flaws[Malformed.BAD_TIME] += 1
        return 0
