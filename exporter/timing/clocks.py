"""Notices that the wall clock was set: it has moved against the monotonic one.

Slewing moves both alike, and so does a smeared leap second. A step comes from an administrator, a
time service, an inserted leap second, or a sleep of the machine, which stops the monotonic clock.
A process that is stopped between two readings makes no step: only close readings count.
"""

import time
from typing import Final

from exporter.pleg.clock import STEP

_TRIES: Final = 5
_CLOSE: Final = STEP / 10


class Clocks:
    """`offset`: by how many seconds the wall clock is ahead of the monotonic one, as last known."""

    def __init__(self) -> None:
        self.offset = time.time() - time.monotonic()
        self.look()

    def look(self) -> float:
        """Seconds by which the clock was set since the last look, negative if back; else 0."""
        for _ in range(_TRIES):
            before, wall, after = time.monotonic(), time.time(), time.monotonic()
            if after - before < _CLOSE:
                return self.see(wall - after)
        return 0.0

    def see(self, offset: float) -> float:
        """The same, from the `offset` of two readings that were close to each other."""
        step = offset - self.offset
        if abs(step) < STEP:
            return 0.0
        self.offset = offset
        return step
