"""The flight recorder: the newest facts, within a fixed number of bytes.

Law: bounded, whatever a runtime sends. An event is kept without its pod's names, which are half of
its size and known to the ledger; of a relist that changed much, only the first changes are kept.
"""

from collections import deque
from collections.abc import Container
from dataclasses import replace
from typing import Final

from exporter.model.events import Announcement, EventType, Listed, ObjectKind
from exporter.model.facts import CgroupChanged, Fact, Inquired, OtherFact, ProfileChosen, Relist

CAPACITY: Final = 768 * 1024
# Changes kept per relist: a baseline lists thousands and proves nothing.
_CHANGES: Final = 256
# Overhead of an object besides its characters, rounded up: the tuple and its numbers, a string.
_EVENT: Final = 320
_ITEM: Final = 400
_OTHER: Final = 200


# An announcement's id, type, received, created_at_ns, kind, stream, received_wall_ns.
_Event = tuple[str, EventType, float, int, ObjectKind | None, int, int]
_Kept = _Event | OtherFact


class Ring:
    """Facts in order of arrival; the oldest are dropped. `size`: their bytes, estimated."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._kept: deque[_Kept] = deque()
        self.size = 0

    def about(self, ids: Container[str]) -> list[Fact]:
        """The facts, oldest first, without the events of containers other than these."""
        return [
            _whole(kept) if isinstance(kept, tuple) else kept
            for kept in self._kept
            if not isinstance(kept, tuple) or kept[0] in ids
        ]

    def take(self, fact: Fact) -> None:
        """Keep one more fact. Every event passes through here, so this must be fast."""
        kept: _Kept
        if isinstance(fact, Announcement):
            kept = (fact[0], fact[1], fact[2], fact[3], fact[4], fact[7], fact[8])
            self.size += _EVENT + len(fact[0])
        else:
            kept = _cut(fact)
            self.size += _size(kept)
        self._kept.append(kept)
        while self.size > self._capacity:
            self.size -= _size(self._kept.popleft())


def _whole(kept: _Event) -> Announcement:
    """Restore the fact."""
    container_id, event, received, created_at_ns, kind, stream, wall_ns = kept
    return Announcement(
        container_id, event, received, created_at_ns, kind, "", None, stream, wall_ns
    )


def _cut(fact: OtherFact) -> OtherFact:
    """The fact as it is kept."""
    if isinstance(fact, Relist) and max(len(fact.changed), len(fact.gone)) > _CHANGES:
        return replace(fact, changed=fact.changed[:_CHANGES], gone=fact.gone[:_CHANGES])
    return fact


def _size(kept: _Kept) -> int:
    if isinstance(kept, tuple):
        return _EVENT + len(kept[0])
    if isinstance(kept, Relist):
        return (
            _OTHER
            + sum(map(_item, kept.changed))
            + sum(map(len, kept.gone), _ITEM * len(kept.gone))
        )
    if isinstance(kept, Inquired | CgroupChanged):
        return _OTHER + len(kept.container_id)
    if isinstance(kept, ProfileChosen):
        return _OTHER + len(kept.name) + len(kept.version)
    return _OTHER


def _item(item: Listed) -> int:
    pod = sum(map(len, item.pod)) if item.pod is not None else 0
    return _ITEM + len(item.id) + len(item.sandbox_id) + len(item.name) + pod
