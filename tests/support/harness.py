"""An exporter with a short grace, as a process of its own, and its metrics.

Blind spot: coverage does not see a process that SIGKILL ends.
"""

import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

from testbed.waiting import until
from tests.support.commands import PATIENCE, Running, fetch
from tests.support.observer import Metrics, Watcher

FLAGS: Final = (
    "--relist-period=50ms",
    "--relist-max-duty=100%",
    "--relist-timeout=5s",
    "--web.listen-address=127.0.0.1:0",
    # What a test freezes, however slow the machine is meanwhile, goes on when it is let.
    "--watchdog-timeout=2m",
)


class Served(Watcher):
    """One whose pages are at `url`. `asks`: how, as `fetch` has it."""

    url: str
    asks: Mapping[str, Any] = MappingProxyType({})
    patience: ClassVar = PATIENCE

    async def page(self, path: str) -> str:
        answer = await fetch(f"{self.url}/{path}", **self.asks)
        assert answer.status == 200, answer.text
        return answer.text

    async def metrics(self) -> Metrics:
        # A page is cached for a moment; a new query is rendered again.
        return Metrics.read(await self.page(f"metrics?{time.monotonic_ns()}"))


class Exporter(Served, Running):
    """`serve` on `socket`; an async context manager: serving HTTP, and stopped in good order.

    `grace`: seconds; short, so that verdicts come while a test waits. `flags` win over `FLAGS`.
    """

    def __init__(self, socket: Path, *flags: str, grace: float = 0.3) -> None:
        own = (f"--runtime-endpoint=unix://{socket}", f"--missed-grace={grace * 1000:g}ms")
        super().__init__("serve", *FLAGS, *own, *flags)
        self.grace, self.url, self._stopped = grace, "", False

    async def __aexit__(self, *exc: object) -> None:
        try:
            if not self._stopped:
                code = await self.end(signal.SIGTERM)
                assert exc[0] or code == 0, f"exit code {code}"
            assert exc[0] or "Traceback" not in self.log, "an exception in the log"
        finally:
            await super().__aexit__(*exc)

    async def start(self) -> None:
        """Start a process and wait until it serves; the log goes on where the last one ended."""
        began, serving = len(self.log), re.compile(r" msg=serving .*url=(\S+)/")
        await super().start()
        self._stopped = False
        await until(
            lambda: self.process.returncode is not None or bool(serving.search(self.log[began:])),
            "it serves",
            seconds=self.patience,
        )
        found = serving.search(self.log[began:])
        assert found, f"exit code {self.process.returncode}"
        self.url = found[1]

    async def end(self, number: signal.Signals) -> int:
        self._stopped = True
        return (await self.stop(number)).code
