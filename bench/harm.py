"""What being watched costs containerd and its clients: CPU and latency, with us and without.

Here: real pods on real containerd under each condition, in blocks that take turns, and the ratios
with their intervals. Not here: the exporter's own use of CPU and memory; what a frozen one does
(`tests/real/test_harm.py`). Blind spot: what containerd's shims and runc do is not in its CPU; none
of it is ours.
"""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from bench import blocks
from bench.blocks import PERIOD, PODS, Alone, Block, Condition, Turn
from bench.processes import LAST_SEEN, cpu_of, exporter, wait_for
from bench.rows import Section
from testbed.containerd import Containerd, why_not
from testbed.cri_client import Pods, Sandbox
from testbed.leftovers import sweep_abandoned

_T = TypeVar("_T")

TURNS: Final = 15
BLOCKS: Final = 2

TITLE: Final = "Harm: what the node's CRI calls cost with us and without"
TEXT: Final = f"""
CRI calls on containerd 2.1, one pod with one container at a time: run, create, start, stop, remove.
{TURNS} turns of {BLOCKS} blocks of {PODS} pods for each condition, in a rotating order; each
turn is compared within itself. The CPU is that of containerd's process alone. In parentheses: the
95 % interval of 1000 resamplings. "Unwatched twice" compares unwatched with unwatched: where that
noise is as wide as the bar, the answer is "cannot tell here".
"""


def measure() -> Section:
    """What follows from one event and one relist, then whole lives."""
    if reason := why_not("2.1"):
        return Section(TITLE, f"Not measured: {reason}.", ())
    sweep_abandoned()
    turns, alone = asyncio.run(_turns())
    ours = blocks.worked_out(turns, alone)
    us, noise = (
        blocks.compared(turns, each, blocks.cpu) for each in (Condition.DEFAULT, Condition.AGAIN)
    )
    cost = (
        f"**containerd's CPU for a pod's life**, watched with the defaults: {ours.measured}"
        " times that of an unwatched one, worked out from what each event and relist costs it;"
        f" measured directly: {us}, where unwatched twice is {noise}."
    )
    return Section(TITLE, TEXT + blocks.TEXT, (ours, *blocks.measured(turns)), (cost,))


async def _turns() -> tuple[list[Turn], Alone]:
    """Whole turns; and what one event and one relist cost."""
    turns: list[Turn] = []
    async with _in_memory() as containerd, containerd.pods() as cri:
        for number in range(TURNS):
            first, conditions = number % len(Condition), list(Condition)
            # Backwards every other time, so that none always follows the same one.
            order = (conditions[first:] + conditions[:first])[:: -1 if number % 2 else 1]
            at = number / TURNS
            turns.append({each: await _turn(containerd, cri, each, at) for each in order})
        alone = await blocks.looks(containerd, cri, partial(_live, containerd, cri))
    return turns, alone


@asynccontextmanager
async def _in_memory() -> AsyncIterator[Containerd]:
    """A containerd 2.1 that writes to no disk."""
    containerd = Containerd("2.1")
    try:
        for name in ("root", "state"):
            folder = containerd.home / name
            folder.mkdir()
            # Unmounted with all else that it leaves, when it is closed.
            command = ("mount", "-t", "tmpfs", "tmpfs", folder)
            subprocess.run(command, check=True)  # noqa: S603, ASYNC221 -- ours, and short
        await containerd.start()
        yield containerd
    finally:
        await containerd.close()


async def _turn(containerd: Containerd, cri: Pods, condition: Condition, at: float) -> list[Block]:
    """The blocks of one turn, from a moment `at` (0 to 1) of the time between two relists on."""
    with ExitStack() as stack:
        if condition is Condition.DEFAULT:
            flag = f"--relist-period={PERIOD:g}s"
            process = stack.enter_context(exporter(containerd.socket, flag))
            wait_for("it has relisted", lambda: process.totals()[LAST_SEEN] > 0)
            await asyncio.sleep(PERIOD * at)
        await _live(containerd, cri, Block())
        found = [Block() for _ in range(BLOCKS)]
        for block in found:
            for _ in range(PODS):
                await _live(containerd, cri, block)
    if left := await cri.sandboxes():
        raise RuntimeError(f"{len(left)} pods were left")
    return found


async def _live(containerd: Containerd, cri: Pods, block: Block) -> None:
    """One pod with one container, from its start until nothing of it is left."""

    async def of(call: Awaitable[_T]) -> _T:
        began = time.monotonic()
        answer = await call
        block.calls.append(time.monotonic() - began)
        return answer

    before = cpu_of(containerd.pid)
    sandbox: Sandbox = await of(cri.run_pod("pod"))
    container: str = await of(cri.create(sandbox, "app"))
    await of(cri.start(container))
    await of(cri.stop(container))
    await of(cri.stop_pod(sandbox))
    await of(cri.remove(container))
    await of(cri.remove_pod(sandbox))
    block.lives += cpu_of(containerd.pid) - before
