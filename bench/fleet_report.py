"""What a report on a large fleet costs a Prometheus with its default limits."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.rows import Row, Section, at_most
from tests.support.commands import running
from tests.support.prometheus import knowing, witnessed
from tests.support.recorded_fleet import write_recorded_fleet
from tests.support.report_fleets import DAY, START

_NODES: Final = 3000
_QUICK_NODES: Final = 300
_DAYS: Final = 7
# --query.timeout and --query.max-samples.
_TIMEOUT: Final = 120
_MOST_SAMPLES: Final = 50.0
_MILLION: Final = 1e6
_TEXT: Final = """
`shadow-pleg report --window {days}d` about {nodes:,} nodes, from a real Prometheus that has what
the recording rules keep: {samples:.0f} million samples. Series of the same shape share their chunks
on disk, so what is measured is the work of the queries, not of the disk.
"""


def measure(*, quick: bool) -> Section:
    """A report about a week."""
    return asyncio.run(_measure(_QUICK_NODES if quick else _NODES))


async def _measure(nodes: int) -> Section:
    with tempfile.TemporaryDirectory() as folder:
        samples = write_recorded_fleet(Path(folder), nodes, _DAYS)
        async with knowing(blocks=Path(folder)) as url, witnessed(url) as witness:
            began = time.monotonic()
            end = f"--end={START + _DAYS * DAY}"
            arguments = ("report", f"--prometheus-url={witness.url}", f"--window={_DAYS}d", end)
            async with running(*arguments) as command:
                out, err = await command.process.communicate()
            took = time.monotonic() - began
    if command.process.returncode:
        raise RuntimeError(err.decode())
    return Section(
        "The report of a large fleet",
        _TEXT.format(days=_DAYS, nodes=nodes, samples=samples / _MILLION),
        (
            Row("verdict", out.decode().splitlines()[0].removeprefix("# ")),
            Row("queries", str(len(witness.answers))),
            Row("the whole report", f"{took:.0f} s"),
            at_most("the longest query", max(witness.seconds), _TIMEOUT, "s", 1),
            at_most(
                "samples in memory at once, millions",
                max(witness.peaks) / _MILLION,
                _MOST_SAMPLES,
            ),
        ),
    )
