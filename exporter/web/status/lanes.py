"""The last 15 minutes as lanes of bars, one bar for each ten seconds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.account import Account
from exporter.model.findings import Cause, Verdict
from exporter.node.history import SLOTS, Heard, History, Slot

# A lane is so tall; the lowest number that fills one.
_TALL: Final = 20
_FEW: Final = 5
# Share of a slot's width; the rest separates the bars.
_WIDE: Final = 0.8
_LOST: Final = (Cause.SILENT, Cause.STALLED)
# The exporter was not subscribed, dropped events, or shares them with another subscriber.
_EXCUSED: Final = (Cause.STREAM_DOWN, Cause.DISCARDED, Cause.SHARED)


@dataclass(frozen=True, slots=True)
class Lane:
    """`bars`: an SVG path in a box of `SLOTS` by 20. `total`: of all bars; None where none is."""

    name: str
    colour: str
    bars: str
    total: int | None = None


def lanes_of(history: History, account: Account, now: float) -> tuple[Lane, ...]:
    """As of monotonic time `now`, the account of which is `account`."""
    slots = history.slots(now)
    first = slots[-1].number - SLOTS + 1
    most = max(_FEW, *(max(_relist(slot), slot.announced, slot.kernel) for slot in slots))

    def bars(number: Callable[[Slot], int], full: int = 1) -> str:
        return _bars([(slot.number - first, min(number(slot), full)) for slot in slots], full)

    kernel = sum(slot.kernel for slot in slots)
    lost = account.lost(*_LOST) + account.gaps
    return (
        Lane("relist", "relist", bars(_relist, most), sum(map(_relist, slots))),
        Lane("stream", "stream", bars(_announced, most), account.received),
        *((Lane("kernel", "kernel", bars(_kernel, most), kernel),) if kernel else ()),
        Lane("lost", "lost", bars(_lost), lost),
        Lane("missed here", "unsure", bars(_excused), account.lost(*_EXCUSED)),
        Lane("stream down", "down", bars(lambda slot: Heard.DOWN in slot.heard)),
    )


def _bars(numbers: Sequence[tuple[int, int]], full: int) -> str:
    """One path for all bars: ninety separate elements would slow down the page."""
    return "".join(
        f"M{place} {_TALL}v{-max(1, _TALL * number // full)}h{_WIDE}V{_TALL}z"
        for place, number in numbers
        if number
    )


def _relist(slot: Slot) -> int:
    return _found(slot, Verdict.WITNESSED, None)


def _announced(slot: Slot) -> int:
    return slot.announced


def _kernel(slot: Slot) -> int:
    return slot.kernel


def _lost(slot: Slot) -> int:
    return _found(slot, Verdict.MISSED, *_LOST) + _found(slot, Verdict.GAP, None)


def _excused(slot: Slot) -> int:
    return _found(slot, Verdict.MISSED, *_EXCUSED) + slot.discarded


def _found(slot: Slot, verdict: Verdict, *causes: Cause | None) -> int:
    return sum(
        number for (of, _, cause), number in slot.found.items() if of is verdict and cause in causes
    )
