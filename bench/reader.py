"""What an event costs, from the socket to its verdict, beside reading it and nothing more."""

from __future__ import annotations

import statistics
import time
from typing import Final

from bench.processes import (
    JUDGING,
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
_ROUNDS: Final = 7
_QUICK_ROUNDS: Final = 3
_PATIENCE: Final = 30
_MICRO: Final = 1e6
# Everything is read by then; what is judged later is in the next round.
_SETTLED: Final = 2.0
# A renewed lease would bring every event twice.
_LEASE: Final = "--stream-lease=10m"
_TEXT: Final = f"""
CPU of the whole process for each of {_EVENTS} events of 4 KB, sent as fast as they are taken;
each container in them goes from CREATED to DELETED. The exporter's includes the ledger and the
relists that judge them ({JUDGING[0]}, no pods listed); the bare reader's is gRPC for Python and
nothing else, with the same options of the channel. In turns, each with a runtime of its own,
after a round that does not count; medians, and the range.
"""


def measure(*, quick: bool) -> Section:
    """CPU per event of both, and the ratio."""
    ours, reference = [], []
    with (
        firehose() as (runtime, socket),
        firehose() as (other, other_socket),
        exporter(socket, *JUDGING, _LEASE) as process,
        bare(other_socket, "--as-exporter") as bystander,
    ):
        wait_for_subscribers(runtime, 1)
        wait_for_subscribers(other, 1)
        for _ in range(1 + (_QUICK_ROUNDS if quick else _ROUNDS)):
            ours.append(_round(runtime, process))
            reference.append(_round(other, bystander))
        sent = len(ours) * _EVENTS
        wait_for("all is read", lambda: bystander.ask("read")["read"] >= sent)
        metrics = wait_for("all is judged", lambda: _all_judged(process, sent))
    ratio = statistics.median(ours[1:]) / statistics.median(reference[1:])
    received = metrics["shadow_pleg_events_received_total"]
    judged = metrics["shadow_pleg_unseen_events_total"]
    return Section(
        "An event's CPU",
        _TEXT,
        (
            at_most("exporter / bare reader", ratio, _BAR),
            _row("exporter, per event", ours[1:]),
            _row("bare reader, per event", reference[1:]),
            Row(
                "events sent, received, judged, discarded by the exporter",
                f"{sent}, {received:.0f}, {judged:.0f},"
                f" {metrics['shadow_pleg_discard_events_total']:.0f}",
            ),
        ),
    )


def _round(runtime: Process, reader: Process) -> float:
    """Seconds of CPU for each event."""
    before = reader.cpu()
    runtime.ask(f"burst {_EVENTS} {_PATIENCE}")
    time.sleep(_SETTLED)
    return (reader.cpu() - before) / _EVENTS


def _all_judged(process: Exporter, sent: int) -> dict[str, float] | None:
    metrics = process.totals()
    done = metrics["shadow_pleg_unseen_events_total"] + metrics["shadow_pleg_discard_events_total"]
    return metrics if done >= sent else None


def _row(what: str, values: list[float]) -> Row:
    low, middle, high = (
        each * _MICRO for each in (min(values), statistics.median(values), max(values))
    )
    return Row(what, f"{middle:.1f} µs ({low:.1f} to {high:.1f})")
