"""Converts the facts' monotonic times to wall time, and formats them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """The same moment as `monotonic` seconds and as `wall_ns`, unix nanoseconds."""

    monotonic: float
    wall_ns: int

    def wall(self, at: float) -> str:
        """A fact's time as ISO 8601 in UTC, with microseconds."""
        return iso(self.wall_ns + int((at - self.monotonic) * _SECOND_NS))


def iso(wall_ns: int) -> str:
    """Unix nanoseconds as ISO 8601 in UTC; `unknown` if outside the calendar's range."""
    try:
        moment = datetime.fromtimestamp(wall_ns // _SECOND_NS, UTC)
    except (ValueError, OverflowError, OSError):
        return "unknown"
    micros = wall_ns % _SECOND_NS // 1000
    return moment.replace(tzinfo=None, microsecond=micros).isoformat(timespec="microseconds") + "Z"
