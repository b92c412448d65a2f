"""What watching costs containerd by the life of a pod: measured directly, and worked out.

Directly: blocks of pods under each condition, in turns. Worked out: from one event and one relist,
each made so frequent that no noise hides it. Here: ratios with their intervals, and the bars. Not
here: how the pods live (`harm`).
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bench.processes import LAST_SEEN, cpu_of, exporter, wait_for
from bench.rows import Ratio, Row, percentile, resampled
from testbed.churn import Subscriber
from testbed.containerd import Containerd
from testbed.cri_client import Pods
from testbed.waiting import until

PODS: Final = 10
# Seconds between two relists, by default.
PERIOD: Final = 10.0
LIMIT: Final = 1.03
SUBSCRIBERS: Final = 20
LIVES: Final = 8
# CREATED, STARTED, STOPPED and DELETED of a sandbox and of a container.
EVENTS: Final = 8
RESIDENTS: Final = 50
LOOKS: Final = 4
LOOK_SECONDS: Final = 2.0
OFTEN: Final = ("--relist-period=100ms", "--relist-max-duty=100%")
COUNT: Final = "shadow_pleg_relist_duration_seconds_count"
_SHARE: Final = 0.99
_MILLI: Final = 1e3
_STILL: Final = Ratio(1.0, 1.0, 1.0)
_FEW: Final = "p99 rests on the slowest twenty calls or so, which are the machine's"

TEXT: Final = f"""
"Worked out" is the sum of {EVENTS} events and a share of a relist every {PERIOD:g} s, each
measured alone and magnified: {SUBSCRIBERS} subscribers or none, and {RESIDENTS} pods that are
listed every 100 ms or not.
"""


class Condition(Enum):
    """Who watches while pods live: an exporter with the defaults, or none."""

    UNWATCHED = "unwatched"
    DEFAULT = "default"
    AGAIN = "unwatched again"


@dataclass(slots=True)
class Block:
    """Some lives: seconds of each call, and containerd's CPU for all of them."""

    calls: list[float] = field(default_factory=list)
    lives: float = 0.0


@dataclass(frozen=True, slots=True)
class Alone:
    """Seconds of containerd's CPU, by turn: of one event for one subscriber, and of one relist."""

    event: list[float]
    relist: list[float]


Turn = dict[Condition, list[Block]]
Live = Callable[[Block], Awaitable[None]]
_Figure = Callable[[Sequence[Block]], float]


def measured(turns: list[Turn]) -> list[Row]:
    """The bars, and what they are compared with."""
    blocks, life = _unwatched(turns)
    what = (
        (f"CPU of a pod's life ({life * _MILLI:.1f} ms unwatched)", cpu, ""),
        (f"all calls, p99 ({_slowest(blocks) * _MILLI:.1f} ms unwatched)", _slowest, f"; {_FEW}"),
    )
    rows = []
    for text, of, limits in what:
        us, control = (compared(turns, each, of) for each in (Condition.DEFAULT, Condition.AGAIN))
        verdict, why = us.held_to(LIMIT, control), f"unwatched twice is {control}{limits}"
        bar = f"at most {LIMIT:g}"
        rows.append(Row(f"default / unwatched: {text}", str(us), bar, verdict, why))
    return rows


def compared(turns: Sequence[Turn], condition: Condition, of: _Figure) -> Ratio:
    """A figure under that condition, by that of the unwatched."""

    def ratio(some: Sequence[Turn]) -> float:
        with_us, alone = (
            of([block for turn in some for block in turn[each]])
            for each in (condition, Condition.UNWATCHED)
        )
        return with_us / alone

    return resampled(turns, ratio)


def cpu(blocks: Sequence[Block]) -> float:
    """Of all lives."""
    return sum(block.lives for block in blocks)


def _slowest(blocks: Sequence[Block]) -> float:
    """The 99th percentile of the duration of all calls."""
    return percentile([each for block in blocks for each in block.calls], _SHARE)


def _unwatched(turns: Sequence[Turn]) -> tuple[list[Block], float]:
    """All blocks that nothing watched, and the seconds of CPU of one life in them."""
    blocks = [block for turn in turns for block in turn[Condition.UNWATCHED]]
    return blocks, cpu(blocks) / len(blocks) / PODS


async def looks(containerd: Containerd, cri: Pods, live: Live) -> Alone:
    """`live`: leads one pod from its start to its end, and adds what it cost."""
    events = [await _event(containerd, live) for _ in range(LOOKS)]
    sandboxes = [await cri.run_pod(f"resident-{number}") for number in range(RESIDENTS)]
    for sandbox in sandboxes:
        await cri.start(await cri.create(sandbox, "app"))
    relists = [await _relist(containerd) for _ in range(LOOKS)]
    for sandbox in sandboxes:
        await cri.stop_pod(sandbox)
        await cri.remove_pod(sandbox)
    return Alone(events, relists)


def worked_out(turns: Sequence[Turn], alone: Alone) -> Row:
    """What follows from both costs."""
    blocks, life = _unwatched(turns)
    seconds = statistics.mean(sum(block.calls) / PODS for block in blocks)
    low, middle, high = (
        1 + (EVENTS * of(alone.event) + seconds / PERIOD * of(alone.relist)) / life
        for of in (min, statistics.median, max)
    )
    ratio = Ratio(middle, low, high)
    what = "default / unwatched: CPU of a pod's life, worked out"
    return Row(what, str(ratio), f"at most {LIMIT:g}", ratio.held_to(LIMIT, _STILL))


async def _event(containerd: Containerd, live: Live) -> float:
    """Seconds of CPU for one event and one subscriber."""
    alone = await _lives(live)
    async with AsyncExitStack() as stack:
        others = [Subscriber(containerd.socket) for _ in range(SUBSCRIBERS)]
        for other in others:
            await stack.enter_async_context(other)
        await live(Block())
        await until(lambda: all(other.received for other in others), "all receive")
        watched = await _lives(live)
    return (watched - alone) / (LIVES * EVENTS * SUBSCRIBERS)


async def _lives(live: Live) -> float:
    block = Block()
    for _ in range(LIVES):
        await live(block)
    return block.lives


async def _relist(containerd: Containerd) -> float:
    """Seconds of CPU for one relist."""
    idle = await _share(containerd)
    with exporter(containerd.socket, *OFTEN) as process:
        wait_for("it has relisted", lambda: process.totals()[LAST_SEEN] > 0)
        before = process.totals()[COUNT]
        used, began = cpu_of(containerd.pid), time.monotonic()
        # This is what is measured.
        await asyncio.sleep(LOOK_SECONDS)
        relists = process.totals()[COUNT] - before
        used = cpu_of(containerd.pid) - used - idle * (time.monotonic() - began)
    return used / relists


async def _share(containerd: Containerd) -> float:
    """Of one core, while nothing asks for anything."""
    before, began = cpu_of(containerd.pid), time.monotonic()
    # This is what is measured.
    await asyncio.sleep(LOOK_SECONDS)
    return (cpu_of(containerd.pid) - before) / (time.monotonic() - began)
