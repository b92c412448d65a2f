"""An exporter with a short grace, as a process or as a daemon in this one, and its metrics.

Blind spot: coverage does not see a process that SIGKILL ends.
"""

import asyncio
import os
import re
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Self

import aiohttp
import structlog
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from exporter.pleg.chronicle import Listener
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of, from_text
from testbed.waiting import until
from tests.support.commands import start
from tests.support.observer import daemon_on

FLAGS: Final = (
    "--relist-period=50ms",
    "--relist-max-duty=100%",
    "--relist-timeout=5s",
    "--web.listen-address=127.0.0.1:0",
    # What a test freezes, however slow the machine is meanwhile, goes on when it is let.
    "--watchdog-timeout=2m",
)
# Long enough for a machine that is busy with other tests; nothing waits for it that goes well.
PATIENCE: Final = 30.0
LAST_SEEN: Final = "shadow_pleg_last_seen_seconds"

Counts = dict[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class Metrics:
    """One scrape."""

    samples: tuple[Sample, ...]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that bear those labels; KeyError if there is none."""
        values = [s.value for s in self._named(name) if labels.items() <= s.labels.items()]
        if not values:
            raise KeyError(f"{name}{labels or ''}")
        return sum(values)

    def counts(self, name: str, **labels: str) -> Counts:
        """What is not 0, by the values of the other labels in the order of their names."""
        return {
            tuple(s.labels[key] for key in sorted(s.labels) if key not in labels): int(s.value)
            for s in self._named(name)
            if s.value and labels.items() <= s.labels.items()
        }

    @property
    def missed(self) -> Counts:
        """Missed events that are not 0, by (cause, event, object)."""
        return self.counts("kube_pod_missed_events_total")

    @property
    def silent(self) -> float:
        """Missed events without a known cause."""
        return self.value("kube_pod_missed_events_total", cause="silent")

    @property
    def stream(self) -> str:
        """The state of the subscription."""
        ((state,),) = self.counts("shadow_pleg_stream_state")
        return state

    def labels(self, name: str) -> dict[str, str]:
        """The labels of the one sample of that name."""
        (sample,) = self._named(name)
        return sample.labels

    def _named(self, name: str) -> list[Sample]:
        found = [sample for sample in self.samples if sample.name == name]
        if not found:
            raise KeyError(name)
        return found


class Watcher(ABC):
    """An exporter on `socket`, and waiting for what it should come to know.

    `grace`: seconds; short, so that verdicts come while a test waits. `flags` win over
    `FLAGS`.
    """

    def __init__(self, socket: Path, *flags: str, grace: float = 0.3) -> None:
        own = (f"--runtime-endpoint=unix://{socket}", f"--missed-grace={grace * 1000:g}ms")
        self._flags = (*FLAGS, *own, *flags)
        self._grace = grace

    @property
    @abstractmethod
    def log(self) -> str:
        """What it has logged, as text."""

    @abstractmethod
    async def metrics(self) -> Metrics:
        """What it exports now."""

    async def shows(self, condition: Callable[[Metrics], bool], what: str) -> Metrics:
        """The first metrics for which `condition` holds."""
        seen: list[Metrics] = []

        async def held() -> bool:
            seen[:] = [await self.metrics()]
            return condition(seen[0])

        await until(held, what, seconds=PATIENCE + self._grace, every=0.03)
        return seen[0]

    async def streaming(self) -> Metrics:
        """Wait until it is subscribed, and knows from a relist what there is already."""
        return await self.shows(
            lambda seen: seen.stream == "streaming" and seen.value(LAST_SEEN) > 0, "it watches"
        )

    async def relisted(self, since: float | None = None) -> Metrics:
        """Wait for a relist that was requested later than `since`: unix time, or now."""
        over = await self._relist_after(time.time() if since is None else since)
        # That one may have been under way already; the next one was not.
        await self._relist_after(over)
        return await self.metrics()

    async def settled(self) -> Metrics:
        """Wait until whatever has happened so far is judged."""
        await self.relisted()
        return await self.relisted(time.time() + self._grace)

    async def _relist_after(self, moment: float) -> float:
        seen = await self.shows(lambda now: now.value(LAST_SEEN) > moment, "a relist succeeds")
        return seen.value(LAST_SEEN)


class InProcess(Watcher):
    """The daemon without its web interface in this event loop; an async context manager.

    `listeners` are added to its chronicle.
    """

    def __init__(
        self, socket: Path, *flags: str, grace: float = 0.3, listeners: Sequence[Listener] = ()
    ) -> None:
        super().__init__(socket, *flags, grace=grace)
        self._listeners = listeners

    async def __aenter__(self) -> Self:
        names = {setting.flag: setting.name for setting in flags_of(Config)}
        given = (flag.partition("=") for flag in self._flags)
        config = from_text(Config, {names[flag]: text for flag, _, text in given})
        async with AsyncExitStack() as stack:
            self._lines = stack.enter_context(structlog.testing.capture_logs())
            running = daemon_on(config, *self._listeners)
            self._daemon = await stack.enter_async_context(running)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, kind: object, *_exc: object) -> None:
        await self._stack.aclose()
        # pytest shows it where a test fails.
        sys.stdout.write(self.log)
        assert kind or not any(line.get("exc_info") for line in self._lines), "an exception logged"

    @property
    def log(self) -> str:
        """What it has logged, a line for each."""
        return "\n".join(str(line) for line in self._lines)

    async def metrics(self) -> Metrics:
        """What a scrape would give."""
        families = self._daemon.registry.collect()
        return Metrics(tuple(sample for family in families for sample in family.samples))


class Exporter(Watcher):
    """`serve` on `socket`; an async context manager: serving HTTP, and stopped in good order."""

    MODULE: ClassVar = "exporter"

    def __init__(self, socket: Path, *flags: str, grace: float = 0.3) -> None:
        super().__init__(socket, *flags, grace=grace)
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
            seconds=PATIENCE,
        )
        found = serving.search(self.log[began:])
        assert found, f"exit code {process.returncode}:\n{self.log}"
        self.url = found[1]

    async def end(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit code."""
        process = self._running()
        process.send_signal(number)
        async with asyncio.timeout(PATIENCE):
            code = await process.wait()
        self._process = None
        return code

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Stop it in its tracks, as a node out of memory or a debugger does, and let it go on."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            # It may have been killed meanwhile.
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)

    @property
    def log(self) -> str:
        """What it has logged, as text."""
        # The child shares the file's offset: do not move it.
        return os.pread(self._log.fileno(), 1 << 20, 0).decode()

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text of a page."""
        async with self._session.get(self.url + path) as response:
            return response.status, await response.text()

    async def metrics(self) -> Metrics:
        """Scrape it."""
        # A page is cached for a moment; a new query makes the exporter render it again.
        status, text = await self.get(f"/metrics?{time.monotonic_ns()}")
        assert status == 200, text
        families = text_string_to_metric_families(text)
        return Metrics(tuple(sample for family in families for sample in family.samples))

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
