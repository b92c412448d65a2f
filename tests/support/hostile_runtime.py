"""A runtime that sends whatever a test wants, as raw HTTP/2; and what that costs the exporter.

gRPC's own server refuses to send most of it, or is too slow.
"""

import asyncio
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed import messages
from testbed.http2 import Connection, Stream, framed
from tests.support.commands import Exporter

_UNIMPLEMENTED: Final = 12
_SERVICE: Final = "/runtime.v1.RuntimeService/"
_CHUNK: Final = 65536

Answer = Callable[[Stream], None]


def reply(*parts: bytes) -> Answer:
    return lambda stream: stream.answer(*parts)


class HostileRuntime:
    """Answers each method by `answers`; for the rest it is a containerd 2 without pods."""

    def __init__(self, answers: Mapping[str, Answer | bytes]) -> None:
        self._answers: dict[str, Answer | bytes] = {
            "Version": reply(messages.introduction()),
            "ListPodSandbox": reply(b""),
            "ListContainers": reply(b""),
            "GetContainerEvents": lambda stream: stream.put(()),
            **answers,
        }
        self._endless: dict[Stream, list[bytes]] = {}
        self.calls: Counter[str] = Counter()

    def connection(self) -> Connection:
        connection = Connection(self._called, lambda: self._refill(connection))
        return connection

    def _called(self, stream: Stream) -> None:
        method = stream.path.removeprefix(_SERVICE)
        self.calls[method] += 1
        answer = self._answers.get(method)
        if answer is None:
            stream.finish(_UNIMPLEMENTED)
        elif isinstance(answer, bytes):
            # Again and again, as fast as it is taken.
            one = framed(answer)
            self._endless[stream] = [one * max(1, _CHUNK // len(one))]
            stream.put(())
            self._fill(stream)
        else:
            answer(stream)

    def _refill(self, connection: Connection) -> None:
        for stream in list(connection.streams.values()):
            if stream in self._endless:
                self._fill(stream)

    def _fill(self, stream: Stream) -> None:
        while not stream.waits:
            stream.put(self._endless[stream])


@dataclass(frozen=True, slots=True)
class Cost:
    """What `serve` has cost: seconds of CPU, and MiB of resident memory at the most.

    `longest_callback`: CPU that the event loop spent without looking at anything else.
    """

    longest_callback: float
    cpu_after_signal: float
    peak_mib: float


class Measured(Exporter):
    """`serve` in a process that measures itself."""

    MODULE = "tests.support.measured"

    async def cost(self) -> Cost:
        """Stop it with SIGTERM, and return what it has cost."""
        pid = self.pid
        before = time.clock_gettime((~pid << 3) | 2)
        code = await self.end(signal.SIGTERM)
        assert code == 0, f"exit code {code}"
        longest, cpu, peak = map(float, self.log.split()[-3:])
        return Cost(longest, cpu - before, peak)


@asynccontextmanager
async def hostile(
    answers: Mapping[str, Answer | bytes],
) -> AsyncIterator[tuple[HostileRuntime, Path]]:
    """Such a runtime, and its socket."""
    runtime, loop = HostileRuntime(answers), asyncio.get_running_loop()
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "cri.sock")
        async with await loop.create_unix_server(runtime.connection, str(socket)):
            yield runtime, socket


@asynccontextmanager
async def watching(answers: Mapping[str, Answer | bytes], *flags: str) -> AsyncIterator[Measured]:
    async with hostile(answers) as (_, socket), Measured(socket, *flags) as exporter:
        yield exporter
