"""How long the runtime may go on while nobody here reads.

The exporter's own queue does not help while its interpreter stands still: what
is announced then waits in gRPC, whose threads read on without the interpreter,
until their window is full. After that the runtime's send blocks, and with
containerd every other send, too.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Final

from bench.processes import MIB, Process, bare, firehose, hosted, wait_for_subscribers
from bench.rows import Row, Section, at_least

_BAR: Final = 10_000
_MORE_THAN_FIT: Final = 60_000
# Taken by then or not at all; with that, everything is over before the hold is.
_PATIENCE: Final = 0.7
_HOLD: Final = 5
_SETTLED: Final = 1.0
_TEXT: Final = f"""
Events of 4 KB that a runtime can send before its send blocks, while the reader's interpreter is
held for {_HOLD} s (another thread keeps its lock; gRPC's own threads run on), or its whole
process is stopped (SIGSTOP: then only the kernel's socket buffer is left). What the sender's own
gRPC queues comes on top. The second figure is the growth of the reader's resident memory by it.
"""


def measure(*, quick: bool) -> Section:
    """Ours, the bare reader with gRPC's defaults, and other options of the channel."""
    rows = []
    hold = f"--hold={_HOLD}"
    with firehose() as (runtime, socket), hosted(socket, "relist_period=1m", hold) as reader:
        absorbed, grown = _absorbed(runtime, reader, signal.SIGUSR1)
        rows.append(at_least("the exporter, interpreter held", absorbed, _BAR, "events"))
        rows.append(Row("the exporter, memory for that", f"{grown:.0f} MiB"))
        # The first hold has to be over.
        time.sleep(_HOLD)
        absorbed, grown = _absorbed(runtime, reader, signal.SIGSTOP)
        rows.append(_row("the exporter, process stopped", absorbed, grown))
    rows += [_bare(f"bare reader, {what}", flags) for what, flags in _variants(quick=quick)]
    return Section("Slack: events taken while the reader stands still", _TEXT, tuple(rows))


def _variants(*, quick: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    probe = "--option=grpc.http2.bdp_probe=0"
    yield "gRPC's defaults", ()
    if quick:
        return
    yield "lookahead 64 MiB", (_lookahead(64),)
    yield "no bdp_probe", (probe,)
    for size in (8, 16, 32, 64):
        yield f"no bdp_probe, lookahead {size} MiB", (probe, _lookahead(size))


def _lookahead(mib: int) -> str:
    return f"--option=grpc.http2.lookahead_bytes={mib * MIB}"


def _bare(what: str, flags: tuple[str, ...]) -> Row:
    with firehose() as (runtime, socket), bare(socket, f"--hold={_HOLD}", *flags) as reader:
        absorbed, grown = _absorbed(runtime, reader, signal.SIGUSR1)
        return _row(what, absorbed, grown)


def _row(what: str, absorbed: int, grown: float) -> Row:
    return Row(what, f"{absorbed} events, {grown:.0f} MiB")


def _absorbed(runtime: Process, reader: Process, how: signal.Signals) -> tuple[int, float]:
    """Events that were taken, and MiB of memory that it took, while the reader stood still."""
    wait_for_subscribers(runtime, 1)
    # A stream that has flowed: gRPC may have adapted its windows to it.
    runtime.ask("burst 2000 10")
    # Read by then: the reader itself cannot be asked in every case.
    time.sleep(_SETTLED)
    before = reader.rss()
    reader.signal(how)
    # Nobody can tell from outside that it stands still.
    time.sleep(_SETTLED / 2)
    report = runtime.ask(f"burst {_MORE_THAN_FIT} {_PATIENCE}")
    grown = reader.rss() - before
    reader.signal(signal.SIGCONT)
    return int(report["sent"]), grown
