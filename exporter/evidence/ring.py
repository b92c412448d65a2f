"""The flight recorder: the newest facts, within a fixed number of them.

Invariant: bounded, whatever a runtime sends: the decoder bounds a fact's texts. An event is kept
without its pod's names, which are half of its size and known to the ledger; of a relist that
changed much, only the first changes are kept.
"""

from collections import deque
from collections.abc import Container
from dataclasses import replace
from typing import Final

from exporter.model.events import Announcement, EventType, Flawed, ObjectKind
from exporter.model.facts import Believed, Fact, OtherFact, Relist

# Facts and changes of relists, of some 400 bytes each: less than a megabyte with usual names.
CAPACITY: Final = 2000
# Changes kept per relist: a baseline lists thousands and proves nothing.
_CHANGES: Final = 256

# An announcement's id, type, received, created_at_ns, kind, stream, received_wall_ns, flawed.
_Event = tuple[str, EventType, float, int, ObjectKind | None, int, int, Flawed | None]
_Kept = _Event | OtherFact


class Ring:
    """Facts in order of arrival; the oldest are dropped. `size`: the facts, and their changes."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque()
        self.size = 0

    def about(self, ids: Container[str]) -> list[Fact]:
        """The facts, oldest first, without the events of containers other than these."""
        return [
            _whole(kept) if isinstance(kept, tuple) else kept
            for kept in self._kept
            if not isinstance(kept, tuple) or kept[0] in ids
        ]

    def add(self, fact: Fact) -> None:
        """Keep one more fact. Every event passes through here, so this must be fast."""
        kept: _Kept
        if isinstance(fact, Announcement):
            kept = (fact[0], fact[1], fact[2], fact[3], fact[4], fact[7], fact[8], fact[12])
            self.size += 1
        else:
            kept = fact
            if isinstance(fact, Relist) and max(len(fact.changed), len(fact.gone)) > _CHANGES:
                kept = replace(fact, changed=fact.changed[:_CHANGES], gone=fact.gone[:_CHANGES])
            self.size += _size(kept)
        self._kept.append(kept)
        while self.size > CAPACITY:
            self.size -= _size(self._kept.popleft())


def _whole(kept: _Event) -> Announcement:
    """Restore the fact."""
    container_id, event, received, created_at_ns, kind, stream, wall_ns, flawed = kept
    fields = container_id, event, received, created_at_ns, kind, "", None, stream, wall_ns
    return Announcement(*fields, flawed=flawed)


def _size(kept: _Kept) -> int:
    if isinstance(kept, Relist | Believed):
        return 1 + len(kept.changed) + len(kept.gone)
    return 1
