"""How long a relist keeps the event loop from everything else."""

import asyncio
import statistics
from bisect import bisect_right
from typing import Final

from bench.firehose import CONTAINERS, loaded
from bench.processes import STARTED, exporter
from bench.rows import Section, at_most
from testbed.waiting import until

_PODS: Final = 1_000
_BAR: Final = 6.0
_RELISTS: Final = 120
_FLAGS: Final = ("--relist-period=100ms", "--relist-max-duty=100%")
# All processes have one monotonic clock. What is shorter than 1 ms is of no interest.
_NOTING: Final = """
import asyncio, sys, time
from exporter.__main__ import main
turn = asyncio.BaseEventLoop._run_once
def noted(loop):
    before = time.thread_time()
    turn(loop)
    if (used := (time.thread_time() - before) * 1000) > 1:
        print("turn", time.monotonic(), used, file=sys.stderr)
asyncio.BaseEventLoop._run_once = noted
sys.exit(main())
"""
_TEXT: Final = f"""
CPU that one turn of the exporter's event loop takes, while everything else in it waits: the most in
each relist of {_PODS} pods of {CONTAINERS} containers.
"""


async def measure() -> Section:
    """The longest turn of each relist."""
    async with loaded(lambda socket: exporter(socket, *_FLAGS, code=("-c", _NOTING)), _PODS) as (
        runtime,
        process,
    ):
        await asyncio.sleep(STARTED)
        runtime.relists.clear()
        await until(lambda: len(runtime.relists) > _RELISTS, "enough relists", seconds=120)
        lines = (line.split() for line in process.log.read_text().splitlines())
        turns = [(float(line[1]), float(line[2])) for line in lines if line[:1] == ["turn"]]
    longest = [0.0] * len(runtime.relists)
    for ended, used in turns:
        if number := bisect_right(runtime.relists, ended):
            longest[number - 1] = max(longest[number - 1], used)
    what = f"a turn of the loop, p99 of {_RELISTS} relists"
    p99 = statistics.quantiles(longest[:_RELISTS], n=100)[-1]
    row = at_most(what, [p99], _BAR, "ms")
    return Section("Stalls by a relist", _TEXT, (row,))
