"""What being watched costs containerd: the CPU of one event and of one relist.

Each is made so frequent that no noise hides it, and held against what a pod's life costs. Not here:
the exporter's own use of CPU and memory; what a frozen one does (`tests/real/test_harm.py`). Blind
spot: what containerd's shims and runc do is not in its CPU; none of it is ours.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Final

from bench.processes import Measured, exporter
from bench.rows import Section, at_most
from conformance.cri_client import Pods
from testbed.churn import Subscriber
from testbed.containerd import Containerd, why_not
from testbed.leftovers import sweep_abandoned
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

_TITLE: Final = "Harm"
_TEXT: Final = f"""
CPU of containerd 2.1 alone for one pod with one container at a time: run, create, start, stop,
remove. Watched, it has {_EVENTS} events to send, and a share of a relist every {_PERIOD:g} s. Both
are measured alone and magnified: {_SUBSCRIBERS} subscribers or none, and {_RESIDENTS} pods listed
every 100 ms or not; {_LOOKS} looks. Whole lives with an exporter and without are not compared: even
two runs without one differ by some 5 %.
"""


async def measure() -> Section:
    """What follows from one event and one relist."""
    if reason := why_not("2.1"):
        return Section(_TITLE, f"Not measured: {reason}.", ())
    await asyncio.to_thread(sweep_abandoned)
    async with Containerd("2.1") as containerd, containerd.pods() as cri:
        daemon = Measured(containerd.pid)
        lives = [await _lives(containerd, cri) for _ in range(_LOOKS)]
        for number in range(_RESIDENTS):
            sandbox = await cri.run_pod(f"resident-{number}")
            await cri.start(await cri.create(sandbox, "app"))
        relists = [await _relist(containerd, daemon) for _ in range(_LOOKS)]
    ratios = [
        1 + (_EVENTS * event + took / _PERIOD * relist) / cpu
        for (cpu, took, event), relist in zip(lives, relists, strict=True)
    ]
    row = at_most("default / unwatched: CPU of a pod's life", ratios, _LIMIT, digits=3)
    cost = (
        f"**containerd's CPU for a pod's life**, watched with the defaults: {row.measured} times"
        " the unwatched one's."
    )
    return Section(_TITLE, _TEXT, (row,), (cost,))


async def _lives(containerd: Containerd, cri: Pods) -> tuple[float, float, float]:
    """Seconds of CPU and of time for one life, and of CPU for one event and subscriber."""
    daemon, began = Measured(containerd.pid), time.monotonic()
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
