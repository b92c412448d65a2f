"""The flight recorder: the newest facts, within a fixed number of them.

Invariant: bounded, whatever a runtime sends: the decoder bounds a fact's texts. An event is kept
without its pod's names, which are half of its size and known to the ledger; of a relist that
changed much, only the first changes are kept.
"""

from collections import deque
from collections.abc import Container
from dataclasses import replace
from typing import Final

from exporter.model.events import Announcement
from exporter.model.facts import Believed, Fact, Relist

# Facts and changes of relists, of some 400 bytes each: less than a megabyte with usual names.
CAPACITY: Final = 2000
# Changes kept per relist: a baseline lists thousands and proves nothing.
_CHANGES: Final = 256


class Ring:
    """Facts in order of arrival; the oldest are dropped. `size`: the facts, and their changes."""

    def __init__(self) -> None:
        self._kept: deque[Fact] = deque()
        self.size = 0

    def about(self, ids: Container[str]) -> list[Fact]:
        """The facts, oldest first, without the events of containers other than these."""
        return [
            kept
            for kept in self._kept
            if not isinstance(kept, Announcement) or kept.container_id in ids
        ]

    def add(self, fact: Fact) -> None:
        """Keep one more fact."""
        if isinstance(fact, Announcement):
            fact = fact._replace(sandbox_id="", pod=None)
        elif isinstance(fact, Relist) and max(len(fact.changed), len(fact.gone)) > _CHANGES:
            fact = replace(fact, changed=fact.changed[:_CHANGES], gone=fact.gone[:_CHANGES])
        self._kept.append(fact)
        self.size += _size(fact)
        while self.size > CAPACITY:
            self.size -= _size(self._kept.popleft())


def _size(kept: Fact) -> int:
    if isinstance(kept, Relist | Believed):
        return 1 + len(kept.changed) + len(kept.gone)
    return 1
