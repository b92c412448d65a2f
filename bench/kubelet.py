"""What reading the kubelet's metrics costs: a page of 3 MB over TLS, as a full node has it.

Here: one reading alone, for the longest turn of the loop, and the exporter with and without. Blind
spot: what the page costs the kubelet itself, which makes it anew for each reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import ssl
import tempfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import trustme

from bench.processes import MIB, Exporter, exporter, firehose, wait_for, wait_for_subscribers
from bench.rows import Row, Section, at_most, percentile
from exporter.kubelet.client import KubeletClient
from exporter.settings.config import Config
from exporter.settings.flags import duration
from tests.support.kubelet_pages import KubeletPage

_SIZE: Final = 3 * MIB
_READINGS: Final = 30
_QUICK_READINGS: Final = 15
_OFTEN: Final = "200ms"
_SETTLED: Final = 4.0
_DAY: Final = 24 * 3600
_PERIOD: Final = 30
_SEEN: Final = "shadow_pleg_kubelet_last_seen_seconds"
_TEXT: Final = f"""
`--kubelet-metrics-url` with a page of {_SIZE // MIB} MiB over TLS. Turns of the event loop are CPU
time of its thread; memory is what the process has more than one that asks no kubelet.
"""


def measure(*, quick: bool) -> Section:
    """One reading, and the exporter that makes many."""
    readings = _QUICK_READINGS if quick else _READINGS
    with _kubelet() as (url, ca):
        config = Config(kubelet_metrics_url=url, kubelet_ca_file=ca)
        turns, took = asyncio.run(_alone(config, readings))
        flags = (f"--kubelet-metrics-url={url}", f"--kubelet-ca-file={ca}")
        without = _beside(readings)
        with_it = _beside(readings, *flags, f"--kubelet-metrics-period={_OFTEN}")
    cpu = (with_it[0] - without[0]) / readings
    return Section(
        "The kubelet's metrics",
        _TEXT,
        (
            at_most(
                f"longest turn of the loop in {readings} readings", max(turns) * 1000, 10, "ms"
            ),
            Row("turns, p99", f"{percentile(turns, 0.99) * 1000:.2f} ms"),
            Row("one reading, median", f"{percentile(took, 0.5) * 1000:.0f} ms"),
            Row("CPU of one reading", f"{cpu * 1000:.1f} ms"),
            Row(f"share of a core, every {_PERIOD} s", f"{cpu / _PERIOD * 100:.3f} %"),
            Row("RSS more", f"{with_it[1] - without[1]:.1f} MiB"),
            Row("peak RSS more", f"{with_it[2] - without[2]:.1f} MiB"),
        ),
    )


async def _alone(config: Config, readings: int) -> tuple[list[float], list[float]]:
    """CPU seconds of each turn of the loop, and how long each reading took."""
    client, turns, took = KubeletClient(config), list[float](), list[float]()
    await client.read()
    run = asyncio.Handle._run  # noqa: SLF001 - the loop has no other place to look at its turns

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        turns.append(time.thread_time() - began)

    asyncio.Handle._run = timed  # type: ignore[assignment, method-assign] # noqa: SLF001 - as above
    try:
        for _ in range(readings):
            began = time.monotonic()
            await client.read()
            took.append(time.monotonic() - began)
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign] # noqa: SLF001 - as above
    return turns, took


def _beside(readings: int, *flags: str) -> tuple[float, float, float]:
    """CPU seconds, RSS and its peak in MiB, of an exporter during that many readings."""
    with firehose() as (runtime, socket), exporter(socket, *flags) as process:
        wait_for_subscribers(runtime, 1)
        # What starting costs is not reading.
        time.sleep(_SETTLED)
        before = process.cpu()
        for _ in range(readings):
            _next(process, asked=bool(flags))
        return process.cpu() - before, process.rss(), process.peak_rss()


def _next(process: Exporter, *, asked: bool) -> None:
    """One more reading; as many looks and as long a while where none is made."""
    seen = process.metrics(fresh=False).get(_SEEN)
    if not asked:
        # As long as a reading would have let it rest: only the readings may differ.
        time.sleep(duration(_OFTEN))
        process.metrics(fresh=False)
        return
    wait_for("a reading", lambda: process.metrics(fresh=False)[_SEEN] != seen, every=0.2)


@contextlib.contextmanager
def _kubelet() -> Iterator[tuple[str, Path]]:
    """The URL of a page in another process, and the file of its authority."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="shadow-pleg-bench-") as folder:
        ca = Path(folder, "ca.crt")
        process = context.Process(target=_serve, args=(theirs, str(ca)), daemon=True)
        process.start()
        try:
            yield f"https://127.0.0.1:{ours.recv()}/metrics", ca
        finally:
            process.terminate()
            process.join()


def _serve(told: Connection, ca: str) -> None:
    page = KubeletPage(bytes=_SIZE).text().encode()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(ca)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    class Face(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Face)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    told.send(server.server_port)
    server.serve_forever()
