"""How many events a second are taken, and what they cost, from ten a second to all there can be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import golang
from bench.curves import Line, Panel, Point
from bench.processes import (
    DISCARDED,
    JUDGING,
    RECEIVED,
    UNRENEWED,
    Exporter,
    Process,
    bare,
    exporter,
    firehose,
    wait_for,
    wait_for_subscribers,
)
from bench.rows import Row, Section, at_least, figure, spread

_BAR: Final = 10_000
_WHY: Final = "gRPC's reading is three fifths of an event's CPU, and the runtime shares the cores"
_BURST: Final = 60_000
_QUICK_BURST: Final = 30_000
_RATES: Final = (10, 100, 1_000, 5_000, 20_000)
_TURNS: Final = 3
_SECONDS: Final = 2.0
_PATIENCE: Final = 30
# Each look costs the exporter some milliseconds.
_POLL: Final = 0.25
_SILENCE: Final = 2.0
_MILLI: Final = 1000
# The ledger believes in no more than 16384 containers that no list shows, and all of these are
# such: relists must settle them sooner than a node's would have to.
_FLAGS: Final = (*JUDGING, UNRENEWED)
_TEXT: Final = f"""
Events of 4 KB: a burst that the runtime sends as fast as it is taken, divided by the time until all
of it was counted as received; then steady rates, relists every second included. {_TURNS} turns.
"""

# Everything that reads the events is measured alike.
READERS: Final[dict[str, Callable[[Path], Process]]] = {
    "exporter": lambda socket: exporter(socket, *_FLAGS),
    "bare reader": lambda socket: bare(socket, "--as-exporter"),
    **({"Go client": golang.client} if golang.is_here() else {}),
}


def measure(*, quick: bool) -> Section:
    """Bursts for the exporter and the bare reader, then rates for every reader."""
    burst = _QUICK_BURST if quick else _BURST
    turns = 1 if quick else _TURNS
    rows: list[Row] = []
    with _reading("exporter") as (runtime, process):
        if not isinstance(process, Exporter):
            raise TypeError("the exporter is none")
        count = partial(_received, process)
        rates = [_as_fast_as_it_goes(runtime, burst, count) for _ in range(turns)]
        lost = process.totals()[DISCARDED]
    what = f"exporter, as fast as it goes, {lost:.0f} discarded"
    rows.append(at_least(what, rates, _BAR, "events/s").because(_WHY))
    with _reading("bare reader") as (runtime, process):
        count = partial(_read, process)
        rates = [_as_fast_as_it_goes(runtime, burst, count) for _ in range(turns)]
        rows.append(figure("bare reader, as fast as it goes", rates, "events/s", 0))
    lines = []
    for name in READERS:
        points, more = _steadily(name, turns)
        lines.append(Line(name, tuple(points)))
        rows += more
    panel = Panel("Events", "events a second", "% of a core", tuple(lines))
    return Section("Throughput", _TEXT, tuple(rows), panels=(panel,))


@contextmanager
def _reading(name: str) -> Iterator[tuple[Process, Process]]:
    """A runtime, and that reader, warm."""
    with firehose() as (runtime, socket), READERS[name](socket) as process:
        wait_for_subscribers(runtime, 1)
        runtime.ask(f"burst 2000 {_PATIENCE}")
        # What the warm-up left is read by then.
        time.sleep(1)
        yield runtime, process


def _received(process: Exporter) -> float:
    return process.totals()[RECEIVED]


def _read(process: Process) -> float:
    return float(process.ask("read")["read"])


def _as_fast_as_it_goes(runtime: Process, burst: int, count: Callable[[], float]) -> float:
    wait_for("what was before is read", lambda: count() >= 1)
    goal = count() + burst
    began = time.monotonic()
    runtime.ask(f"burst {burst} {_PATIENCE}")
    last, moved = 0.0, time.monotonic()
    # What is discarded is never received: then this ends when nothing more comes.
    while (now := count()) < goal and time.monotonic() - moved < _SILENCE:
        if now > last:
            last, moved = now, time.monotonic()
        time.sleep(_POLL)
    return (now - (goal - burst)) / ((time.monotonic() if now >= goal else moved) - began)


def _steadily(name: str, turns: int) -> tuple[list[Point], list[Row]]:
    """Percent of a core by the rate that was reached; and the rows about it."""
    points, rows = [], []
    with _reading(name) as (runtime, process):
        for rate in _RATES:
            reports, shares = [], []
            before = process.totals() if isinstance(process, Exporter) else {}
            for _ in range(turns):
                cpu, began = process.cpu(), time.monotonic()
                reports.append(runtime.ask(f"rate {rate} {_SECONDS}"))
                shares.append((process.cpu() - cpu) / (time.monotonic() - began) * 100)
            reached = [each["put"] / each["seconds"] for each in reports]
            points.append(Point(sorted(reached)[len(reached) // 2], tuple(shares)))
            what = f"{name}, {rate} events/s"
            rows.append(Row(f"{what}: share of a core", spread(shares, "%", 2)))
            if isinstance(process, Exporter):
                rows.append(Row(f"{what}: what became of them", _fate(process, before, reports)))
    return points, rows


def _fate(process: Exporter, before: dict[str, float], reports: list[dict[str, Any]]) -> str:
    sent = sum(each["put"] for each in reports)

    def taken() -> tuple[float, float]:
        now = process.totals()
        received, discarded = (now[name] - before[name] for name in (RECEIVED, DISCARDED))
        return received, discarded

    # Missing ones are reported.
    with suppress(TimeoutError):
        wait_for("all have come", lambda: sum(taken()) >= sent, deadline=_PATIENCE / 10)
    received, discarded = taken()
    reached = spread([each["put"] / each["seconds"] for each in reports], "events/s", 0)
    wait = max(each["longest_block"] for each in reports) * _MILLI
    return (
        f"{reached} reached, {discarded:.0f} discarded, {sent - received - discarded:.0f} missing,"
        f" longest wait {wait:.1f} ms"
    )
