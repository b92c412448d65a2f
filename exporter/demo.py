"""The embedded runtime as commands: alone (`simulate`), or watched (`demo`).

Here: putting the simulator and the daemon side by side, and comparing what the
one lost with what the other counted. Not here: either of them.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

import structlog

from exporter.config import Config
from exporter.daemon import Hooks, serve
from exporter.errors import ConfigError
from exporter.pleg.events import Lifecycle, ObjectKind
from exporter.pleg.findings import Cause, Verdict
from exporter.pleg.node import Node, Tally
from exporter.simulator import server
from exporter.simulator.churn import Churn
from exporter.simulator.options import Options
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.truth import Summary
from exporter.web.status import Comparison

_log = structlog.get_logger()

# What `demo` sets where nobody says otherwise: a person wants to see something soon.
DEMO_SETTINGS: Final[Mapping[str, str]] = {
    "relist_period": "2s",
    "missed_grace": "1s",
    "web_listen_address": "127.0.0.1:13386",
    "node_name": "demo",
    "log_level": "warn",
}


async def simulate(socket: Path, options: Options) -> None:
    """Run the embedded runtime on `socket` until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    runtime = SimulatedRuntime(options)
    churn = Churn(runtime)
    churn.populate()
    try:
        async with server.serve(runtime, socket):
            living = asyncio.create_task(churn.live())
            sys.stdout.write(f"{options.runtime.value} on unix://{socket}\n")
            sys.stdout.flush()
            await stop.wait()
            living.cancel()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"--socket: cannot serve on unix://{socket}: {error}") from None
    for row in compare(runtime.truth.summary(), Tally()):
        sys.stdout.write(f"lost, provably: {row.label} {row.injected}\n")


async def demo(config: Config, options: Options) -> None:
    """Serve against the embedded runtime until SIGTERM or SIGINT."""
    runtime = SimulatedRuntime(options)
    churn = Churn(runtime)
    churn.populate()
    with tempfile.TemporaryDirectory(prefix="shadow-pleg-") as folder:
        socket = Path(folder) / "cri.sock"
        async with server.serve(runtime, socket):
            living = asyncio.create_task(churn.live())
            hooks = Hooks(
                compare=lambda node: compare_node(runtime.truth.summary(), node),
                on_serving=_announce,
            )
            try:
                await serve(replace(config, runtime_endpoint=socket), hooks)
            finally:
                living.cancel()


def _announce(url: str) -> None:
    sys.stdout.write(f"shadow-pleg demo: {url}\n")
    sys.stdout.flush()


def compare_node(summary: Summary, node: Node) -> tuple[Comparison, ...]:
    """What the embedded runtime lost, beside what the node's tally says."""
    return compare(summary, node.tally)


def compare(summary: Summary, tally: Tally) -> tuple[Comparison, ...]:
    """Rows for every loss that either side knows of, and their sum."""
    rows = [
        row
        for event, kind in product(Lifecycle, ObjectKind)
        for row in _rows(summary, tally, event, kind)
    ]
    total = Comparison("all", sum(r.injected for r in rows), sum(r.counted for r in rows))
    return (*(row for row in rows if row.injected or row.counted), total)


def _rows(
    summary: Summary, tally: Tally, event: Lifecycle, kind: ObjectKind
) -> tuple[Comparison, ...]:
    truth = summary.row(event, kind)
    missed = {c: tally.counts[Verdict.MISSED, event, kind, c] for c in Cause}
    by_design = missed.pop(Cause.BY_DESIGN)
    gaps = tally.counts[Verdict.GAP, event, kind, None]
    what = f"{event.label} of a {kind.value}"
    return (
        Comparison(f"{what}, missed", truth.missed, sum(missed.values())),
        Comparison(f"{what}, gap", truth.gaps, gaps),
        Comparison(f"{what}, never announced by design", truth.by_design, by_design),
    )
