"""What a relist costs, and how much memory it all takes, by the size of the node."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme

from bench.memory import Memory
from bench.processes import (
    Exporter,
    Process,
    as_the_image_runs_it,
    exporter,
    firehose,
    least,
    wait_for_subscribers,
)
from bench.rows import Row, Section, at_most

_CONTAINERS: Final = 3
# Pods, and the most MiB of resident memory that they may take.
_SIZES: Final = ((0, None), (110, None), (500, None), (1_000, 72.0), (5_000, 140.0))
_SECONDS: Final = 10
_QUICK_SECONDS: Final = 4
_FLAGS: Final = ("--relist-period=200ms", "--relist-max-duty=100%")
_FEWEST: Final = 5
_COMMON: Final = 110
# As the image runs it: the most MiB, and with TLS; the median of so many processes.
_BAR: Final = 49.0
_TLS_BAR: Final = 53.0
_PROCESSES: Final = 3
_TLS: Final = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
_CHURN: Final = 40
_MILLI: Final = 1000
_DURATION: Final = "shadow_pleg_relist_duration_seconds"
_TEXT: Final = f"""
Pods of {_CONTAINERS} containers, about 1 KB an entry, relisted as often as `--relist-period=200ms`
allows, while containers live and die at {_CHURN} events/s. `lists`: mean time until both lists
have come, from the exporter's own histogram, the runtime's work in it being next to nothing.
`CPU`: of the whole process divided by the number of relists, so the events and the idling in
between are in it. `RSS`: afterwards, and its peak. The libraries alone are a few lines that do the
same work with grpc.aio, protobuf, prometheus-client and aiohttp.web (lists and events read and
decoded, a page for Prometheus served) but judge nothing: this is what they take as they load
themselves. The image runs Python with -OO, without docstrings; there each figure is the median of
{_PROCESSES} processes, with the range. Anonymous memory is what the process alone has;
proportional memory shares each page of a library among the processes that have it. TLS is 5 MiB of
OpenSSL, which other processes of a node share, and 1 MiB to read YAML.
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
    rows += [_as_image("as the image runs it", _BAR, seconds)]
    with tempfile.TemporaryDirectory() as folder:
        flag = f"--web.config.file={_web_config(Path(folder))}"
        rows += [_as_image("the same with TLS", _TLS_BAR, seconds, flag)]
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


def _as_image(how: str, limit: float, seconds: int, *flags: str) -> Row:
    """The median of some processes, by resident memory."""
    with as_the_image_runs_it():
        several = sorted((_memory(seconds, *flags) for _ in range(_PROCESSES)), key=_resident)
    median, spread = (
        several[_PROCESSES // 2],
        f"{several[0].resident:.1f} to {several[-1].resident:.1f}",
    )
    what = f"{_COMMON} pods x {_CONTAINERS}, {how}: RSS ({spread}; {median})"
    return at_most(what, median.resident, limit, "MiB", digits=1)


def _resident(memory: Memory) -> float:
    return memory.resident


def _memory(seconds: int, *flags: str) -> Memory:
    with (
        firehose(_COMMON, _CONTAINERS) as (runtime, socket),
        exporter(socket, *_FLAGS, *flags) as process,
    ):
        wait_for_subscribers(runtime, 1)
        process.scrape()
        runtime.ask(f"rate {_CHURN} {seconds}")
        process.scrape()
        return process.memory()


def _web_config(folder: Path) -> Path:
    """A web configuration with TLS."""
    leaf = trustme.CA().issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(str(folder / "server.key"))
    leaf.cert_chain_pems[0].write_to_path(str(folder / "server.crt"))
    config = folder / "web.yml"
    config.write_text(_TLS)
    return config


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
