"""The flight recorder: the newest facts, within a fixed number of bytes.

Law: bounded, whatever a runtime sends. An event is kept without its pod's names, which are half of
its size and known to the ledger; of a relist that changed much, only the first changes are kept.
"""

from collections import deque
from collections.abc import Container
from dataclasses import replace
from typing import Final

from exporter.model.events import Announcement, EventType, Listed, ObjectKind
from exporter.model.facts import (
    CgroupChanged,
    Fact,
    Inquired,
    OtherFact,
    ProfileChosen,
    Relist,
)

CAPACITY: Final = 768 * 1024
_PARTS: Final = 16
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
    """Facts in order of arrival; the oldest are dropped a sixteenth of the ring at a time."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._share = capacity // _PARTS
        self._newest: list[_Kept] = []
        self._newest_size = 0
        self._full: deque[tuple[list[_Kept], int]] = deque()
        self._full_size = 0

    def about(self, ids: Container[str]) -> list[Fact]:
        """The facts, oldest first, without the events of containers other than these."""
        found: list[Fact] = []
        for facts, _ in (*self._full, (self._newest, self._newest_size)):
            for kept in facts:
                if not isinstance(kept, tuple):
                    found.append(kept)
                elif kept[0] in ids:
                    found.append(_whole(kept))
        return found

    @property
    def size(self) -> int:
        """Estimated size of the facts in bytes."""
        return self._full_size + self._newest_size

    def take(self, fact: Fact) -> None:
        """Keep one more fact. Every event passes through here, so this must be fast."""
        kept: _Kept
        if isinstance(fact, Announcement):
            kept = (fact[0], fact[1], fact[2], fact[3], fact[4], fact[7], fact[8])
            size = _EVENT + len(fact[0])
        else:
            kept, size = _cut(fact)
        self._newest.append(kept)
        size += self._newest_size
        self._newest_size = size
        if size > self._share:
            self._turn()

    def _turn(self) -> None:
        """The newest part is full: append it to the older ones and drop what no longer fits."""
        self._full.append((self._newest, self._newest_size))
        self._full_size += self._newest_size
        self._newest, self._newest_size = [], 0
        # Leave room for the next part.
        while self._full_size > self._capacity - self._share:
            _, size = self._full.popleft()
            self._full_size -= size


def _whole(kept: _Event) -> Announcement:
    """Restore the fact."""
    container_id, event, received, created_at_ns, kind, stream, wall_ns = kept
    return Announcement(
        container_id, event, received, created_at_ns, kind, "", None, stream, wall_ns
    )


def _cut(fact: OtherFact) -> tuple[OtherFact, int]:
    """The fact as it is kept, and its size."""
    if isinstance(fact, Relist):
        if len(fact.changed) > _CHANGES or len(fact.gone) > _CHANGES:
            fact = replace(fact, changed=fact.changed[:_CHANGES], gone=fact.gone[:_CHANGES])
        size = sum(map(_item, fact.changed)) + _ITEM * len(fact.gone) + sum(map(len, fact.gone))
        return fact, _OTHER + size
    if isinstance(fact, Inquired | CgroupChanged):
        return fact, _OTHER + len(fact.container_id)
    if isinstance(fact, ProfileChosen):
        return fact, _OTHER + len(fact.name) + len(fact.version)
    return fact, _OTHER


def _item(item: Listed) -> int:
    pod = sum(map(len, item.pod)) if item.pod is not None else 0
    return _ITEM + len(item.id) + len(item.sandbox_id) + len(item.name) + pod
