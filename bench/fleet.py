"""What a fleet costs its Prometheus: series, the evaluation of our rules, a report about a week.

Blind spots: samples of all nodes come at the same moments; series of the same shape share their
chunks on disk, so what is measured is the work of the queries and not of the disk; rules that read
what other rules recorded find nothing.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bench.curves import Line, Panel, Point
from bench.processes import ROOT, exporter, firehose, wait_for_subscribers
from bench.rows import Row, Section, at_most, figure, spread
from tests.support.commands import running
from tests.support.prometheus import knowing, witnessed
from tests.support.recorded_fleet import write_recorded_fleet
from tests.support.report_fleets import DAY, START
from tests.support.tsdb_block import Labels, Shape, write_block

_NODES: Final = (100, 1_000, 5_000)
_QUICK_NODES: Final = (30, 100, 300)
_DAYS: Final = 7
_TURNS: Final = 2
_PODS: Final = 110
# --query.timeout and --query.max-samples.
_TIMEOUT: Final = 120
_MOST_SAMPLES: Final = 50.0
_MILLION: Final = 1e6
_SCRAPE_SECONDS: Final = 30
# What the rules look back, and one chunk.
_SAMPLES: Final = 121
_NAMES: Final = re.compile(r"\b(?:shadow_pleg|kube_pod|up)\w*\b")
_COUNTERS: Final = ("_total", "_count", "_sum", "_bucket")
_TEXT: Final = f"""
Rules: all expressions of `alerts/rules.yaml`, once, on a real Prometheus with an hour of their
series, scraped every {_SCRAPE_SECONDS} s. Report: `shadow-pleg report --window {_DAYS}d`, on what
the recording rules keep.
"""


@dataclass(frozen=True, slots=True)
class _Report:
    """Seconds of the whole, and of its longest query; samples in memory at once; how many."""

    took: float
    longest: float
    peak: int
    samples: int


def measure(*, quick: bool) -> Section:
    """Each size of a fleet."""
    page = _page()
    nodes = _QUICK_NODES if quick else _NODES
    rules = {count: asyncio.run(_rules(page, count)) for count in nodes}
    reports = {count: asyncio.run(_report(count)) for count in nodes}
    rows = [Row("series of one exporter", f"{len(page)}")]
    for count in nodes:
        what = f"{count:,} nodes"
        report = reports[count]
        rows += (
            Row(f"{what}: series", f"{count * len(page):,}"),
            figure(f"{what}: all rules once", rules[count], "s", 2),
            Row(
                f"{what}: report ({report.samples / _MILLION:.0f} million samples)",
                f"{report.took:.1f} s",
            ),
        )
    last = reports[nodes[-1]]
    rows += (
        at_most("the longest query of that report", last.longest, _TIMEOUT, "s", 1),
        at_most("its samples in memory at once, millions", last.peak / _MILLION, _MOST_SAMPLES),
    )
    lines = (
        Line("all rules once", tuple(Point(x, tuple(each)) for x, each in rules.items())),
        Line("report on a week", tuple(Point(x, (each.took,)) for x, each in reports.items())),
    )
    panels = (Panel("A fleet's Prometheus", "nodes", "seconds", lines),)
    cost = (
        f"**A fleet of {nodes[-1]:,} nodes** costs its Prometheus"
        f" {nodes[-1] * len(page) / _MILLION:.1f} million series, {spread(rules[nodes[-1]], 's')}"
        f" for all rules once, and {last.took:.0f} s for a report on a week."
    )
    return Section("A fleet", _TEXT, tuple(rows), (cost,), panels)


def _page() -> list[dict[str, str]]:
    """The labels of all series of an exporter, their names among them."""
    with firehose(_PODS) as (runtime, socket), exporter(socket) as process:
        wait_for_subscribers(runtime, 1)
        return [
            {"__name__": name} | labels
            for series in process.metrics()
            for family in text_string_to_metric_families(f"{series} 0\n")
            for name, labels, *_ in family.samples
        ]


def _exprs() -> list[str]:
    groups = yaml.safe_load((ROOT / "alerts/rules.yaml").read_text(encoding="utf-8"))["groups"]
    return [str(rule["expr"]) for group in groups for rule in group["rules"]]


async def _rules(page: list[dict[str, str]], nodes: int) -> list[float]:
    """Seconds of all expressions, by turn."""
    exprs = _exprs()
    named = {name for expr in exprs for name in _NAMES.findall(expr)}
    times = range(START, START + _SAMPLES * _SCRAPE_SECONDS, _SCRAPE_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        own = [each for each in page if each["__name__"] in named] + [{"__name__": "up"}]
        write_block(Path(folder), _series(own, nodes, times))
        async with knowing(blocks=Path(folder)) as url, aiohttp.ClientSession() as session:
            took = []
            for _ in range(_TURNS):
                began = time.monotonic()
                for expr in exprs:
                    asked = {"query": expr, "time": str(times[-1])}
                    async with session.post(f"{url}/api/v1/query", data=asked) as answer:
                        answer.raise_for_status()
                        await answer.read()
                took.append(time.monotonic() - began)
            return took


def _series(page: list[dict[str, str]], nodes: int, times: range) -> Iterator[tuple[Labels, Shape]]:
    counted = Shape(times, [float(number) for number in range(len(times))])
    constant = Shape(times, [1.0] * len(times))
    for i in range(nodes):
        instance = f"10.0.{i // 250}.{i % 250}:13386"
        node = {"cluster": "blue", "job": "shadow-pleg", "node": f"node-{i:04}"}
        for labels in page:
            shape = counted if labels["__name__"].endswith(_COUNTERS) else constant
            yield node | {"instance": instance} | labels, shape


async def _report(nodes: int) -> _Report:
    with tempfile.TemporaryDirectory() as folder:
        samples = write_recorded_fleet(Path(folder), nodes, _DAYS)
        async with knowing(blocks=Path(folder)) as url, witnessed(url) as witness:
            began = time.monotonic()
            end = f"--end={START + _DAYS * DAY}"
            arguments = ("report", f"--prometheus-url={witness.url}", f"--window={_DAYS}d", end)
            async with running(*arguments) as command:
                _, err = await command.process.communicate()
            took = time.monotonic() - began
    if command.process.returncode:
        raise RuntimeError(err.decode())
    return _Report(took, max(witness.seconds), max(witness.peaks), samples)
