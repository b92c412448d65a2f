"""Decodes lists. Malformed content is counted; only a list as a whole is refused.

Only entries that the last lists did not have are decoded: most have the same bytes each time, and
decoding takes four times as long as comparing. Each entry is parsed by itself: parsing a whole list
takes twice its size in memory. Streamed lists look the same on the wire. A list that cannot be
parsed at all is an `UndecodableError`, a list beyond `limits` a `TooLargeError`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from google.protobuf.message import DecodeError

from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import CONTAINER_STATES, Fields
from exporter.cri.entries import entries
from exporter.errors import TooLargeError, UndecodableError
from exporter.model.events import Listed, ListedState, ObjectKind
from exporter.model.labels import Malformed
from exporter.runtimes.known import is_elsewhere

_SANDBOX_STATES: Final[dict[int, ListedState]] = {
    pb.SANDBOX_READY: ListedState.RUNNING,
    pb.SANDBOX_NOTREADY: ListedState.EXITED,
}
# Items by the bytes of their entries; None for an entry that is left out.
_Seen = dict[bytes, Listed | None]
_NEW: Final = Listed("", ObjectKind.SANDBOX, ListedState.UNKNOWN)
# Entries in a step, which takes some 0.1 ms if they are known, four times that if they are new.
_STEP: Final = 64


Admit = Callable[[Listed, int], object]


def _any(_item: Listed, _size: int) -> None:
    """Admit every item."""


@dataclass(slots=True)
class ListDecoder(Fields):
    """Decodes one pair of lists after the other, and counts their flaws in `flaws`."""

    # Items that are listed with a text that is not UTF-8, by id.
    garbled: dict[str, Listed] = field(default_factory=dict)
    # The runtime handlers of the listed sandboxes that name one, by the sandbox's id.
    handlers: dict[str, str] = field(default_factory=dict)

    # The last lists' items by their entries' bytes, and the sandboxes by id.
    _sandboxes: _Seen = field(default_factory=dict)
    _containers: _Seen = field(default_factory=dict)
    _homes: dict[str, Listed] = field(default_factory=dict)
    # The flaws of the entry being read; and a hash of those already counted, by id. The entry's
    # bytes would not tell: a Go server writes maps in any order.
    _found: list[Malformed] = field(default_factory=list)
    _told: dict[str, int] = field(default_factory=dict)

    def items(self, sandboxes: Sequence[bytes], containers: Sequence[bytes]) -> list[Listed]:
        """The items of both lists, without entries that have no usable id."""
        (items,) = [each for each in self.steps(sandboxes, containers) if each is not None]
        return items

    def steps(
        self, sandboxes: Sequence[bytes], containers: Sequence[bytes], admit: Admit = _any
    ) -> Iterator[list[Listed] | None]:
        """Do the same in short steps, each of which yields None; the last one yields the items.

        `admit`: called with each item that the last lists did not have, and its size in bytes; it
        may raise to refuse both lists.
        """
        size = sum(map(len, chain(sandboxes, containers)))
        most = limits.entries_of(size)
        # Lists that fail leave no cache: their items were not all admitted.
        last, cached = self._sandboxes, self._containers
        self._sandboxes, self._containers = {}, {}
        if not last and not cached:
            self._told, self.garbled = {}, {}
        boxes, seen = yield from self._read(sandboxes, last, self._sandbox, most, admit)
        # If several sandboxes have the same id, the first one counts.
        before, self._homes = self._homes, {box.id: box for box in reversed(boxes)}
        if before != self._homes:
            # A container's item has its sandbox's pod, so a changed sandbox changes the item.
            cached = {raw: item and self._housed(item) for raw, item in cached.items()}
        left = most - len(boxes)
        rest, seen_too = yield from self._read(containers, cached, self._container, left, admit)
        if size <= limits.KEPT_BYTES:
            self._sandboxes, self._containers = seen, seen_too
        self.handlers = {key: name for key, name in self.handlers.items() if key in self._homes}
        items = boxes + rest
        if self._told:
            listed = {item.id: item for item in items}
            self._told = {key: told for key, told in self._told.items() if key in listed}
            self.garbled = {key: listed[key] for key in self.garbled if key in listed}
        yield items

    def flawed(self, flaw: Malformed) -> None:
        """Note a flaw of the entry being read: `_new` counts it."""
        self._found.append(flaw)

    def _read(
        self,
        lists: Sequence[bytes],
        last: _Seen,
        decode: Callable[[bytes], Listed | None],
        most: int,
        admit: Admit,
    ) -> Generator[None, None, tuple[list[Listed], _Seen]]:
        items: list[Listed] = []
        seen: _Seen = {}
        stop = 0
        try:
            for number, raw in enumerate(chain.from_iterable(map(entries, lists))):
                if number >= stop:
                    if number >= most:
                        raise TooLargeError(f"lists of more than {number} entries")
                    yield
                    stop = min(number + _STEP, most)
                if raw is None:
                    continue
                item = last.get(raw, _NEW)
                if item is _NEW:
                    item = self._new(decode(raw), len(raw), admit)
                seen[raw] = item
                if item is not None:
                    items.append(item)
        except DecodeError:
            self.flaws[Malformed.UNDECODABLE] += 1
            raise UndecodableError("list") from None
        return items, seen

    def _new(self, item: Listed | None, size: int, admit: Admit) -> Listed | None:
        """Admit a new item; count the flaws that were not counted for its id before."""
        found, self._found = self._found, []
        if item is not None:
            admit(item, size)
        if item is None or not found:
            self.flaws.update(found)
            return item
        if self._told.get(item.id) != (kinds := hash(tuple(found))):
            self._told[item.id] = kinds
            self.flaws.update(found)
        if Malformed.NOT_UTF8 in found:
            self.garbled[item.id] = item
        return item

    def _sandbox(self, raw: bytes) -> Listed | None:
        sandbox = pb.PodSandbox.FromString(_checked(raw))
        sandbox_id = sandbox.id
        if not self.is_id(sandbox_id):
            return None
        state = self._state(_SANDBOX_STATES.get(sandbox.state))
        pod, handler = self.pod(sandbox), self.cut(sandbox.runtime_handler)
        if handler:
            self.handlers[sandbox_id] = handler
        elsewhere = is_elsewhere(handler)
        return Listed(sandbox_id, ObjectKind.SANDBOX, state, sandbox_id, "", pod, elsewhere)

    def _container(self, raw: bytes) -> Listed | None:
        container = pb.Container.FromString(_checked(raw))
        container_id, sandbox_id = container.id, self.cut(container.pod_sandbox_id)
        if not self.is_id(container_id):
            return None
        if not container.HasField("metadata"):
            self.flawed(Malformed.NO_METADATA)
        state = self._state(CONTAINER_STATES.get(container.state))
        name = self.cut(container.metadata.name)
        return self._housed(
            Listed(container_id, ObjectKind.CONTAINER, state, sandbox_id, name, None)
        )

    def _housed(self, container: Listed) -> Listed:
        """The same container with its sandbox's pod; containers of a sandbox share the strings."""
        home = self._homes.get(container.sandbox_id)
        if home is None:
            return container if container.pod is None else container._replace(pod=None)
        if container.pod == home.pod:
            return container
        return container._replace(sandbox_id=home.id, pod=home.pod)

    def _state(self, state: ListedState | None) -> ListedState:
        if state is None:
            self.flawed(Malformed.UNKNOWN_STATE)
            return ListedState.UNKNOWN
        return state


def _checked(raw: bytes) -> bytes:
    if len(raw) > limits.MESSAGE_BYTES:
        raise TooLargeError(f"a list with an entry larger than {limits.MESSAGE_BYTES >> 20} MiB")
    return raw
