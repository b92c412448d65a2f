"""What being watched costs containerd and its clients: CPU and latency, with us and without.

Directly: real pods on real containerd under each condition, in turns. Worked out: from one event
and one relist, each made so frequent that no noise hides it. Not here: the exporter's own use of
CPU and memory; what a frozen one does (`tests/real/test_harm.py`). Blind spot: what containerd's
shims and runc do is not in its CPU; none of it is ours.
"""

import asyncio
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from bench.processes import LAST_SEEN, cpu_of, exporter, wait_for
from bench.rows import Ratio, Row, Section, percentile, resampled
from conformance.cri_client import Pods, Sandbox
from testbed.churn import Subscriber
from testbed.containerd import Containerd, why_not
from testbed.leftovers import sweep_abandoned
from testbed.waiting import until

_T = TypeVar("_T")

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
_COUNT: Final = "shadow_pleg_relist_duration_seconds_count"
_SHARE: Final = 0.99
_MILLI: Final = 1e3
_STILL: Final = Ratio(1.0, 1.0, 1.0)
_FEW: Final = "p99 rests on some twenty calls"

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


@dataclass(slots=True)
class _Lives:
    """Some lives: seconds of each call, and of containerd's CPU for all of them."""

    calls: list[float] = field(default_factory=list)
    cpu: float = 0.0


_Turn = dict[_Condition, _Lives]


class _Node:
    """A containerd, and a client that leads pods from their start to their end, one by one."""

    def __init__(self, containerd: Containerd, cri: Pods) -> None:
        self.containerd, self.cri = containerd, cri

    def cpu(self) -> float:
        """Seconds of CPU that containerd has used so far."""
        return cpu_of(self.containerd.pid)

    async def live(self, number: int = 1) -> _Lives:
        """So many pods with one container each, until nothing of them is left."""
        lives, cri, before = _Lives(), self.cri, self.cpu()

        async def of(call: Awaitable[_T]) -> _T:
            began = time.monotonic()
            answer = await call
            lives.calls.append(time.monotonic() - began)
            return answer

        for _ in range(number):
            sandbox: Sandbox = await of(cri.run_pod("pod"))
            container: str = await of(cri.create(sandbox, "app"))
            await of(cri.start(container))
            await of(cri.stop(container))
            await of(cri.stop_pod(sandbox))
            await of(cri.remove(container))
            await of(cri.remove_pod(sandbox))
        lives.cpu = self.cpu() - before
        return lives

    async def turn(self, condition: _Condition, at: float) -> _Lives:
        """Lives from a moment `at` (0 to 1) of the time between two relists on."""
        with ExitStack() as stack:
            if condition is _Condition.DEFAULT:
                flag = f"--relist-period={_PERIOD:g}s"
                process = stack.enter_context(exporter(self.containerd.socket, flag))
                wait_for("it has relisted", lambda: process.totals()[LAST_SEEN] > 0)
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
        idle, took = await self._look()
        with exporter(self.containerd.socket, *_OFTEN) as process:
            wait_for("it has relisted", lambda: process.totals()[LAST_SEEN] > 0)
            before = process.totals()[_COUNT]
            used, seconds = await self._look()
            relists = process.totals()[_COUNT] - before
        return (used - idle / took * seconds) / relists

    async def _look(self) -> tuple[float, float]:
        """Seconds of CPU in a while, and how long that was."""
        before, began = self.cpu(), time.monotonic()
        # This is what is measured.
        await asyncio.sleep(_LOOK_SECONDS)
        return self.cpu() - before, time.monotonic() - began


