"""The containers that the ledger knows: live ones, and removed ones for a while.

Invariant: bounded. The lists and `UNLISTED` bound the live entries; time and number bound the
removed and judged ones.
"""

from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from exporter.pleg.entry import Entry

# containerd holds events for a first subscriber for up to 5 min, so remember for longer.
RETENTION: Final = 600.0
REMEMBERED: Final = 8192
UNLISTED: Final = 16384


@dataclass(slots=True)
class Memory:
    """Entries by container id."""

    live: dict[str, Entry] = field(default_factory=dict)
    _gone: OrderedDict[str, tuple[float, Entry]] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self.live) + len(self._gone)

    def recall(self, container_id: str) -> Entry | None:
        """The entry with that id, moved back to the live ones if it was retired."""
        if container_id in self._gone:
            self.live[container_id] = self._gone.pop(container_id)[1]
        return self.live.get(container_id)

    def peek(self, container_id: str) -> Entry | None:
        """The entry with that id, live or retired."""
        if container_id in self._gone:
            return self._gone[container_id][1]
        return self.live.get(container_id)

    def admit(self, entry: Entry) -> None:
        """Add a new entry."""
        self.live[entry.id] = entry

    def retire(self, absent: list[Entry], unsettled: Container[str], now: float) -> None:
        """Keep removed and judged entries only to recognise late copies; evict the oldest."""
        for entry in absent:
            if entry.id not in unsettled:
                del self.live[entry.id]
                entry.pod = None
                self._gone[entry.id] = (now + RETENTION, entry)
        while self._gone and self._forgettable(now):
            self._gone.popitem(last=False)

    def _forgettable(self, now: float) -> bool:
        expires, _ = next(iter(self._gone.values()))
        return expires <= now or len(self._gone) > REMEMBERED
