"""`serve` as a process of its own: its log, its state, and how it ends.

Here: starting, reading and stopping it. Not here: when it is stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests import ROOT
from tests.support.observer import DEADLINE
from tests.support.waiting import until

STUCK: Final = 30.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code, how long that took, and all it wrote to stderr."""

    code: int
    seconds: float
    stderr: str

    @property
    def messages(self) -> list[str]:
        """The text of each line of the log."""
        return [json.loads(line)["msg"] for line in self.stderr.splitlines()]


class Serving:
    """One process that serves."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr = b""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(4096):
            self._stderr += chunk

    def lines(self) -> list[dict[str, Any]]:
        """The log so far, as far as its lines are whole."""
        return [
            json.loads(line) for line in self._stderr.splitlines(keepends=True) if b"\n" in line
        ]

    def minds_signals(self) -> bool:
        """Whether the process has a handler of its own for SIGTERM by now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        (caught,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")]
        return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)

    async def says(self, message: str) -> dict[str, Any]:
        """Wait for a line of the log with that text."""
        await until(
            lambda: any(line["msg"] == message for line in self.lines()), message, seconds=DEADLINE
        )
        return next(line for line in self.lines() if line["msg"] == message)

    async def reaches(self, state: str) -> None:
        """Wait until its metrics show that state of the stream."""
        url = (await self.says("serving"))["url"] + "metrics"
        wanted = f'shadow_pleg_stream_state{{state="{state}"}} 1.0'

        async def shown() -> bool:
            async with aiohttp.ClientSession() as http, http.get(url) as page:
                return wanted in await page.text()

        await until(shown, f"the stream is {state}", seconds=DEADLINE, every=0.05)

    async def end(self, signum: signal.Signals) -> Ended:
        """Send that signal and wait for the end."""
        self._process.send_signal(signum)
        return await self.ended()

    async def ended(self) -> Ended:
        """Wait for the end; one that does not end is killed."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(STUCK):
                code = await self._process.wait()
        except TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        seconds = time.monotonic() - began
        await self._reading
        return Ended(code, seconds, self._stderr.decode())

    async def discard(self) -> None:
        """Leave nothing behind."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading


@asynccontextmanager
async def serving(*flags: str, **environ: str) -> AsyncIterator[Serving]:
    """`serve` with these flags, on a free port, and these variables besides those of the test."""
    ours = {name: text for name, text in os.environ.items() if "SHADOW_PLEG" not in name}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "exporter", "serve", "--web.listen-address=127.0.0.1:0"),
        *("--log.format=json", *flags),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=ours | environ,
    )
    served = Serving(process)
    try:
        yield served
    finally:
        await served.discard()
