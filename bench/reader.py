"""What an event costs, from the socket to its verdict, beside what reads it and does less."""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import golang
from bench.processes import (
    DISCARDED,
    JUDGING,
    RECEIVED,
    UNRENEWED,
    UNSEEN,
    Exporter,
    Process,
    bare,
    exporter,
    firehose,
    to_queue,
    wait_for,
    wait_for_subscribers,
)
from bench.rows import Row, Section, at_most, figure

_BAR: Final = 1.25
_WHY: Final = "the bare reader decodes nothing, and lets go of what it has read"
# Beside a Go client, at a rate that a busy node has for a moment.
_GO_BAR: Final = 1.6
_GO_WHY: Final = "gRPC for Python takes as much as the whole Go client"
_RATE: Final = 4000
_RATE_SECONDS: Final = 2.0
_EVENTS: Final = 20_000
_ROUNDS: Final = 3
_QUICK_ROUNDS: Final = 1
_PATIENCE: Final = 30
_MICRO: Final = 1e6
# Everything is read by then; what is judged later is in the next round.
_SETTLED: Final = 1.5
_TEXT: Final = f"""
CPU of the whole process for each of {_EVENTS} events of 4 KB, sent as fast as they are taken. The
bare reader is gRPC for Python and nothing else; the reader is the exporter's, from the socket into
its queue; the whole exporter adds the ledger and its relists ({JUDGING[0]}). Measured with readers
and runtimes on a core each, unbound, and at a steady {_RATE} events/s beside a plain Go client
(`bench/client`), which decodes, relists and keeps states, and judges nothing.
"""

_BARE, _READER, _WHOLE, _GO = "bare reader", "reader", "whole exporter", "Go client"
_READERS: Final[dict[str, Callable[[Path], Process]]] = {
    _BARE: lambda socket: bare(socket, "--as-exporter"),
    _READER: to_queue,
    _WHOLE: lambda socket: exporter(socket, *JUDGING, UNRENEWED),
    _GO: golang.client,
}


@dataclass(frozen=True, slots=True)
class _Costs:
    """Seconds of CPU for an event, by reader and round, and what became of the exporter's."""

    of: dict[str, list[float]]
    fate: str

    def ratio(self, one: str, other: str) -> float:
        """Of the medians."""
        return statistics.median(self.of[one]) / statistics.median(self.of[other])


def measure(*, quick: bool) -> Section:
    """CPU per event of all of them, and the ratios, as fast as it goes and steadily."""
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    cores = sorted(os.sched_getaffinity(0))
    three, burst = (_BARE, _READER, _WHOLE), f"burst {_EVENTS} {_PATIENCE}"
    rows: list[Row] = []
    if len(cores) > 1:
        rows += _rows("one core each", _costs(three, rounds, burst, cores))
    unbound = _costs(three, rounds, burst, [])
    rows += _rows("unbound", unbound)
    beside = (_BARE, _WHOLE, _GO) if golang.is_here() else (_BARE, _WHOLE)
    steady = _costs(beside, rounds, f"rate {_RATE} {_RATE_SECONDS}", [])
    rows += _steady_rows(steady)
    each = _figure("", steady.of[_WHOLE]).measured
    cost = f"**An event** of 4 KB, up to its verdict, at {_RATE}/s: {each} of CPU."
    return Section("An event's CPU", _TEXT, tuple(rows), (cost,))


def _rows(where: str, costs: _Costs) -> tuple[Row, ...]:
    return (
        at_most(f"reader / bare reader, {where}", costs.ratio(_READER, _BARE), _BAR).because(_WHY),
        Row(f"whole exporter / bare reader, {where}", f"{costs.ratio(_WHOLE, _BARE):.2f}"),
        *_figures(where, costs),
    )


def _steady_rows(costs: _Costs) -> tuple[Row, ...]:
    where = f"at {_RATE}/s"
    beside = Row(f"whole exporter / bare reader, {where}", f"{costs.ratio(_WHOLE, _BARE):.2f}")
    if _GO not in costs.of:
        absent = Row(f"whole exporter / Go client, {where}", "no Go compiler here")
        return (absent, beside, *_figures(where, costs))
    ratio = at_most(f"whole exporter / Go client, {where}", costs.ratio(_WHOLE, _GO), _GO_BAR)
    return (ratio.because(_GO_WHY), beside, *_figures(where, costs))


def _figures(where: str, costs: _Costs) -> tuple[Row, ...]:
    return (
        *(_figure(f"{name}, per event, {where}", each) for name, each in costs.of.items()),
        Row(f"whole exporter: sent, received, judged, discarded, {where}", costs.fate),
    )


def _costs(names: tuple[str, ...], rounds: int, sending: str, cores: list[int]) -> _Costs:
    """`sending`: the runtime's command for a round.

    `cores`: where the runtimes are kept (the first) and the readers (the last), if anywhere.
    """
    with contextlib.ExitStack() as stack:
        runtimes, sockets = zip(*(stack.enter_context(firehose()) for _ in names), strict=True)
        readers = [
            stack.enter_context(_READERS[name](socket))
            for name, socket in zip(names, sockets, strict=True)
        ]
        for runtime in runtimes:
            wait_for_subscribers(runtime, 1)
        if cores:
            for runtime, process in zip(runtimes, readers, strict=True):
                runtime.pin(cores[0])
                process.pin(cores[-1])
        costs, sent, fate = [], 0, ""
        for _ in range(1 + rounds):
            turn = [_round(*pair, sending) for pair in zip(runtimes, readers, strict=True)]
            costs.append([cpu / put for cpu, put in turn])
            sent += turn[0][1]
        for each in readers:
            if isinstance(each, Exporter):
                metrics = wait_for("all is judged", functools.partial(_all_judged, each, sent))
                counts = (sent, *(metrics[name] for name in (RECEIVED, UNSEEN, DISCARDED)))
                fate = ", ".join(f"{count:.0f}" for count in counts)
            else:
                wait_for("all is read", functools.partial(_has_read, each, sent))
    by_name = zip(names, zip(*costs[1:], strict=True), strict=True)
    return _Costs({name: list(each) for name, each in by_name}, fate)


def _has_read(process: Process, count: int) -> bool:
    return bool(process.ask("read")["read"] >= count)


def _round(runtime: Process, reader: Process, sending: str) -> tuple[float, int]:
    """Seconds of CPU for all events, and how many there were."""
    before = reader.cpu()
    put: int = runtime.ask(sending)["put"]
    # What was read last is still on its way through.
    time.sleep(_SETTLED)
    return reader.cpu() - before, put


def _all_judged(process: Exporter, sent: int) -> dict[str, float] | None:
    metrics = process.totals()
    return metrics if metrics[UNSEEN] + metrics[DISCARDED] >= sent else None


def _figure(what: str, seconds: list[float]) -> Row:
    return figure(what, [each * _MICRO for each in seconds], "µs")
