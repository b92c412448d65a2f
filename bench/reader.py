"""What an event costs, from the socket to its verdict, beside a Go client that does less."""

import contextlib
import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import golang
from bench.processes import Exporter, Process, exporter, loaded, wait_for
from bench.rows import Row, Section, at_most, figure, spread

# Relists that judge within a measurement, and that may take all the time they need: by default
# they are rare, and rarer still where they take long.
JUDGING: Final = ("--relist-period=1s", "--relist-max-duty=100%", "--missed-grace=500ms")
# A renewed lease would bring every event twice.
UNRENEWED: Final = "--stream-lease=10m"
RECEIVED: Final = "shadow_pleg_events_received_total"
UNSEEN: Final = "shadow_pleg_unseen_events_total"
DISCARDED: Final = "shadow_pleg_discard_events_total"
# Beside a Go client, at a rate that a busy node has for a moment.
_BAR: Final = 1.6
_RATE: Final = 4000
_SECONDS: Final = 2.0
_ROUNDS: Final = 3
_QUICK_ROUNDS: Final = 1
_MICRO: Final = 1e6
# Everything is read by then; what is judged later is in the next round.
_SETTLED: Final = 1.5
_TEXT: Final = f"""
CPU of the whole process for each event of 4 KB, at a steady {_RATE} events/s for {_SECONDS:g} s.
The exporter's figure includes the ledger and its relists ({JUDGING[0]}). The Go client
(`bench/client`) decodes, relists and keeps states, and judges nothing.
"""

_WHOLE, _GO = "exporter", "Go client"
_READERS: Final[dict[str, Callable[[Path], Process]]] = {
    _WHOLE: lambda socket: exporter(socket, *JUDGING, UNRENEWED),
    **({_GO: golang.client} if golang.is_here() else {}),
}


def measure(*, quick: bool) -> Section:
    """CPU per event of all of them, and the ratios."""
    costs, fate = _costs(_QUICK_ROUNDS if quick else _ROUNDS)

    rows = [Row(f"{_WHOLE} / {_GO}", "no Go compiler here")]
    if _GO in costs:
        ours, theirs = (statistics.median(costs[name]) for name in (_WHOLE, _GO))
        rows = [at_most(f"{_WHOLE} / {_GO}", ours / theirs, _BAR)]
    rows += [
        figure(f"{name}, per event", [seconds * _MICRO for seconds in each], "µs")
        for name, each in costs.items()
    ]
    rows.append(Row("the exporter: sent, received, judged, discarded", fate))
    took = spread([each * _MICRO for each in costs[_WHOLE]], "µs")
    cost = f"**An event** of 4 KB, up to its verdict, at {_RATE}/s: {took} of CPU."
    return Section("An event's CPU", _TEXT, tuple(rows), (cost,))


def _costs(rounds: int) -> tuple[dict[str, list[float]], str]:
    """Seconds of CPU for an event, by reader and round; and what became of the exporter's."""
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(loaded(start)) for start in _READERS.values()]
        costs, sent, fate = [], 0, ""
        for _ in range(1 + rounds):
            turn = [_round(*pair) for pair in pairs]
            costs.append([cpu / put for cpu, put in turn])
            sent += turn[0][1]
        for _, each in pairs:
            if isinstance(each, Exporter):
                metrics = wait_for("all is judged", functools.partial(_all_judged, each, sent))
                counts = (sent, *(metrics[name] for name in (RECEIVED, UNSEEN, DISCARDED)))
                fate = ", ".join(f"{count:.0f}" for count in counts)
            else:
                wait_for("all is read", functools.partial(_has_read, each, sent))
    by_name = zip(_READERS, zip(*costs[1:], strict=True), strict=True)
    return {name: list(each) for name, each in by_name}, fate


def _has_read(process: Process, count: int) -> bool:
    return bool(process.ask("read")["read"] >= count)


def _round(runtime: Process, reader: Process) -> tuple[float, int]:
    """Seconds of CPU for all events, and how many there were."""
    before = reader.cpu()
    put: int = runtime.ask(f"rate {_RATE} {_SECONDS}")["put"]
    # What was read last is still on its way through.
    time.sleep(_SETTLED)
    return reader.cpu() - before, put


def _all_judged(process: Exporter, sent: int) -> dict[str, float] | None:
    metrics = process.totals()
    return metrics if metrics[UNSEEN] + metrics[DISCARDED] >= sent else None
