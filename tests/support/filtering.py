"""`shadow-pleg filter` as a process in front of a runtime."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.commands import Running, running
from tests.support.runtimes import short_folder


@dataclass(slots=True)
class FilterProcess:
    """A filter that runs, and the socket that it serves."""

    socket: Path
    command: Running
    lines: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Stop it in its tracks, and let it go on."""
        self.command.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            # It may have been killed meanwhile.
            with suppress(ProcessLookupError):
                self.command.process.send_signal(signal.SIGCONT)

    async def read_log(self) -> None:
        """Read its log until it ends; nobody else does, and a full pipe would hold it up."""
        assert self.command.process.stderr is not None
        async for line in self.command.process.stderr:
            self.lines.append(line.decode())


@asynccontextmanager
async def filtering(runtime: Path, at: Path | None = None) -> AsyncIterator[FilterProcess]:
    """A filter before the runtime on that socket, serving on `at` or on a socket of its own."""
    with short_folder() as folder:
        socket = at or folder / "filter.sock"
        # A frozen one goes on when it is let.
        flags = ("--log.format=json", "--watchdog-timeout=2m", f"--socket=unix://{socket}")
        async with running("filter", f"--runtime-endpoint=unix://{runtime}", *flags) as command:
            await command.logged("filtering")
            process = FilterProcess(socket, command)
            reading = asyncio.create_task(process.read_log())
            try:
                yield process
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
