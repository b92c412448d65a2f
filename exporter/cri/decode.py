"""Decodes CRI messages into facts. Malformed content is counted, never raised.

Only a list that cannot be parsed at all is an `UndecodableError`, and one beyond `limits` a
`TooLargeError`. Source: `proto/runtime_v1.proto`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice, repeat
from sys import getsizeof
from typing import Final, cast

from google.protobuf.message import DecodeError

from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.entries import entries, is_crowded
from exporter.errors import TooLargeError, UndecodableError
from exporter.pleg.events import (
    Announcement,
    EventType,
    Inquiry,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
)
from exporter.pleg.profiles import is_elsewhere

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
_CONTAINER: Final = ObjectKind.CONTAINER
_SANDBOX: Final = ObjectKind.SANDBOX
_STARTED: Final = Inquiry.STARTED
_NEVER_STARTED: Final = Inquiry.NEVER_STARTED
_STOPPED: Final = EventType.STOPPED
_EXITED: Final = pb.CONTAINER_EXITED
# A clock may be stepped; a timestamp further ahead than this is meaningless.
_FUTURE_NS: Final = 300 * 10**9
_KNOWN_PODS: Final = 256
# Entries of a list in one step.
_BATCH: Final = 64


class Malformed(Enum):
    """A flaw in a runtime's message that does not make it useless as a whole."""

    EMPTY_ID = "empty_id"
    UNKNOWN_STATE = "unknown_state"
    UNKNOWN_EVENT = "unknown_event"
    NO_METADATA = "no_metadata"
    BAD_TIME = "bad_time"
    UNDECODABLE = "undecodable"
    TOO_LONG = "too_long"
    TOO_LARGE = "too_large"


def inquiry_of(status: pb.ContainerStatus) -> Inquiry:
    """Whether a container that does not run any more ever ran."""
    return _STARTED if status.started_at > 0 else _NEVER_STARTED


@dataclass(slots=True)
class _Source:
    """Where the items of one list come from.

    `last`: those of the last list that this one has not shown yet, by the hash of their entries'
    bytes; `seen`: of this one, as far as it has got, and `number` of them all. `renewed`: sandboxes
    whose containers have another pod than in the last list. `fresh`: items that were decoded;
    `gone`: those that they replace although their bytes are the same.
    """

    last: dict[int, Listed]
    renewed: set[str]
    decode: Callable[[bytes], Listed | None]
    seen: dict[int, Listed] = field(default_factory=dict)
    number: int = 0
    fresh: list[Listed] = field(default_factory=list)
    gone: list[Listed] = field(default_factory=list)


