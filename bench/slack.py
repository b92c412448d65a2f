"""How long the runtime may go on while nothing here reads.

The exporter's own queue does not help while its interpreter stands still: what is announced then
waits in gRPC, whose threads read on without the interpreter, until their window is full. After that
the runtime's send blocks, and with containerd every other send, too.
"""

import signal
import statistics
import time
from typing import Final

from bench.processes import HOLD_SECONDS, hosted, loaded
from bench.rows import Row, Section, Verdict, spread

_BAR: Final = 10_000
_MORE_THAN_FIT: Final = 60_000
# Taken by then or not at all; with that, everything is over before the hold is.
_PATIENCE: Final = 0.7
_SETTLED: Final = 1.0
_TURNS: Final = 2
_TEXT: Final = f"""
Events of 4 KB that a runtime can send before it blocks, while another thread holds the exporter's
interpreter for {HOLD_SECONDS} s.
"""


def measure() -> Section:
    """How many events go into a reader that stands still."""
    events = [_absorbed() for _ in range(_TURNS)]
    row = Row(
        "interpreter held",
        spread(events, "events", 0),
        f"at least {_BAR:g} events",
        Verdict.MET if statistics.median(events) >= _BAR else Verdict.NOT_MET,
    )
    return Section("Slack", _TEXT, (row,))


def _absorbed() -> int:
    """Events that were taken while the reader stood still."""
    with loaded(lambda socket: hosted(socket, "--relist-period=1m")) as (runtime, reader):
        # A stream that has flowed: gRPC may have adapted its windows to it.
        runtime.ask("burst 2000 10")
        # Read by then: the reader itself cannot be asked in every case.
        time.sleep(_SETTLED)
        reader.signal(signal.SIGUSR1)
        # That it stands still cannot be seen from outside.
        time.sleep(_SETTLED / 2)
        return int(runtime.ask(f"burst {_MORE_THAN_FIT} {_PATIENCE}")["sent"])
