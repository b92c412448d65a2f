"""What `shadow-pleg filter` adds: memory, CPU, and time on the way of lists and events."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.processes import (
    DISCARDED,
    PYTHON_OF_USERS,
    RECEIVED,
    ROOT,
    UNRENEWED,
    Exporter,
    Process,
    exporter,
    firehose,
    wait_for,
    wait_for_subscribers,
)
from bench.rows import Row, Section, figure, spread

_CONTAINERS: Final = 3
_SIZES: Final = (110, 5_000)
_TURNS: Final = 3
_SECONDS: Final = 3
_QUICK_SECONDS: Final = 3
_CHURN: Final = 40
_BURST: Final = 20_000
_PATIENCE: Final = 30
_FLAGS: Final = ("--relist-period=200ms", "--relist-max-duty=100%", UNRENEWED)
_MILLI: Final = 1000
_LISTS: Final = "shadow_pleg_relist_duration_seconds"
_DELIVERY: Final = "shadow_pleg_event_delivery_seconds"
_TEXT: Final = f"""
The exporter with the runtime's socket and through `filter`, in turns ({_TURNS} each): {_CHURN}
events/s of 4 KB, and relists as often as `--relist-period=200ms` allows. Lists and delivery are
means of the exporter's own histograms. Then a burst of {_BURST} events.
"""


@dataclass(frozen=True, slots=True)
class _Turn:
    """Seconds but for the memory, in MiB. The last three are the filter's."""

    lists: float
    delivery: float
    cpu: float = 0.0
    rss: float = 0.0
    peak: float = 0.0


def measure(*, quick: bool) -> Section:
    """Each size with and without, then a burst."""
    seconds = _QUICK_SECONDS if quick else _SECONDS
    rows = [row for pods in _SIZES for row in _rows(pods, seconds)]
    lists, delivery, _, rss, _ = (row.measured for row in rows[:5])
    cost = (
        f"**`filter`**, {_SIZES[0]} pods x {_CONTAINERS}: {rss} of memory; without and with it,"
        f" lists take {lists}, an event's delivery {delivery}."
    )
    return Section("The filter: what it adds", _TEXT, (*rows, _burst()), (cost,))


def _rows(pods: int, seconds: int) -> tuple[Row, ...]:
    turns = [
        [_turn(pods, seconds, filtered=filtered) for filtered in (False, True)]
        for _ in range(_TURNS)
    ]
    direct, filtered = zip(*turns, strict=True)
    what = f"{pods} pods x {_CONTAINERS}"
    lists, delivery = (
        ", ".join(
            spread([getattr(each, name) * _MILLI for each in side], "ms")
            for side in (direct, filtered)
        )
        for name in ("lists", "delivery")
    )
    return (
        Row(f"{what}: lists, directly and filtered", lists),
        Row(f"{what}: delivery, directly and filtered", delivery),
        figure(f"{what}: the filter's CPU of a relist", [t.cpu * _MILLI for t in filtered], "ms"),
        figure(f"{what}: the filter's RSS", [t.rss for t in filtered], "MiB"),
        figure(f"{what}: its peak", [t.peak for t in filtered], "MiB"),
    )


def _turn(pods: int, seconds: int, *, filtered: bool) -> _Turn:
    with ExitStack() as stack:
        runtime, socket = stack.enter_context(firehose(pods, _CONTAINERS))
        between = stack.enter_context(_filter(socket)) if filtered else None
        path = between[1] if between else socket
        watching = stack.enter_context(exporter(path, *_FLAGS))
        wait_for_subscribers(runtime, 1)
        # What starting and the baseline cost is not to be measured.
        time.sleep(2)
        runtime.ask("relists")
        before, cpu = watching.totals(), between[0].cpu() if between else 0.0
        runtime.ask(f"rate {_CHURN} {seconds}")
        after, relists = watching.totals(), len(runtime.ask("relists")["relists"])
        lists, delivery = (
            (after[f"{name}_sum"] - before[f"{name}_sum"])
            / (after[f"{name}_count"] - before[f"{name}_count"])
            for name in (_LISTS, _DELIVERY)
        )
        if between is None:
            return _Turn(lists, delivery)
        process = between[0]
        cpu = (process.cpu() - cpu) / relists
        return _Turn(lists, delivery, cpu, process.rss(), process.peak_rss())


def _burst() -> Row:
    with (
        firehose() as (runtime, socket),
        _filter(socket) as (_, path),
        exporter(path, *_FLAGS) as watching,
    ):
        wait_for_subscribers(runtime, 1)
        report = runtime.ask(f"burst {_BURST} {_PATIENCE}")
        totals = wait_for("all have come", lambda: _all(watching))
    received, discarded = totals[RECEIVED], totals[DISCARDED]
    overflows = totals["shadow_pleg_stream_disconnects_total"]
    return Row(
        f"a burst of {_BURST} events: taken per second, received, discarded, subscriptions ended",
        f"{report['sent'] / report['seconds']:.0f} events/s, {received:.0f}, {discarded:.0f},"
        f" {overflows:.0f}",
    )


def _all(watching: Exporter) -> dict[str, float] | None:
    """Its metrics, once every event of the burst is received or discarded."""
    totals = watching.totals()
    return totals if totals[RECEIVED] + totals[DISCARDED] >= _BURST else None


@contextmanager
def _filter(runtime: Path) -> Iterator[tuple[Process, Path]]:
    """A filter in front of that runtime, as users have it, and its socket."""
    installed = os.environ.get(PYTHON_OF_USERS)
    socket = runtime.with_name("filter.sock")
    flags = (f"--runtime-endpoint=unix://{runtime}", f"--socket=unix://{socket}")
    with Process(
        *("exporter", "filter", *flags),
        program=(installed or sys.executable, "-m"),
        cwd=Path(installed).parent if installed else ROOT,
    ) as process:
        wait_for("the filter serves", socket.exists)
        yield process, socket
