"""How many events a second are taken without a discard, and without holding up the runtime."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from bench.processes import (
    DISCARDED,
    JUDGING,
    RECEIVED,
    UNRENEWED,
    Process,
    bare,
    exporter,
    firehose,
    wait_for,
    wait_for_subscribers,
)
from bench.rows import Row, Section, at_least

_BAR: Final = 10_000
_BURST: Final = 100_000
_QUICK_BURST: Final = 30_000
_RATES: Final = (1_000, 5_000, 20_000)
_SECONDS: Final = 10
_QUICK_SECONDS: Final = 3
_PATIENCE: Final = 30
_POLL: Final = 0.2
_MILLI: Final = 1000
# The ledger believes in no more than 16384 containers that no list shows, and all of these are
# such: relists must settle them sooner than a node's would have to.
_FLAGS: Final = (*JUDGING, UNRENEWED)
_TEXT: Final = """
Events of 4 KB. "As fast as it goes" is a burst that the runtime sends as fast as it is taken,
divided by the time until all of it was counted as received; gRPC presses back for most of that
time. The rates below it are steady: how many were discarded, how many are missing in the end, and
the longest time for which one send had to wait.
"""


def measure(*, quick: bool) -> Section:
    """A burst for each reader, then rates for the exporter."""
    burst = _QUICK_BURST if quick else _BURST
    rows = []
    with firehose() as (runtime, socket), exporter(socket, *_FLAGS) as process:
        wait_for_subscribers(runtime, 1)
        runtime.ask(f"burst 2000 {_PATIENCE}")
        rate = _as_fast_as_it_goes(runtime, burst, lambda: process.totals()[RECEIVED])
        metrics = process.totals()
        discarded = metrics[DISCARDED]
        what = f"exporter, as fast as it goes, {discarded:.0f} discarded"
        rows.append(at_least(what, 0.0 if discarded else rate, _BAR, "events/s"))
        if discarded:
            rows.append(Row("exporter, that rate with its discards", f"{rate:.0f} events/s"))
    with firehose() as (runtime, socket), bare(socket, "--as-exporter") as reader:
        wait_for_subscribers(runtime, 1)
        runtime.ask(f"burst 2000 {_PATIENCE}")
        rate = _as_fast_as_it_goes(runtime, burst, lambda: float(reader.ask("read")["read"]))
        rows.append(Row("bare reader, as fast as it goes", f"{rate:.0f} events/s"))
    seconds = _QUICK_SECONDS if quick else _SECONDS
    rows += [_steady(each, seconds) for each in _RATES]
    return Section("Throughput", _TEXT, tuple(rows))


def _as_fast_as_it_goes(runtime: Process, burst: int, count: Callable[[], float]) -> float:
    wait_for("the warm-up is read", lambda: count() >= 1)
    # What the warm-up left is read by then.
    time.sleep(1)
    goal = count() + burst
    began = time.monotonic()
    runtime.ask(f"burst {burst} {_PATIENCE}")
    # What is discarded is never received: then this ends when nothing more comes.
    last = -1.0
    while last < (now := count()) < goal:
        last = now
        time.sleep(_POLL)
    return (now - (goal - burst)) / (time.monotonic() - began)


def _steady(rate: int, seconds: int) -> Row:
    with firehose() as (runtime, socket), exporter(socket, *_FLAGS) as process:
        wait_for_subscribers(runtime, 1)
        report: dict[str, Any] = runtime.ask(f"rate {rate} {seconds}")
        # The last events are on their way.
        time.sleep(1)
        metrics = process.totals()
    discarded = metrics[DISCARDED]
    missing = report["put"] - metrics[RECEIVED] - discarded
    return Row(
        f"{rate} events/s for {seconds} s: reached, discarded, missing, longest wait",
        f"{report['put'] / report['seconds']:.0f} events/s, {discarded:.0f}, {missing:.0f},"
        f" {report['longest_block'] * _MILLI:.1f} ms",
    )
