"""Standing still: how long the runtime may go on while nothing here reads, and while a relist runs.

The exporter's own queue does not help while its interpreter stands still: what is announced then
waits in gRPC, whose threads read on without the interpreter, until their window is full. After that
the runtime's send blocks, and with containerd every other send, too.
"""

import asyncio
import os
import signal
import statistics
from bisect import bisect_right
from typing import Final

from bench.firehose import CONTAINERS, loaded
from bench.processes import STARTED, exporter
from bench.rows import MET, NOT_MET, Row, Section, at_most, spread
from testbed.waiting import until

_SLACK_BAR: Final = 10_000
_MORE_THAN_FIT: Final = 60_000
# Taken by then or not at all; with that, everything is over before the hold is.
_PATIENCE: Final = 0.7
_SETTLED: Final = 1.0
_TURNS: Final = 2
_HOLD_SECONDS: Final = 5
# Such is a long garbage collection, or a call into a library that keeps the lock: PyDLL, unlike
# CDLL, does. Threads that need no Python run on, as gRPC's own, which read the socket.
_HELD: Final = f"""
import ctypes, signal, sys
from exporter.__main__ import main
signal.signal(signal.SIGUSR1, lambda *_: ctypes.PyDLL(None).sleep({_HOLD_SECONDS}))
sys.exit(main())
"""
_OF_SLACK: Final = f"""
Events of 4 KB that a runtime can send before it blocks, while another thread holds the exporter's
interpreter for {_HOLD_SECONDS} s.
"""

_PODS: Final = 1_000
_STALL_BAR: Final = 6.0
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
_OF_STALLS: Final = f"""
CPU that one turn of the exporter's event loop takes, while all else in it waits: the most in each
relist of {_PODS} pods of {CONTAINERS} containers.
"""


async def slack() -> Section:
    """How many events go into a reader that stands still."""
    events = [await _absorbed() for _ in range(_TURNS)]
    row = Row(
        "interpreter held",
        spread(events, "events", 0),
        f"at least {_SLACK_BAR:g} events",
        MET if min(events) >= _SLACK_BAR else NOT_MET,
    )
    return Section("Slack", _OF_SLACK, (row,))


async def _absorbed() -> int:
    """Events that were taken while the reader stood still."""
    async with loaded(
        lambda socket: exporter(socket, "--relist-period=1m", code=("-c", _HELD))
    ) as (runtime, reader):
        # A stream that has flowed: gRPC may have adapted its windows to it.
        await runtime.burst(2000, 10)
        # Read by then: the reader itself cannot be asked in every case.
        await asyncio.sleep(_SETTLED)
        os.kill(reader.pid, signal.SIGUSR1)
        # That it stands still cannot be seen from outside.
        await asyncio.sleep(_SETTLED / 2)
        return await runtime.burst(_MORE_THAN_FIT, _PATIENCE)


async def stalls() -> Section:
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
    row = at_most(what, [p99], _STALL_BAR, "ms")
    return Section("Stalls by a relist", _OF_STALLS, (row,))
