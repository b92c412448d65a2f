"""What a scrape costs, and how cost grows with scrapes and with viewers of the status page."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from bench.curves import Line, Panel, Point
from bench.processes import Exporter, Process, exporter, firehose, wait_for_subscribers
from bench.rows import Row, Section, at_most, figure

_SIZES: Final = (0, 1_000)
_BAR: Final = 5.0
_TURNS: Final = 3
_SECONDS: Final = 2.0
_QUICK_SECONDS: Final = 1.5
# By then a page is rendered again, even on a busy machine.
_APART: Final = 0.5
# Scrapes a second; one every fifteen seconds is usual.
_RATES: Final = (1, 2, 5, 20, 50)
_COMMON: Final = 110
# As many as the exporter serves at a time.
_VIEWERS: Final = (0, 1, 2, 3, 4)
_CHURN: Final = 40
_MILLI: Final = 1000
_TEXT: Final = f"""
Asked for as Prometheus 3 does (OpenMetrics, gzip, one connection), no relist in between. CPU of the
process during scrapes {_APART * _MILLI:.0f} ms apart, less what it takes in the same time unasked,
divided by their number; {_TURNS} turns. The shares are those of the whole process: while it is
scraped as often as stated ({_COMMON} pods of 3 containers, no event; a page that was rendered a
moment ago is served again), and while as many look at the status page ({_CHURN} events/s, so that
each second has news for them).
"""


def measure(*, quick: bool) -> Section:
    """CPU of a scrape, with pods and without; shares by scrapes and by viewers."""
    seconds = _QUICK_SECONDS if quick else _SECONDS
    rows: list[Row] = []
    for pods in _SIZES:
        costs = _costs(pods, seconds)
        rows.append(at_most(f"CPU of a scrape, {pods} pods x 3", costs, _BAR, "ms"))
    by_rate, by_viewers = _by_rate(seconds), _by_viewers(seconds)
    rows += [_row(f"scrapes a second: {point.x:g}", point) for point in by_rate]
    rows += [_row(f"viewers of the status page: {point.x:g}", point) for point in by_viewers]
    panels = (
        _panel("Scrapes", "scrapes a second", by_rate),
        # There is no 0 on a logarithmic axis.
        _panel("Viewers of the status page", "viewers", by_viewers[1:]),
    )
    return Section("Scrapes and viewers", _TEXT, tuple(rows), panels=panels)


def _row(what: str, point: Point) -> Row:
    return figure(f"{what}, share of a core", point.values, "%", 2)


def _panel(title: str, x: str, points: list[Point]) -> Panel:
    return Panel(title, x, "% of a core", (Line("exporter", tuple(points)),))


@contextmanager
def _watching(pods: int) -> Iterator[tuple[Process, Exporter]]:
    with firehose(pods) as (runtime, socket), exporter(socket, "--relist-period=1m") as process:
        wait_for_subscribers(runtime, 1)
        process.scrape()
        # What starting and the baseline cost is not to be measured.
        time.sleep(2)
        yield runtime, process


def _costs(pods: int, seconds: float) -> list[float]:
    """Milliseconds of CPU for one scrape, by turn."""
    with _watching(pods) as (_, process):
        costs = []
        for _ in range(_TURNS):
            idle = _cpu(process, partial(time.sleep, seconds))
            count = int(seconds / _APART)
            cpu = _cpu(process, partial(_scrapes, process, count, _APART))
            costs.append((cpu - idle) / count * _MILLI)
        return costs


def _by_rate(seconds: float) -> list[Point]:
    with _watching(_COMMON) as (_, process):
        return [
            _point(rate, process, seconds, partial(_scrapes, process, count, seconds / count))
            for rate in _RATES
            for count in [max(1, int(seconds * rate))]
        ]


def _by_viewers(seconds: float) -> list[Point]:
    with _watching(_COMMON) as (runtime, process):
        points = []
        for count in _VIEWERS:
            with ExitStack() as stack:
                for _ in range(count):
                    stack.enter_context(_viewer(process.url))
                churn = f"rate {_CHURN} {seconds}"
                points.append(_point(count, process, seconds, partial(runtime.ask, churn)))
        return points


@contextmanager
def _viewer(url: str) -> Iterator[None]:
    """Reads what the status page is sent, as a browser does."""
    with urllib.request.urlopen(f"{url}events") as answer:  # noqa: S310 - http
        answer.readline()

        def read() -> None:
            while answer.readline():
                pass

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        yield
        answer.fp.raw._sock.shutdown(2)  # noqa: SLF001 - its only way to end a read
        reading.join()


def _point(x: float, process: Process, seconds: float, work: Callable[[], object]) -> Point:
    """Percent of a core, again and again."""
    shares = [_cpu(process, work) / seconds * 100 for _ in range(_TURNS)]
    return Point(x, tuple(shares))


def _cpu(process: Process, work: Callable[[], object]) -> float:
    before = process.cpu()
    work()
    return process.cpu() - before


def _scrapes(process: Exporter, count: int, apart: float) -> None:
    began = time.monotonic()
    for number in range(count):
        # Prometheus, too, asks by the clock.
        time.sleep(max(0.0, began + number * apart - time.monotonic()))
        process.scrape()
    time.sleep(max(0.0, began + count * apart - time.monotonic()))
