"""What blocks of pods come to, under each condition: ratios with their intervals, and the bars.

Here: records and arithmetic. Not here: how the pods live (`harm`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.rows import Ratio, Row, percentile, resampled

PODS: Final = 10
# Seconds between two relists, by default.
_PERIOD: Final = 10.0
LIMIT: Final = 1.03
_SHARE: Final = 0.99
_MILLI: Final = 1000
_FEW: Final = "p99 rests on the slowest twenty calls or so, which are the machine's"


@dataclass(frozen=True, slots=True)
class Condition:
    """Who watches while pods live: an exporter that relists every `period` seconds, or none."""

    name: str
    period: float = 0.0


UNWATCHED: Final = Condition("unwatched")
AGAIN: Final = Condition("unwatched again")
DEFAULT: Final = Condition("default", _PERIOD)
CONDITIONS: Final = (UNWATCHED, DEFAULT, AGAIN)


@dataclass(slots=True)
class Block:
    """Some lives: seconds of each call, and containerd's CPU for all of them."""

    calls: list[float] = field(default_factory=list)
    lives: float = 0.0


Turn = dict[Condition, list[Block]]
_Figure = Callable[[Sequence[Block]], float]


def rows_of(turns: list[Turn]) -> list[Row]:
    """The bars, and what they are compared with."""
    blocks = [block for turn in turns for block in turn[UNWATCHED]]
    life, slowest = _cpu(blocks) / len(blocks) / PODS * _MILLI, _slowest(blocks) * _MILLI
    what = (
        (f"CPU of a pod's life ({life:.1f} ms unwatched)", _cpu, ""),
        (f"all calls, p99 ({slowest:.1f} ms unwatched)", _slowest, f"; {_FEW}"),
    )
    rows = []
    for text, figure, limits in what:
        us, control = (_compared(turns, each, figure) for each in (DEFAULT, AGAIN))
        verdict, why = us.held_to(LIMIT, control), f"unwatched twice is {control}{limits}"
        bar = f"at most {LIMIT:g}"
        rows.append(Row(f"default / unwatched: {text}", str(us), bar, verdict, why))
    return rows


def ratio_of_lives(turns: Sequence[Turn], condition: Condition) -> Ratio:
    """CPU of all lives, with and without."""
    return _compared(turns, condition, _cpu)


def _compared(turns: Sequence[Turn], condition: Condition, figure: _Figure) -> Ratio:
    def ratio(some: Sequence[Turn]) -> float:
        with_us, alone = (
            figure([block for turn in some for block in turn[each]])
            for each in (condition, UNWATCHED)
        )
        return with_us / alone

    return resampled(turns, ratio)


def _cpu(blocks: Sequence[Block]) -> float:
    return sum(block.lives for block in blocks)


def _slowest(blocks: Sequence[Block]) -> float:
    """The 99th percentile of the duration of all calls."""
    return percentile([each for block in blocks for each in block.calls], _SHARE)
