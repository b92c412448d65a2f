"""Which containers have processes, in any of their cgroups: a moved one has two for a moment.

Changes go to `notify`. Blind spot: a process that moves to a cgroup not named after its container
seems to end, until `Unseen` has looked where it may have gone.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from exporter.kernel.folders import Beside, Container
from exporter.kernel.populated import Processes
from exporter.model.facts import CgroupChanged
from exporter.pleg.kernel import LASTING, MOVING

_MOST_LEFT: Final = 16384


@dataclass(slots=True)
class Shown:
    """The cgroups with processes, by the container's id.

    `left`: for containers that lost their processes, the earliest possible time of that. `looked`:
    when the read before this one began.
    """

    notify: Callable[[CgroupChanged], None]
    left: dict[str, float] = field(default_factory=dict)
    looked: float = -math.inf
    _ids: dict[str, list[Container]] = field(default_factory=dict)

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._ids

    def __iter__(self) -> Iterator[Container]:
        return chain.from_iterable(self._ids.values())

    def lasts(self, container_id: str) -> bool:
        """Whether the container has had processes for `LASTING` seconds, in a cgroup of its own."""
        over = time.monotonic() - LASTING
        return any(each.since < over for each in self._own(container_id))

    def has_own(self, container_id: str) -> bool:
        """Whether the container has processes in a cgroup of its own."""
        return any(True for _ in self._own(container_id))

    def all(self) -> Generator[CgroupChanged, None, None]:
        """Every container that has processes, as a change of now."""
        for container_id, (first, *_) in self._ids.items():
            now = time.monotonic()
            yield CgroupChanged(container_id, first.pod_uid, populated=True, at=now)

    def set(self, container: Container, seen: Processes, wall_ns: int = 0) -> None:
        """Set a cgroup's processes; report a change unless the id has another populated cgroup."""
        populated = seen is not Processes.NONE
        changed = populated is not (container.processes is not Processes.NONE)
        container.processes = seen
        if not changed:
            return
        now, since = time.monotonic(), container.since
        container.since = now
        same = self._ids.setdefault(container.id, [])
        if populated:
            same.append(container)
            self.left.pop(container.id, None)
            is_news = len(same) == 1
        else:
            same.remove(container)
            is_news = not same
        if not same:
            del self._ids[container.id]
            if len(self.left) >= _MOST_LEFT:
                self.left.clear()
            # Of a process that moves, the arrival may be notified before the departure.
            self.left[container.id] = now - MOVING if wall_ns else max(since, self.looked)
        if is_news:
            self.notify(CgroupChanged(container.id, container.pod_uid, populated, now, wall_ns))

    def clear(self) -> None:
        """Forget all cgroups, and report nothing."""
        self._ids.clear()
        self.left.clear()

    def _own(self, container_id: str) -> Iterator[Container]:
        cgroups = self._ids.get(container_id, ())
        return (each for each in cgroups if not isinstance(each, Beside))
