"""How long the runtime may go on while nobody here reads.

The exporter's own queue does not help while its interpreter stands still: what
is announced then waits in gRPC, whose threads read on without the interpreter,
until their window is full. After that the runtime's send blocks, and with
containerd every other send, too.
"""

from __future__ import annotations

import signal
import time
from typing import Final

from bench.processes import Process, bare, firehose, hosted, wait_for_subscribers
from bench.rows import Section, at_least, figure

_BAR: Final = 10_000
_MORE_THAN_FIT: Final = 60_000
# Taken by then or not at all; with that, everything is over before the hold is.
_PATIENCE: Final = 0.7
_HOLD: Final = 5
_SETTLED: Final = 1.0
_TURNS: Final = 2
_TEXT: Final = f"""
Events of 4 KB that a runtime can send before its send blocks, while the reader's interpreter is
held for {_HOLD} s by another thread, or its process is stopped (SIGSTOP).
"""


def measure(*, quick: bool) -> Section:
    """Ours held and stopped, and the bare reader with gRPC's defaults held."""
    turns = 1 if quick else _TURNS
    hold = f"--hold={_HOLD}"
    held, stopped, beside = [], [], []
    for _ in range(turns):
        with firehose() as (runtime, socket), hosted(socket, "relist_period=1m", hold) as reader:
            held.append(_absorbed(runtime, reader, signal.SIGUSR1))
        with firehose() as (runtime, socket), hosted(socket, "relist_period=1m", hold) as reader:
            stopped.append(_absorbed(runtime, reader, signal.SIGSTOP))
        with firehose() as (runtime, socket), bare(socket, hold) as plain:
            beside.append(_absorbed(runtime, plain, signal.SIGUSR1))
    events = [count for count, _ in held]
    rows = (
        at_least("the exporter, interpreter held", events, _BAR, "events"),
        figure("the exporter, memory for that", [grown for _, grown in held], "MiB", 0),
        figure("the exporter, process stopped", [count for count, _ in stopped], "events", 0),
        figure("bare reader, gRPC's defaults", [count for count, _ in beside], "events", 0),
    )
    return Section("Slack: events taken while the reader stands still", _TEXT, rows)


def _absorbed(runtime: Process, reader: Process, how: signal.Signals) -> tuple[int, float]:
    """Events that were taken, and MiB of memory that it took, while the reader stood still."""
    wait_for_subscribers(runtime, 1)
    # A stream that has flowed: gRPC may have adapted its windows to it.
    runtime.ask("burst 2000 10")
    # Read by then: the reader itself cannot be asked in every case.
    time.sleep(_SETTLED)
    before = reader.rss()
    reader.signal(how)
    # That it stands still cannot be seen from outside.
    time.sleep(_SETTLED / 2)
    report = runtime.ask(f"burst {_MORE_THAN_FIT} {_PATIENCE}")
    grown = reader.rss() - before
    reader.signal(signal.SIGCONT)
    return int(report["sent"]), grown