@dataclass(slots=True)
class Decoder:
    """Decodes messages and counts their flaws in `flaws`."""

    flaws: Counter[Malformed] = field(default_factory=Counter)
    # A sandbox is announced a dozen times, and its metadata never change.
    _pods: dict[str, Pod] = field(default_factory=dict)
    # The last sandboxes and containers, by the hash of their entries' bytes; whether these are all.
    _last: tuple[dict[int, Listed], dict[int, Listed]] = field(default_factory=lambda: ({}, {}))
    _whole: bool = False
    # Items that the lists before the last had and the last ones had not, and the other way round;
    # None if that is not known.
    changes: tuple[tuple[Listed, ...], tuple[Listed, ...]] | None = None
    # What the last lists' items take at most: each new one adds to it, until all are measured.
    _most: int = 0
    # The last sandboxes, by their ids.
    _sandboxes: dict[str, Listed] = field(default_factory=dict)

    def lists(
        self, sandboxes: Iterable[bytes], containers: Iterable[bytes]
    ) -> Iterator[list[Listed]]:
        """Yield the items of both lists in small batches, without entries that have no usable id.

        An entry whose bytes the last lists had is the same item again, not only an equal one: most
        are, and to decode them takes four times as long. Each other one is parsed separately:
        parsing a whole list takes twice its size in memory and blocks the interpreter for
        milliseconds. Streamed lists look the same on the wire.
        """
        entries_seen, left, unmeasured = 0, limits.LIST_MEMORY, []
        for batch in self._batches(sandboxes, containers):
            yield batch
            entries_seen += _BATCH
            unmeasured.append(batch)
            if entries_seen <= limits.FEW or self._most <= limits.LIST_MEMORY:
                continue
            for each in unmeasured:
                left -= sum(map(_memory, each)) + limits.ENTRY_MEMORY * (_BATCH - len(each))
                yield []
            unmeasured.clear()
            if left < 0:
                raise TooLargeError(f"lists that need more than {limits.LIST_MEMORY >> 20} MiB")
        if not unmeasured:
            self._most = limits.LIST_MEMORY - left

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
        if event is None or not self._named(container_id):
            return None
        created_at_ns = message.created_at
        if not 0 < created_at_ns <= received_ns + _FUTURE_NS:
            self.flaws[Malformed.BAD_TIME] += 1
            created_at_ns = 0
        sandbox_id, kind, pod = "", None, None
        if message.HasField("pod_sandbox_status"):
            sandbox = message.pod_sandbox_status
            sandbox_id = self._cut(sandbox.id)
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

    def _batches(
        self, sandboxes: Iterable[bytes], containers: Iterable[bytes]
    ) -> Iterator[list[Listed]]:
        before, known = self._sandboxes, dict[str, Listed]()
        renewed: set[str] = set()

        def sandbox_of(entry: bytes) -> Listed | None:
            item = self._sandbox(pb.PodSandbox.FromString(entry))
            if item is not None and (item.id not in before or before[item.id].pod != item.pod):
                renewed.add(item.id)
            return item

        def container_of(entry: bytes) -> Listed | None:
            return self._container(pb.Container.FromString(entry), known)

        boxes = _Source(self._last[0], set(), sandbox_of)
        rest = _Source(self._last[1], renewed, container_of)
        # Should this end early, the next lists are decoded as a whole.
        whole, self._whole, self.changes, self._last = self._whole, False, None, ({}, {})
        for batch in self._items(sandboxes, boxes):
            for item in batch:
                known[item.id] = item
            yield batch
        # A container's pod is its sandbox's: with another one it is another item.
        renewed.update(before.keys() - known.keys())
        unique = len(known) == boxes.number
        if not unique:
            renewed.update(known)
        yield []
        yield from self._items(containers, rest)
        self._last = boxes.seen, rest.seen if unique else {}
        self._sandboxes = known
        self._whole = sum(map(len, self._last)) == boxes.number + rest.number
        if whole:
            gone = chain(boxes.last.values(), boxes.gone, rest.last.values(), rest.gone)
            self.changes = tuple(gone), (*boxes.fresh, *rest.fresh)

    def _items(self, lists: Iterable[bytes], source: _Source) -> Iterator[list[Listed]]:
        walk = chain.from_iterable(map(entries, lists))
        last, renewed = source.last, source.renewed
        try:
            while some := list(islice(walk, _BATCH)):
                # Other bytes with the same hash: once in 10 ** 15 changes on a huge node.
                keys = list(map(hash, some))
                found = list(map(last.pop, keys, repeat(None)))
                if renewed or not all(found):
                    items = self._renewed(some, keys, found, source)
                else:
                    items = cast("list[Listed]", found)
                    source.seen.update(zip(keys, items, strict=True))
                self._most += limits.ENTRY_MEMORY * (_BATCH - len(items))
                source.number += len(items)
                yield items
        except DecodeError:
            self.flaws[Malformed.UNDECODABLE] += 1
            raise UndecodableError("list") from None

    def _renewed(
        self,
        some: list[memoryview | None],
        keys: list[int],
        found: list[Listed | None],
        source: _Source,
    ) -> list[Listed]:
        """The items of these entries, with those decoded that the last list did not have."""
        renewed, flawed = source.renewed, []
        for at, item in enumerate(found):
            if item is not None:
                if item.sandbox_id not in renewed:
                    continue
                source.gone.append(item)
            flaws, entry = self.flaws.total(), some[at]
            found[at] = None if entry is None else self._new(bytes(entry), source)
            if self.flaws.total() != flaws:
                flawed.append(keys[at])
        pairs = zip(keys, found, strict=True)
        source.seen.update((key, item) for key, item in pairs if item is not None)
        # One with a flaw is decoded, and counted, each time.
        for key in flawed:
            source.seen.pop(key, None)
        return [item for item in found if item is not None]

    def _new(self, entry: bytes, source: _Source) -> Listed | None:
        if len(entry) > limits.MESSAGE_BYTES:
            most = limits.MESSAGE_BYTES >> 20
            raise TooLargeError(f"a list with an entry larger than {most} MiB")
        item = source.decode(entry)
        if item is not None:
            source.fresh.append(item)
            self._most += _memory(item)
        return item

    def _sandbox(self, sandbox: pb.PodSandbox) -> Listed | None:
        sandbox_id = sandbox.id
        if not self._named(sandbox_id):
            return None
        state = self._state(SANDBOX_STATES.get(sandbox.state))
        pod, elsewhere = self._pod(sandbox), is_elsewhere(sandbox.runtime_handler)
        return Listed(sandbox_id, ObjectKind.SANDBOX, state, sandbox_id, "", pod, elsewhere)

    def _container(self, container: pb.Container, sandboxes: dict[str, Listed]) -> Listed | None:
        container_id, sandbox_id, pod = container.id, container.pod_sandbox_id, None
        if not self._named(container_id):
            return None
        if not container.HasField("metadata"):
            self.flaws[Malformed.NO_METADATA] += 1
        state = self._state(CONTAINER_STATES.get(container.state))
        name = self._cut(container.metadata.name)
        sandbox = sandboxes.get(sandbox_id)
        if sandbox is None:
            sandbox_id = self._cut(sandbox_id)
        else:
            # All containers of a sandbox share one string.
            sandbox_id, pod = sandbox.id, sandbox.pod
        return Listed(container_id, ObjectKind.CONTAINER, state, sandbox_id, name, pod)

    def _named(self, container_id: str) -> bool:
        """Whether that can be an id; a cut one might be another's."""
        if not container_id:
            self.flaws[Malformed.EMPTY_ID] += 1
            return False
        if len(container_id) > limits.TEXT:
            self.flaws[Malformed.TOO_LONG] += 1
            return False
        return True

    def _cut(self, text: str) -> str:
        if len(text) > limits.TEXT:
            self.flaws[Malformed.TOO_LONG] += 1
            return text[: limits.TEXT]
        return text

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
        cut = self._cut
        return Pod(cut(metadata.namespace), cut(metadata.name), cut(metadata.uid))

    def _new_pod(self, sandbox: pb.PodSandboxStatus, sandbox_id: str) -> Pod | None:
        pod = self._pod(sandbox)
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


def _memory(item: Listed) -> int:
    """About how many bytes it takes for as long as the runtime lists it."""
    own = getsizeof(item.id) + getsizeof(item.name)
    if item.kind is ObjectKind.SANDBOX and item.pod is not None:
        own += sum(map(getsizeof, item.pod))
    elif item.pod is None:
        own += getsizeof(item.sandbox_id)
    return limits.ENTRY_MEMORY + 2 * own
