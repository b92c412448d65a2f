"""What being watched costs containerd and its clients.

Worked out: from the CPU of one event and of one relist, each made so frequent that no noise hides
it. Directly: whole lives of pods with an exporter and without. Not here: the exporter's own use of
CPU and memory; what a frozen one does (`tests/real/test_harm.py`). Blind spot: what containerd's
shims and runc do is not in its CPU; none of it is ours.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Final

from bench.processes import Measured, exporter
from bench.rows import Section, at_most, compared
from testbed.churn import Subscriber
from testbed.containerd import Containerd, why_not
from testbed.leftovers import sweep_abandoned
from testbed.pods import Pods
from testbed.waiting import until

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

_TURNS: Final = 15
_PODS: Final = 20
_WATCHED: Final = 1

_TITLE: Final = "Harm"
_TEXT: Final = f"""
One pod with one container at a time: run, create, start, stop, remove, by containerd 2.1. CPU is
containerd's, time that of all calls. {_TURNS} turns of {_PODS} pods with an exporter (the
defaults), without, and without again, compared within a turn; in parentheses the 95 % interval of
1000 resamplings.

*Worked out* from {_EVENTS} events and a share of a relist every {_PERIOD:g} s, each measured alone,
{_LOOKS} times, and magnified: {_SUBSCRIBERS} subscribers or none, {_RESIDENTS} pods listed every
100 ms or not.
"""


async def measure() -> Section:
    """What follows from one event and one relist, then whole lives."""
    if reason := why_not("2.1"):
        return Section(_TITLE, f"Not measured: {reason}.", ())
    await asyncio.to_thread(sweep_abandoned)
    async with Containerd("2.1") as containerd, containerd.pods() as cri:
        daemon = Measured(containerd.pid)
        turns = [await _turn(containerd, cri, daemon, number) for number in range(_TURNS)]
        lives = [await _lives(containerd, cri, daemon) for _ in range(_LOOKS)]
        for number in range(_RESIDENTS):
            sandbox = await cri.run_pod(f"resident-{number}")
            await cri.start(await cri.create(sandbox, "app"))
        relists = [await _relist(containerd, daemon) for _ in range(_LOOKS)]
    ratios = [
        1 + (_EVENTS * event + took / _PERIOD * relist) / cpu
        for (cpu, took, event), relist in zip(lives, relists, strict=True)
    ]
    what = "default / unwatched: {} of a pod's life"
    worked_out = at_most(f"{what.format('CPU')}, worked out", ratios, _LIMIT, digits=3)
    direct = [
        compared(what.format(name), [turn[at] for turn in turns], _LIMIT)
        for at, name in enumerate(("CPU", "time"))
    ]
    cost = (
        f"**containerd's CPU for a pod's life**, watched with the defaults: {worked_out.measured}"
        f" times the unwatched one's, worked out; measured directly: {direct[0].measured},"
        f" {direct[0].outcome}."
    )
    return Section(_TITLE, _TEXT, (worked_out, *direct), (cost,))


async def _turn(
    containerd: Containerd, cri: Pods, daemon: Measured, number: int
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Seconds of CPU, and of time, of some lives: without an exporter, with one, and without."""
    cpu, took = [0.0] * 3, [0.0] * 3
    # None always follows the same one.
    order = [(number + at) % 3 for at in range(3)][:: -1 if number % 2 else 1]
    for which in order:
        async with AsyncExitStack() as stack:
            if which == _WATCHED:
                flag = f"--relist-period={_PERIOD:g}s"
                watching = exporter(containerd.socket, flag)
                await (await stack.enter_async_context(watching)).reaches(1, _RELISTS)
                # Each turn begins at another moment between two relists.
                await asyncio.sleep(_PERIOD * number / _TURNS)
            await _live(cri, 1)
            began = time.monotonic()
            cpu[which] = await daemon.used(_live(cri, _PODS))
            took[which] = time.monotonic() - began
    return (cpu[0], cpu[1], cpu[2]), (took[0], took[1], took[2])


async def _lives(containerd: Containerd, cri: Pods, daemon: Measured) -> tuple[float, float, float]:
    """Seconds of CPU and of time for one life, and of CPU for one event and subscriber."""
    began = time.monotonic()
    alone, took = await daemon.used(_live(cri, _LIVES)), time.monotonic() - began
    async with AsyncExitStack() as stack:
        others = [Subscriber(containerd.socket) for _ in range(_SUBSCRIBERS)]
        for other in others:
            await stack.enter_async_context(other)
        await _live(cri, 1)
        await until(lambda: all(other.received for other in others), "all receive")
        watched = await daemon.used(_live(cri, _LIVES))
    event = (watched - alone) / (_LIVES * _EVENTS * _SUBSCRIBERS)
    return alone / _LIVES, took / _LIVES, event


async def _live(cri: Pods, number: int) -> None:
    """So many pods with one container each, one by one, until nothing of them is left."""
    for _ in range(number):
        sandbox = await cri.run_pod("pod")
        container = await cri.create(sandbox, "app")
        await cri.start(container)
        await cri.stop(container)
        await cri.stop_pod(sandbox)
        await cri.remove(container)
        await cri.remove_pod(sandbox)


async def _relist(containerd: Containerd, daemon: Measured) -> float:
    """Seconds of CPU for one relist of the pods that are there."""
    idle = await daemon.used(asyncio.sleep(_LOOK_SECONDS))
    async with exporter(containerd.socket, *_OFTEN) as process:
        await process.reaches(1, _RELISTS)
        before = (await process.totals())[_RELISTS]
        used = await daemon.used(asyncio.sleep(_LOOK_SECONDS))
        relists = (await process.totals())[_RELISTS] - before
    return (used - idle) / relists
