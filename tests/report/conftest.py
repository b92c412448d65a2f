"""Prometheuses that know one fleet each, and `report` run against them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.grounds import debian
from tests.grounds.fixtures import unavailable
from tests.report.fleets import MIXED, START, WINDOW
from tests.report.stand import PATIENCE, prometheus


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a report ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """The JSON report."""
        assert (self.code, self.err) == (0, "")
        found: dict[str, Any] = json.loads(self.out)
        return found

    def runtime(self, name: str) -> dict[str, Any]:
        """What it says of one runtime."""
        (found,) = [each for each in self.data["runtimes"] if each["runtime"] == name]
        return dict(found)


Reported = Callable[..., Awaitable[Outcome]]


async def reported(url: str, *flags: str, end: int = START + WINDOW) -> Outcome:
    """Run the command as a process of its own; JSON of the fleets' span unless flags say else."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "exporter", "report", f"--prometheus-url={url}"),
        *("--output-format=json", "--window=2h", f"--end={end}", *flags),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Outcome(process.returncode, out.decode(), err.decode())


@pytest.fixture(scope="session")
def prometheus_parts() -> None:
    """What the fleets need is there."""
    for part in ("prometheus", "promtool"):
        if debian.find(part) is None:
            unavailable(f"{part} was not fetched (python -m tests.grounds.debian fetch {part})")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mixed(prometheus_parts: None) -> AsyncIterator[str]:  # noqa: ARG001 -- wanted for what it does
    """The URL of a Prometheus that knows a fleet with a bit of everything."""
    async with prometheus(MIXED) as url:
        yield url