def measure() -> Section:
    """What follows from one event and one relist, then whole lives."""
    if reason := why_not("2.1"):
        return Section(_TITLE, f"Not measured: {reason}.", ())
    sweep_abandoned()
    turns, event, relist = asyncio.run(_measured())
    ours = _worked_out(turns, event, relist)
    us, noise = (_compared(turns, it, _cpu) for it in (_Condition.DEFAULT, _Condition.AGAIN))
    cost = (
        f"**containerd's CPU for a pod's life**, watched with the defaults: {ours.measured}"
        f" times the unwatched one's, worked out; measured directly: {us}, where unwatched twice is"
        f" {noise}."
    )
    return Section(_TITLE, _TEXT, (ours, *_directly(turns)), (cost,))


async def _measured() -> tuple[list[_Turn], list[float], list[float]]:
    """Whole turns; and the seconds of CPU of one event and of one relist, of each look."""
    turns: list[_Turn] = []
    async with _in_memory() as containerd, containerd.pods() as cri:
        node = _Node(containerd, cri)
        for number in range(_TURNS):
            first, conditions = number % len(_Condition), list(_Condition)
            # Backwards every other time, so that none always follows the same one.
            order = (conditions[first:] + conditions[:first])[:: -1 if number % 2 else 1]
            turns.append({each: await node.turn(each, number / _TURNS) for each in order})
        events = [await node.an_event() for _ in range(_LOOKS)]
        sandboxes = [await cri.run_pod(f"resident-{number}") for number in range(_RESIDENTS)]
        for sandbox in sandboxes:
            await cri.start(await cri.create(sandbox, "app"))
        relists = [await node.a_relist() for _ in range(_LOOKS)]
        for sandbox in sandboxes:
            await cri.stop_pod(sandbox)
            await cri.remove_pod(sandbox)
    return turns, events, relists


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


def _directly(turns: Sequence[_Turn]) -> list[Row]:
    """The bars, and what they are compared with."""
    alone = [turn[_Condition.UNWATCHED] for turn in turns]
    life, slowest = _cpu(alone) / len(turns) / _PODS * _MILLI, _slowest(alone) * _MILLI
    rows = []
    for text, of, limits in (
        (f"CPU of a pod's life ({life:.1f} ms unwatched)", _cpu, ""),
        (f"all calls, p99 ({slowest:.1f} ms unwatched)", _slowest, f"; {_FEW}"),
    ):
        us, control = (_compared(turns, it, of) for it in (_Condition.DEFAULT, _Condition.AGAIN))
        verdict, why = us.held_to(_LIMIT, control), f"unwatched twice is {control}{limits}"
        bar = f"at most {_LIMIT:g}"
        rows.append(Row(f"default / unwatched: {text}", str(us), bar, verdict, why))
    return rows


def _worked_out(turns: Sequence[_Turn], event: list[float], relist: list[float]) -> Row:
    """What follows from both costs."""
    alone = [turn[_Condition.UNWATCHED] for turn in turns]
    lives = len(turns) * _PODS
    seconds, cpu = sum(sum(each.calls) for each in alone) / lives, _cpu(alone) / lives
    low, middle, high = (
        1 + (_EVENTS * of(event) + seconds / _PERIOD * of(relist)) / cpu
        for of in (min, statistics.median, max)
    )
    ratio = Ratio(middle, low, high)
    what = "default / unwatched: CPU of a pod's life, worked out"
    return Row(what, str(ratio), f"at most {_LIMIT:g}", ratio.held_to(_LIMIT, _STILL))


def _compared(
    turns: Sequence[_Turn], condition: _Condition, of: Callable[[Sequence[_Lives]], float]
) -> Ratio:
    """A figure under that condition, by that of the unwatched."""

    def ratio(some: Sequence[_Turn]) -> float:
        with_us, alone = (
            of([turn[each] for turn in some]) for each in (condition, _Condition.UNWATCHED)
        )
        return with_us / alone

    return resampled(turns, ratio)


def _cpu(lives: Sequence[_Lives]) -> float:
    """Of all of them."""
    return sum(each.cpu for each in lives)


def _slowest(lives: Sequence[_Lives]) -> float:
    """The 99th percentile of the duration of all calls."""
    return percentile([call for each in lives for call in each.calls], _SHARE)
