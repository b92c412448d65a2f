"""From the clock of the facts to the one on the wall.

Facts carry monotonic seconds, which mean nothing to a reader. Here: the
translation, and how a time is written. Not here: reading a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_SECOND_NS: Final = 1_000_000_000
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Clock:
    """`monotonic` seconds and `wall_ns`, unix nanoseconds, of one moment."""

    monotonic: float
    wall_ns: int

    def wall(self, at: float) -> str:
        """A fact's time as ISO 8601 in UTC, with microseconds."""
        return iso(self.wall_ns + int((at - self.monotonic) * _SECOND_NS))


def iso(wall_ns: int) -> str:
    """Unix nanoseconds as ISO 8601 in UTC; `unknown` where no calendar has it."""
    try:
        moment = datetime.fromtimestamp(wall_ns // _SECOND_NS, UTC)
    except (ValueError, OverflowError, OSError):
        return _UNKNOWN
    micros = wall_ns % _SECOND_NS // 1000
    return moment.replace(tzinfo=None, microsecond=micros).isoformat(timespec="microseconds") + "Z"
