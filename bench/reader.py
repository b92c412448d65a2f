"""What an event costs, from the socket to its verdict, beside reading it and nothing more."""

from __future__ import annotations

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
    wait_for,
    wait_for_subscribers,
)
from bench.rows import Row, Section, at_most

_BAR: Final = 1.25
_EVENTS: Final = 20_000
_ROUNDS: Final = 5
_QUICK_ROUNDS: Final = 3
_PATIENCE: Final = 30
_MICRO: Final = 1e6
# Everything is read by then; what is judged later is in the next round.
_SETTLED: Final = 1.5
_TEXT: Final = f"""
CPU of the whole process for each of {_EVENTS} events of 4 KB, sent as fast as they are taken;
each container in them goes from CREATED to DELETED. The exporter's includes the ledger and the
relists that judge them ({JUDGING[0]}, no pods listed); the bare reader's is gRPC for Python and
nothing else, with the same options of the channel. In turns, each with a runtime of its own,
after a round that does not count; medians, and the range. gRPC hands each message from a thread
of its own to the event loop's. Where the two run decides what that costs, in both readers but
not alike, and with it the ratio: so it is measured twice, with each reader kept on one core
and the runtimes on another, and as the scheduler pleases.
"""


@dataclass(frozen=True, slots=True)
class _Costs:
    """Seconds of CPU for an event, by round, and what became of the exporter's events."""

    ours: list[float]
    bare: list[float]
    fate: str

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.bare)


def measure(*, quick: bool) -> Section:
    """CPU per event of both, and the ratio, in both placements."""
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    cores = sorted(os.sched_getaffinity(0))
    rows: list[Row] = []
    if len(cores) > 1:
        rows += _rows("one core each", _costs(rounds, cores))
    rows += _rows("unbound", _costs(rounds, []))
    return Section("An event's CPU", _TEXT, tuple(rows))


def _rows(where: str, costs: _Costs) -> tuple[Row, ...]:
    return (
        at_most(f"exporter / bare reader, {where}", costs.ratio, _BAR),
        _row(f"exporter, per event, {where}", costs.ours),
        _row(f"bare reader, per event, {where}", costs.bare),
        Row(f"exporter: sent, received, judged, discarded, {where}", costs.fate),
    )


def _costs(rounds: int, cores: list[int]) -> _Costs:
    """`cores`: where the runtimes are kept (the first) and the readers (the last), if anywhere."""
    ours, reference = [], []
    with (
        firehose() as (runtime, socket),
        firehose() as (other, other_socket),
        exporter(socket, *JUDGING, UNRENEWED) as process,
        bare(other_socket, "--as-exporter") as bystander,
    ):
        wait_for_subscribers(runtime, 1)
        wait_for_subscribers(other, 1)
        if cores:
            for each, core in ((runtime, 0), (other, 0), (process, -1), (bystander, -1)):
                each.pin(cores[core])
        for _ in range(1 + rounds):
            ours.append(_round(runtime, process))
            reference.append(_round(other, bystander))
        sent = len(ours) * _EVENTS
        wait_for("all is read", lambda: bystander.ask("read")["read"] >= sent)
        metrics = wait_for("all is judged", lambda: _all_judged(process, sent))
    fate = (metrics[name] for name in (RECEIVED, UNSEEN, DISCARDED))
    return _Costs(ours[1:], reference[1:], ", ".join(f"{count:.0f}" for count in (sent, *fate)))


def _round(runtime: Process, reader: Process) -> float:
    """Seconds of CPU for each event."""
    before = reader.cpu()
    runtime.ask(f"burst {_EVENTS} {_PATIENCE}")
    time.sleep(_SETTLED)
    return (reader.cpu() - before) / _EVENTS


def _all_judged(process: Exporter, sent: int) -> dict[str, float] | None:
    metrics = process.totals()
    return metrics if metrics[UNSEEN] + metrics[DISCARDED] >= sent else None


def _row(what: str, values: list[float]) -> Row:
    low, middle, high = (
        each * _MICRO for each in (min(values), statistics.median(values), max(values))
    )
    return Row(what, f"{middle:.1f} µs ({low:.1f} to {high:.1f})")
