"""What one event and one relist cost containerd, each made so frequent that no noise hides it.

Here: many subscribers to the same events, and many relists of the same pods, in turns with none.
From both follows what a pod's life must cost more. Not here: that life as it is (`blocks`).
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from bench.blocks import LIMIT, PODS, UNWATCHED, Block, Turn
from bench.processes import LAST_SEEN, cpu_of, exporter, wait_for
from bench.rows import Ratio, Row, figure
from testbed.churn import Subscriber
from testbed.containerd import Containerd
from testbed.cri_client import Pods
from testbed.waiting import until

SUBSCRIBERS: Final = 20
LIVES: Final = 8
# CREATED, STARTED, STOPPED and DELETED of a sandbox and of a container.
EVENTS: Final = 8
RESIDENTS: Final = 50
LOOKS: Final = 4
LOOK_SECONDS: Final = 2.0
OFTEN: Final = ("--relist-period=100ms", "--relist-max-duty=100%")
COUNT: Final = "shadow_pleg_relist_duration_seconds_count"
_PERIOD: Final = 10.0
_MILLI: Final = 1e3
_MICRO: Final = 1e6
_STILL: Final = Ratio(1.0, 1.0, 1.0)

TEXT: Final = f"""
"Worked out" is the sum of {EVENTS} events and a share of a relist every {_PERIOD:g} s, each
measured alone and magnified: {SUBSCRIBERS} subscribers or none, and {RESIDENTS} pods that are
listed every 100 ms or not.
"""


@dataclass(frozen=True, slots=True)
class Alone:
    """Seconds of containerd's CPU, by turn: of one event for one subscriber, and of one relist."""

    event: list[float]
    relist: list[float]


async def looks(
    containerd: Containerd, cri: Pods, live: Callable[[Block], Awaitable[None]]
) -> Alone:
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


def rows(turns: Sequence[Turn], alone: Alone) -> tuple[Row, ...]:
    """Both costs, and what follows."""
    blocks = [block for turn in turns for block in turn[UNWATCHED]]
    life = sum(block.lives for block in blocks) / len(blocks) / PODS
    seconds = statistics.mean(sum(block.calls) / PODS for block in blocks)
    low, middle, high = (
        1 + (EVENTS * of(alone.event) + seconds / _PERIOD * of(alone.relist)) / life
        for of in (min, statistics.median, max)
    )
    worked_out = Ratio(middle, low, high)
    return (
        figure("an event for one subscriber, CPU", [e * _MICRO for e in alone.event], "µs"),
        figure(f"a relist of {RESIDENTS} pods, CPU", [r * _MILLI for r in alone.relist], "ms"),
        Row(
            "default / unwatched: CPU of a pod's life, worked out",
            str(worked_out),
            f"at most {LIMIT:g}",
            worked_out.held_to(LIMIT, _STILL),
        ),
    )


async def _event(containerd: Containerd, live: Callable[[Block], Awaitable[None]]) -> float:
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


async def _lives(live: Callable[[Block], Awaitable[None]]) -> float:
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
        cpu, began = cpu_of(containerd.pid), time.monotonic()
        # This is what is measured.
        await asyncio.sleep(LOOK_SECONDS)
        relists = process.totals()[COUNT] - before
        used = cpu_of(containerd.pid) - cpu - idle * (time.monotonic() - began)
    return used / relists


async def _share(containerd: Containerd) -> float:
    """Of one core, while nothing asks for anything."""
    before, began = cpu_of(containerd.pid), time.monotonic()
    # This is what is measured.
    await asyncio.sleep(LOOK_SECONDS)
    return (cpu_of(containerd.pid) - before) / (time.monotonic() - began)
