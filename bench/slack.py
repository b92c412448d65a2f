"""How long the runtime may go on while nothing here reads.

The exporter's own queue does not help while its interpreter stands still: what is announced then
waits in gRPC, whose threads read on without the interpreter, until their window is full. After that
the runtime's send blocks, and with containerd every other send, too.
"""

import asyncio
import os
import signal
from typing import Final

from bench.firehose import loaded
from bench.processes import exporter
from bench.rows import MET, NOT_MET, Row, Section, spread

_BAR: Final = 10_000
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
_TEXT: Final = f"""
Events of 4 KB that a runtime can send before it blocks, while another thread holds the exporter's
interpreter for {_HOLD_SECONDS} s.
"""


async def measure() -> Section:
    """How many events go into a reader that stands still."""
    events = [await _absorbed() for _ in range(_TURNS)]
    row = Row(
        "interpreter held",
        spread(events, "events", 0),
        f"at least {_BAR:g} events",
        MET if min(events) >= _BAR else NOT_MET,
    )
    return Section("Slack", _TEXT, (row,))


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
