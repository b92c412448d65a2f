"""What a relist costs, and how much memory it all takes, by the size of the node."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from bench.processes import (
    Exporter,
    Process,
    exporter,
    firehose,
    least,
    wait_for_subscribers,
)
from bench.rows import Row, Section, at_most

_CONTAINERS: Final = 3
# Pods, and the most MiB of resident memory that they may take.
_SIZES: Final = ((0, None), (110, 52.0), (500, None), (1_000, 72.0), (5_000, 140.0))
_SECONDS: Final = 10
_QUICK_SECONDS: Final = 4
_FLAGS: Final = ("--relist-period=200ms", "--relist-max-duty=100%")
_FEWEST: Final = 5
_COMMON: Final = 110
_CHURN: Final = 40
_MILLI: Final = 1000
_DURATION: Final = "shadow_pleg_relist_duration_seconds"
_TEXT: Final = f"""
Pods of {_CONTAINERS} containers, about 1 KB an entry, relisted as often as
`--relist-period=200ms` allows, while containers live and die at {_CHURN} events/s. `lists`: mean
time until both lists have come, from the exporter's own histogram, the runtime's work in it being
next to nothing. `CPU`: of the whole process divided by the number of relists, so the events and
the idling in between are in it. `RSS`: afterwards, and its peak. The libraries alone are a few
lines that do the same work with grpc.aio, protobuf, prometheus-client and aiohttp.web (lists and
events read and decoded, a page for Prometheus served) and find nothing out: what is built upon
them starts there. The image runs Python with -OO, without docstrings.
"""


@dataclass(frozen=True, slots=True)
class _Cost:
    relists: int
    lists: float
    cpu: float
    rss: float
    peak: float


def measure(*, quick: bool) -> Section:
    """Each size in a fresh process."""
    seconds = _QUICK_SECONDS if quick else _SECONDS
    what = f"{_COMMON} pods x {_CONTAINERS}, the libraries alone: RSS"
    rows = [Row(what, f"{_floor(seconds):.1f} MiB")]
    with _optimised():
        cost = _cost(_COMMON, seconds)
    what = f"{_COMMON} pods x {_CONTAINERS}, with -OO: RSS (peak {cost.peak:.1f} MiB)"
    rows.append(Row(what, f"{cost.rss:.1f} MiB"))
    for pods, limit in _SIZES:
        cost = _cost(pods, seconds)
        what = f"{pods} pods x {_CONTAINERS}"
        rows.append(
            Row(
                f"{what}: lists, CPU of a relist (mean of {cost.relists})",
                f"{cost.lists * _MILLI:.1f} ms, {cost.cpu * _MILLI:.1f} ms",
            )
        )
        memory = f"{what}: RSS (peak {cost.peak:.1f} MiB)"
        if limit is None:
            rows.append(Row(memory, f"{cost.rss:.1f} MiB"))
        else:
            rows.append(at_most(memory, cost.rss, limit, "MiB", digits=1))
    return Section("Relists and memory by size", _TEXT, tuple(rows))


def _floor(seconds: int) -> float:
    """Resident memory of what the exporter is built upon, at the same work, in MiB."""
    with firehose(_COMMON, _CONTAINERS) as (runtime, socket), least(socket) as process:
        wait_for_subscribers(runtime, 1)
        runtime.ask(f"rate {_CHURN} {seconds}")
        process.scrape()
        return process.rss()


@contextmanager
def _optimised() -> Iterator[None]:
    """Meanwhile processes are started as if with -OO."""
    os.environ["PYTHONOPTIMIZE"] = "2"
    try:
        yield
    finally:
        del os.environ["PYTHONOPTIMIZE"]


def _cost(pods: int, seconds: int) -> _Cost:
    with (
        firehose(pods, _CONTAINERS) as (runtime, socket),
        exporter(socket, *_FLAGS) as process,
    ):
        wait_for_subscribers(runtime, 1)
        # What starting and the baseline cost is not to be measured.
        time.sleep(2)
        return _observed(runtime, process, seconds)


def _observed(runtime: Process, process: Exporter, seconds: int) -> _Cost:
    before = process.totals()
    runtime.ask("relists")
    cpu = process.cpu()
    relists = 0
    while relists < _FEWEST:
        runtime.ask(f"rate {_CHURN} {seconds}")
        relists += len(runtime.ask("relists")["relists"])
    cpu = process.cpu() - cpu
    after = process.totals()
    time_taken = after[_DURATION + "_sum"] - before[_DURATION + "_sum"]
    count = after[_DURATION + "_count"] - before[_DURATION + "_count"]
    return _Cost(relists, time_taken / count, cpu / relists, process.rss(), process.peak_rss())
