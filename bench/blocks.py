"""What blocks of pods come to, under each condition: ratios with their intervals, and the bars.

Here: records and arithmetic. Not here: how the pods live (`harm`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.rows import Ratio, Row, percentile, resampled

PODS: Final = 10
# Seconds between two relists, by default.
_PERIOD: Final = 10.0
LIMIT: Final = 1.03
_SHARE: Final = 0.99
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

    wall: dict[str, list[float]] = field(default_factory=dict)
    lives: float = 0.0


Turn = dict[Condition, list[Block]]


def rows_of(turns: list[Turn]) -> list[Row]:
    """The bars, and what they are compared with."""
    control = ratio_of_lives(turns, AGAIN), _slow(turns, AGAIN)
    us = ratio_of_lives(turns, DEFAULT), _slow(turns, DEFAULT)
    bar = f"at most {LIMIT:g}"
    alone, slowest = _mean_life(turns) * 1000, _slowest(turns, UNWATCHED) * 1000
    return [
        Row(
            f"default / unwatched: CPU of a pod's life ({alone:.1f} ms unwatched)",
            str(us[0]),
            bar,
            us[0].held_to(LIMIT, control[0]),
            f"unwatched twice is {control[0]}",
        ),
        Row(
            f"default / unwatched: all calls, p99 ({slowest:.1f} ms unwatched)",
            str(us[1]),
            bar,
            us[1].held_to(LIMIT, control[1]),
            f"unwatched twice is {control[1]}; {_FEW}",
        ),
    ]


def ratio_of_lives(turns: Sequence[Turn], condition: Condition) -> Ratio:
    """CPU of all lives, with and without."""

    def ratio(some: Sequence[Turn]) -> float:
        with_us, alone = (
            sum(block.lives for turn in some for block in turn[each])
            for each in (condition, UNWATCHED)
        )
        return with_us / alone

    return resampled(turns, ratio)


def _slow(turns: Sequence[Turn], condition: Condition) -> Ratio:
    """The 99th percentile of the duration of all calls, with and without."""

    def ratio(some: Sequence[Turn]) -> float:
        return _slowest(some, condition) / _slowest(some, UNWATCHED)

    return resampled(turns, ratio)


def _slowest(turns: Sequence[Turn], condition: Condition) -> float:
    seconds = [
        each
        for turn in turns
        for block in turn[condition]
        for several in block.wall.values()
        for each in several
    ]
    return percentile(seconds, _SHARE)


def _mean_life(turns: Sequence[Turn]) -> float:
    blocks = [block for turn in turns for block in turn[UNWATCHED]]
    return sum(block.lives for block in blocks) / len(blocks) / PODS
