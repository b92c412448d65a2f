"""The embedded runtime as commands: alone (`simulate`), or watched (`demo`).

Runs the simulator and the daemon together, and compares the simulator's losses with the daemon's
counts.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path

from exporter.daemon import Hooks, serve
from exporter.errors import ConfigError
from exporter.node.state import Tally
from exporter.pleg.events import Lifecycle, ObjectKind
from exporter.pleg.findings import Cause, Verdict
from exporter.settings.config import Config
from exporter.settings.flags import socket_path
from exporter.simulator import node as simulated
from exporter.simulator.options import Options
from exporter.simulator.truth import Summary
from exporter.web.status.view import Comparison


async def simulate(socket: Path, options: Options) -> None:
    """Run the embedded runtime on `socket` until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    try:
        async with simulated.run(options, socket) as node:
            _say(f"{options.runtime.value} on {node.endpoint}")
            await stop.wait()
    except OSError as error:
        raise ConfigError(f"--socket: cannot serve on unix://{socket}: {error}") from None
    for row in compare(node.summary(), Tally()):
        _say(f"lost, provably: {row.label} {row.injected}")


async def demo(config: Config, options: Options) -> None:
    """Serve against the embedded runtime until SIGTERM or SIGINT."""
    with tempfile.TemporaryDirectory(prefix="shadow-pleg-") as folder:
        try:
            socket = socket_path(f"{folder}/cri.sock")
        except ConfigError as error:
            raise ConfigError(f"TMPDIR: {error}") from None
        async with simulated.run(options, socket) as node:
            hooks = Hooks(
                compare=lambda watched: compare(node.summary(), watched.tally),
                on_serving=lambda url: _say(f"shadow-pleg demo: {url}"),
            )
            await serve(replace(config, runtime_endpoint=socket), hooks)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def compare(summary: Summary, tally: Tally) -> tuple[Comparison, ...]:
    """A row for each loss known to either side, and their sum."""
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
    # Late announcements were delayed, not lost.
    late = tally.counts[Verdict.LATE, event, kind, None]
    gaps = tally.counts[Verdict.GAP, event, kind, None]
    what = f"{event.label} of a {kind.value}"
    return (
        Comparison(f"{what}, missed", truth.missed, sum(missed.values()) - late),
        Comparison(f"{what}, gap", truth.gaps, gaps),
        Comparison(f"{what}, never announced by design", truth.by_design, by_design),
    )
