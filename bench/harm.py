"""What being watched costs containerd and its clients: CPU and time, with us and without.

Directly: real pods on real containerd under each condition, in turns. Worked out: from one event
and one relist, each made so frequent that no noise hides it. Not here: the exporter's own use of
CPU and memory; what a frozen one does (`tests/real/test_harm.py`). Blind spot: what containerd's
shims and runc do is not in its CPU; none of it is ours.
"""

import asyncio
import random
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from typing import Final, NamedTuple

from bench.processes import Measured, exporter
from bench.rows import Ratio, Row, Section, resampled
from conformance.cri_client import Pods
from testbed.churn import Subscriber
from testbed.containerd import Containerd, why_not
from testbed.leftovers import sweep_abandoned
from testbed.waiting import until

_TURNS: Final = 15
_PODS: Final = 20
# Seconds between two relists, by default.
_PERIOD: Final = 10.0
_LIMIT: Final = 1.03
_SUBSCRIBERS: Final = 20
_LIVES: Final = 8
# CREATED, STARTED, STOPPED and DELETED of a sandbox and of a container.
_EVENTS: Final = 8
_RESIDENTS: Final = 50
_LOOKS: Final = 4
_LOOK_SECONDS: Final = 2.0
_OFTEN: Final = ("--relist-period=100ms", "--relist-max-duty=100%")
_RELISTS: Final = "shadow_pleg_relist_duration_seconds_count"
_MILLI: Final = 1e3
_STILL: Final = Ratio(1.0, 1.0, 1.0)

_TITLE: Final = "Harm"
_TEXT: Final = f"""
containerd 2.1, one pod with one container at a time: run, create, start, stop, remove.
{_TURNS} turns of {_PODS} pods for each condition, compared within a turn. CPU: containerd's alone.
In parentheses: the 95 % interval of 1000 resamplings. "Unwatched twice" is the noise: where it is
as wide as the bar, the answer is "cannot tell here".

"Worked out": {_EVENTS} events and a share of a relist every {_PERIOD:g} s, each measured alone and
magnified: {_SUBSCRIBERS} subscribers or none, and {_RESIDENTS} pods listed every 100 ms or not.
"""


class _Condition(Enum):
    """Who watches while pods live: an exporter with the defaults, or none."""

    UNWATCHED = "unwatched"
    DEFAULT = "default"
    AGAIN = "unwatched again"


class _Cost(NamedTuple):
    """Of some lives, in seconds: containerd's CPU, and time on a clock."""

    cpu: float
    time: float


_Turn = dict[_Condition, _Cost]


class _Node:
    """A containerd, and a client that leads pods from their start to their end, one by one."""

    def __init__(self, containerd: Containerd, cri: Pods) -> None:
        self.containerd, self.cri = containerd, cri
        self._daemon = Measured(containerd.pid)

    async def live(self, number: int = 1) -> _Cost:
        """So many pods with one container each, until nothing of them is left."""
        began = time.monotonic()
        cpu = await self._daemon.used(self._live(number))
        return _Cost(cpu, time.monotonic() - began)

    async def turn(self, condition: _Condition, at: float) -> _Cost:
        """Lives from a moment `at` (0 to 1) of the time between two relists on."""
        async with AsyncExitStack() as stack:
            if condition is _Condition.DEFAULT:
                watching = exporter(self.containerd.socket, f"--relist-period={_PERIOD:g}s")
                process = await stack.enter_async_context(watching)
                await process.reaches(1, _RELISTS)
                await asyncio.sleep(_PERIOD * at)
            await self.live()
            found = await self.live(_PODS)
        if left := await self.cri.sandboxes():
            raise RuntimeError(f"{len(left)} pods were left")
        return found

    async def an_event(self) -> float:
        """Seconds of CPU for one event and one subscriber."""
        alone = await self.live(_LIVES)
        async with AsyncExitStack() as stack:
            others = [Subscriber(self.containerd.socket) for _ in range(_SUBSCRIBERS)]
            for other in others:
                await stack.enter_async_context(other)
            await self.live()
            await until(lambda: all(other.received for other in others), "all receive")
            watched = await self.live(_LIVES)
        return (watched.cpu - alone.cpu) / (_LIVES * _EVENTS * _SUBSCRIBERS)

    async def a_relist(self) -> float:
        """Seconds of CPU for one relist of the pods that are there."""
        idle = await self._daemon.used(asyncio.sleep(_LOOK_SECONDS))
        async with exporter(self.containerd.socket, *_OFTEN) as process:
            await process.reaches(1, _RELISTS)
            before = (await process.totals())[_RELISTS]
            used = await self._daemon.used(asyncio.sleep(_LOOK_SECONDS))
            relists = (await process.totals())[_RELISTS] - before
        return (used - idle) / relists

    async def _live(self, number: int) -> None:
        cri = self.cri
        for _ in range(number):
            sandbox = await cri.run_pod("pod")
            container = await cri.create(sandbox, "app")
            await cri.start(container)
            await cri.stop(container)
            await cri.stop_pod(sandbox)
            await cri.remove(container)
            await cri.remove_pod(sandbox)


