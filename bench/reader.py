"""What an event costs, from the socket to its verdict, beside a Go client that does less."""

import contextlib
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import golang
from bench.processes import Exporter, Process, exporter, loaded, wait_for
from bench.rows import Section, spread

# Relists that judge within a measurement, and that may take all the time they need: by default
# they are rare, and rarer still where they take long.
JUDGING: Final = ("--relist-period=1s", "--relist-max-duty=100%", "--missed-grace=500ms")
# A renewed lease would bring every event twice.
UNRENEWED: Final = "--stream-lease=10m"
VERDICTS: Final = "shadow_pleg_verdicts_total"
DISCARDED: Final = "shadow_pleg_discard_events_total"
# Beside a Go client, at a rate that a busy node has for a moment.
_BAR: Final = 1.6
_RATE: Final = 4000
_SECONDS: Final = 2.0
_ROUNDS: Final = 3
_MICRO: Final = 1e6
# Everything is read by then; what is judged later is in the next round.
_SETTLED: Final = 1.5
_TEXT: Final = f"""
Events of 4 KB, at {_RATE}/s for {_SECONDS:g} s. The exporter's figure includes verdicts and relists
({JUDGING[0]}). The Go client (`bench/client`) uses the CRI's official types; it relists
and keeps states in maps, and judges nothing.
"""

_READERS: Final[list[Callable[[Path], Process]]] = [
    lambda socket: exporter(socket, *JUDGING, UNRENEWED),
    *([golang.client] if golang.is_here() else []),
]


def measure() -> Section:
    """CPU per event of both, and the ratio."""
    ours, *go = _costs()
    row = golang.beside(f"exporter / {golang.NAME}", ours, go, _BAR)
    took = spread([each * _MICRO for each in ours], "µs")
    cost = f"**An event** of 4 KB, up to its verdict, at {_RATE}/s: {took} of CPU."
    return Section("CPU of an event", _TEXT, (row,), (cost,))


def _costs() -> list[list[float]]:
    """Seconds of CPU for an event, by reader and round."""
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(loaded(start)) for start in _READERS]
        costs, sent = [], 0
        for _ in range(1 + _ROUNDS):
            turn = [_round(*pair) for pair in pairs]
            costs.append([cpu / put for cpu, put in turn])
            sent += turn[0][1]
        for _, each in pairs:
            if isinstance(each, Exporter):
                wait_for("all is judged", functools.partial(_all_judged, each, sent))
            else:
                wait_for("all is read", functools.partial(_has_read, each, sent))
    return [list(each) for each in zip(*costs[1:], strict=True)]


def _has_read(process: Process, count: int) -> bool:
    return bool(process.ask("read")["read"] >= count)


def _round(runtime: Process, reader: Process) -> tuple[float, int]:
    """Seconds of CPU for all events, and how many there were."""
    before = reader.cpu()
    put: int = runtime.ask(f"rate {_RATE} {_SECONDS}")["put"]
    # What was read last is still on its way through.
    time.sleep(_SETTLED)
    return reader.cpu() - before, put


def _all_judged(process: Exporter, sent: int) -> bool:
    metrics = process.totals()
    return metrics[VERDICTS] + metrics[DISCARDED] >= sent
