"""What an event costs, from the socket to its verdict, beside reading it and nothing more."""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import time
from dataclasses import dataclass
from typing import Final

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
_EVENTS: Final = 20_000
_ROUNDS: Final = 3
_QUICK_ROUNDS: Final = 1
_PATIENCE: Final = 30
_MICRO: Final = 1e6
# Everything is read by then; what is judged later is in the next round.
_SETTLED: Final = 1.5
_TEXT: Final = f"""
CPU of the whole process for each of {_EVENTS} events of 4 KB, sent as fast as they are taken;
each container in them goes from CREATED to DELETED. The bare reader is gRPC for Python and
nothing else, with the same options of the channel; the reader is the exporter's own, from the
socket into its queue: bytes, the decoding of what is needed, a put that never waits. The whole
exporter's figure includes the ledger and the relists that judge the events ({JUDGING[0]}, no pods
listed). In turns, each with a runtime of its own, after a round that does not count; medians, and
the range. gRPC hands each message from a thread of its own to the event loop's. Where the two run
decides what that costs, in all of them but not alike, and with it the ratio: so it is measured
twice, with the readers kept on one core and the runtimes on another, and as the scheduler pleases.
"""


@dataclass(frozen=True, slots=True)
class _Costs:
    """Seconds of CPU for an event, by round, and what became of the exporter's events."""

    bare: list[float]
    reader: list[float]
    whole: list[float]
    fate: str


def measure(*, quick: bool) -> Section:
    """CPU per event of all three, and the ratios, in both placements."""
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    cores = sorted(os.sched_getaffinity(0))
    rows: list[Row] = []
    if len(cores) > 1:
        rows += _rows("one core each", _costs(rounds, cores))
    unbound = _costs(rounds, [])
    rows += _rows("unbound", unbound)
    each = _figure("", unbound.whole).measured
    cost = f"**An event** of 4 KB, up to its verdict: {each} of CPU."
    return Section("An event's CPU", _TEXT, tuple(rows), (cost,))


def _rows(where: str, costs: _Costs) -> tuple[Row, ...]:
    bare = statistics.median(costs.bare)
    whole = statistics.median(costs.whole) / bare
    return (
        at_most(
            f"reader / bare reader, {where}", statistics.median(costs.reader) / bare, _BAR
        ).because(_WHY),
        Row(f"whole exporter / bare reader, {where}", f"{whole:.2f}"),
        _figure(f"bare reader, per event, {where}", costs.bare),
        _figure(f"reader, per event, {where}", costs.reader),
        _figure(f"whole exporter, per event, {where}", costs.whole),
        Row(f"whole exporter: sent, received, judged, discarded, {where}", costs.fate),
    )


def _costs(rounds: int, cores: list[int]) -> _Costs:
    """`cores`: where the runtimes are kept (the first) and the readers (the last), if anywhere."""
    with contextlib.ExitStack() as stack:
        runtimes, sockets = zip(*(stack.enter_context(firehose()) for _ in range(3)), strict=True)
        readers: tuple[Process, Process, Exporter] = (
            stack.enter_context(bare(sockets[0], "--as-exporter")),
            stack.enter_context(to_queue(sockets[1])),
            stack.enter_context(exporter(sockets[2], *JUDGING, UNRENEWED)),
        )
        for runtime in runtimes:
            wait_for_subscribers(runtime, 1)
        if cores:
            for runtime, process in zip(runtimes, readers, strict=True):
                runtime.pin(cores[0])
                process.pin(cores[-1])
        costs = [
            [_round(*pair) for pair in zip(runtimes, readers, strict=True)]
            for _ in range(1 + rounds)
        ]
        sent = len(costs) * _EVENTS
        *others, whole = readers
        for each in others:
            wait_for("all is read", functools.partial(_has_read, each, sent))
        metrics = wait_for("all is judged", lambda: _all_judged(whole, sent))
    fate = (metrics[name] for name in (RECEIVED, UNSEEN, DISCARDED))
    nothing, reader, everything = (list(each) for each in zip(*costs[1:], strict=True))
    text = ", ".join(f"{count:.0f}" for count in (sent, *fate))
    return _Costs(nothing, reader, everything, text)


def _has_read(process: Process, count: int) -> bool:
    return bool(process.ask("read")["read"] >= count)


def _round(runtime: Process, reader: Process) -> float:
    """Seconds of CPU for each event."""
    before = reader.cpu()
    runtime.ask(f"burst {_EVENTS} {_PATIENCE}")
    # What was read last is still on its way through.
    time.sleep(_SETTLED)
    return (reader.cpu() - before) / _EVENTS


def _all_judged(process: Exporter, sent: int) -> dict[str, float] | None:
    metrics = process.totals()
    return metrics if metrics[UNSEEN] + metrics[DISCARDED] >= sent else None


def _figure(what: str, seconds: list[float]) -> Row:
    return figure(what, [each * _MICRO for each in seconds], "µs")