async def measure() -> Section:
    """What follows from one event and one relist, then whole lives."""
    if reason := why_not("2.1"):
        return Section(_TITLE, f"Not measured: {reason}.", ())
    sweep_abandoned()
    turns, event, relist = await _measured()
    cpu, took = (
        statistics.mean(getattr(turn[_Condition.UNWATCHED], name) for turn in turns) / _PODS
        for name in _Cost._fields
    )
    ours = _worked_out(cpu, took, event, relist)
    us = _directly(
        turns, f"CPU of a pod's life ({cpu * _MILLI:.1f} ms unwatched)", lambda it: it.cpu
    )
    time_of = _directly(
        turns, f"a pod's life ({took * _MILLI:.0f} ms unwatched)", lambda it: it.time
    )
    cost = (
        f"**containerd's CPU for a pod's life**, watched with the defaults: {ours.measured}"
        f" times the unwatched one's, worked out; measured directly: {us.measured}, where {us.why}."
    )
    return Section(_TITLE, _TEXT, (ours, us, time_of), (cost,))


async def _measured() -> tuple[list[_Turn], list[float], list[float]]:
    """Whole turns; and the seconds of CPU of one event and of one relist, of each look."""
    draw, turns = random.Random(0), list[_Turn]()  # noqa: S311 -- no secret
    async with _in_memory() as containerd, containerd.pods() as cri:
        node = _Node(containerd, cri)
        for number in range(_TURNS):
            # None always follows the same one.
            order = draw.sample(list(_Condition), k=len(_Condition))
            turns.append({each: await node.turn(each, number / _TURNS) for each in order})
        events = [await node.an_event() for _ in range(_LOOKS)]
        for number in range(_RESIDENTS):
            sandbox = await cri.run_pod(f"resident-{number}")
            await cri.start(await cri.create(sandbox, "app"))
        return turns, events, [await node.a_relist() for _ in range(_LOOKS)]


@asynccontextmanager
async def _in_memory() -> AsyncIterator[Containerd]:
    """A containerd 2.1 that writes to no disk."""
    containerd = Containerd("2.1")
    try:
        for folder in (containerd.home / "root", containerd.state):
            folder.mkdir(exist_ok=True)
            # Unmounted with all else that it leaves, when it is closed.
            command = ("mount", "-t", "tmpfs", "tmpfs", folder)
            subprocess.run(command, check=True)  # noqa: S603, ASYNC221 -- ours, and short
        await containerd.start()
        yield containerd
    finally:
        await containerd.close()


def _directly(turns: Sequence[_Turn], what: str, of: Callable[[_Cost], float]) -> Row:
    """A cost of the watched by that of the unwatched, which are measured twice."""

    def ratio(condition: _Condition) -> Ratio:
        costs = [(of(turn[condition]), of(turn[_Condition.UNWATCHED])) for turn in turns]
        return resampled(costs, lambda some: sum(a for a, _ in some) / sum(b for _, b in some))

    us, control = map(ratio, (_Condition.DEFAULT, _Condition.AGAIN))
    verdict, why = us.held_to(_LIMIT, control), f"unwatched twice is {control}"
    return Row(f"default / unwatched: {what}", str(us), f"at most {_LIMIT:g}", verdict, why)


def _worked_out(cpu: float, took: float, event: list[float], relist: list[float]) -> Row:
    """What follows from both costs; `cpu`, `took`: seconds of an unwatched life."""
    low, middle, high = (
        1 + (_EVENTS * of(event) + took / _PERIOD * of(relist)) / cpu
        for of in (min, statistics.median, max)
    )
    ratio = Ratio(middle, low, high)
    what = "default / unwatched: CPU of a pod's life, worked out"
    return Row(what, str(ratio), f"at most {_LIMIT:g}", ratio.held_to(_LIMIT, _STILL))
