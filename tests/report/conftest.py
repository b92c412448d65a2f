"""Prometheuses that know one fleet each, and `report` run against them."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from exporter.__main__ import main
from tests.support.real.fixtures import part
from tests.support.report_fleets import MIXED, START, WINDOW
from tests.support.report_prometheus import PATIENCE, prometheus


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


def _arguments(url: str, flags: tuple[str, ...], end: int) -> list[str]:
    """JSON of the fleets' span, unless flags say else."""
    span = ("--output-format=json", "--window=2h", f"--end={end}")
    return ["report", f"--prometheus-url={url}", *span, *flags]


async def reported(url: str, *flags: str, end: int = START + WINDOW) -> Outcome:
    """Run the command in a thread: all of it but the signals, which are a process' own."""
    arguments = _arguments(url, flags, end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)
        patch.setenv("GRPC_VERBOSITY", "NONE")
        with (
            redirect_stdout(io.StringIO()) as out,
            redirect_stderr(io.StringIO()) as err,
            ThreadPoolExecutor(max_workers=1) as thread,
        ):
            code = await asyncio.get_running_loop().run_in_executor(thread, main, arguments)
    return Outcome(code, out.getvalue(), err.getvalue())


async def processed(url: str, *flags: str, end: int = START + WINDOW) -> Outcome:
    """Run the command as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "exporter", *_arguments(url, flags, end)),
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
    for each in ("prometheus", "promtool"):
        part(each)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mixed(prometheus_parts: None) -> AsyncIterator[str]:  # noqa: ARG001 -- wanted for what it does
    """The URL of a Prometheus that knows a fleet with a bit of everything."""
    async with prometheus(MIXED) as url:
        yield url
