"""An exporter with a short grace, as a process of its own, and its metrics.

Blind spot: coverage does not see a process that SIGKILL ends.
"""

import asyncio
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar, Final, Self

import aiohttp

from testbed.waiting import until
from tests.support.commands import start
from tests.support.observer import Metrics, Watcher

FLAGS: Final = (
    "--relist-period=50ms",
    "--relist-max-duty=100%",
    "--relist-timeout=5s",
    "--web.listen-address=127.0.0.1:0",
    # What a test freezes, however slow the machine is meanwhile, goes on when it is let.
    "--watchdog-timeout=2m",
)


class Exporter(Watcher):
    """`serve` on `socket`; an async context manager: serving HTTP, and stopped in good order.

    `grace`: seconds; short, so that verdicts come while a test waits. `flags` win over `FLAGS`.
    """

    MODULE: ClassVar = "exporter"
    # A busy machine lets a process wait; what hangs ends with its test, by the limit of all tests.
    patience: ClassVar = 200.0

    def __init__(self, socket: Path, *flags: str, grace: float = 0.3) -> None:
        own = (f"--runtime-endpoint=unix://{socket}", f"--missed-grace={grace * 1000:g}ms")
        self._flags = (*FLAGS, *own, *flags)
        self.grace = grace
        self._process: asyncio.subprocess.Process | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed on exit
        self.url = ""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        try:
            await self.start()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, kind: object, *_exc: object) -> None:
        try:
            if self._process is not None:
                code = await self.end(signal.SIGTERM)
                assert kind or code == 0, f"exit code {code}"
            assert kind or "Traceback" not in self.log, "an exception in the log"
        finally:
            await self._close()

    async def start(self) -> None:
        """Start a process and wait until it serves; the log goes on where the last one ended."""
        began = len(self.log)
        self._process = await start("serve", *self._flags, output=self._log, module=self.MODULE)
        process, serving = self._process, re.compile(r" msg=serving .*url=(\S+)/")
        await until(
            lambda: process.returncode is not None or bool(serving.search(self.log[began:])),
            "it serves",
            seconds=self.patience,
        )
        found = serving.search(self.log[began:])
        assert found, f"exit code {process.returncode}:\n{self.log}"
        self.url = found[1]

    async def end(self, number: signal.Signals) -> int:
        process = self._running()
        process.send_signal(number)
        async with asyncio.timeout(self.patience):
            code = await process.wait()
        self._process = None
        return code

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def log(self) -> str:
        # The child shares the file's offset: do not move it.
        return os.pread(self._log.fileno(), 1 << 20, 0).decode()

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self.url + path) as response:
            return response.status, await response.text()

    async def metrics(self) -> Metrics:
        # A page is cached for a moment; a new query makes the exporter render it again.
        status, text = await self.get(f"/metrics?{time.monotonic_ns()}")
        assert status == 200, text
        return Metrics.read(text)

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "it does not run"
        return self._process

    async def _close(self) -> None:
        if self._process is not None:
            await self.end(signal.SIGKILL)
        await self._session.close()
        # pytest shows it where a test fails.
        sys.stdout.write(self.log)
        self._log.close()
