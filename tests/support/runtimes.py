"""The runtime at the other end of the socket: the simulator, with a record of all calls.

Here: runtimes and what was asked of them. Not here: who asks (`observer`, `parts`).
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from exporter.cri import runtime_v1_pb2 as cri
from exporter.simulator.calls import CallFaults, Method, Refusal
from exporter.simulator.options import Options
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.server import SimulatedServer, serve

QUIET: Final = Options(pods=0, churn=0)


@dataclass(slots=True)
class RecordedCalls(CallFaults):
    """The simulator's faults, which also write down every call and when it came."""

    calls: list[tuple[Method, float]] = field(default_factory=list)
    in_flight: Counter[Method] = field(default_factory=Counter)
    most_in_flight: Counter[Method] = field(default_factory=Counter)
    _patience: dict[Method, int] = field(default_factory=dict)

    async def refusal(self, method: Method) -> Refusal | None:
        """Write the call down, then do what the script wants."""
        self.calls.append((method, time.monotonic()))
        if self._patience.get(method) == self.count(method) - 1:
            self.hang(method)
        self.in_flight[method] += 1
        self.most_in_flight |= self.in_flight
        try:
            return await CallFaults.refusal(self, method)
        finally:
            self.in_flight[method] -= 1

    def hang_after(self, served: int, method: Method) -> None:
        """Let calls of that method wait, as `hang` does, after so many were served."""
        self._patience[method] = served

    def times(self, method: Method) -> list[float]:
        """When each call of that method came."""
        return [at for called, at in self.calls if called is method]

    def count(self, method: Method) -> int:
        """How often that method was called."""
        return len(self.times(method))

    def gaps(self, method: Method) -> list[float]:
        """Seconds between each two calls of that method."""
        return [later - earlier for earlier, later in pairwise(self.times(method))]


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="sp") as folder:
        yield Path(folder)


@asynccontextmanager
async def simulated(
    options: Options = QUIET, at: Path | None = None
) -> AsyncIterator[SimulatedServer]:
    """A simulated runtime on a socket of its own, or on that one."""
    with short_folder() as folder:
        async with serve(SimulatedRuntime(options), at or folder / "cri.sock") as server:
            yield server


def calls_of(server: SimulatedServer) -> RecordedCalls:
    """The record of its calls."""
    assert isinstance(server.faults, RecordedCalls)
    return server.faults


def introduction(name: str, version: str) -> bytes:
    """The answer to Version of some other runtime."""
    return cri.VersionResponse(
        version="0.1.0", runtime_name=name, runtime_version=version, runtime_api_version="v1"
    ).SerializeToString()


@contextmanager
def unannounced(server: SimulatedServer) -> Iterator[None]:
    """What is done meanwhile is announced to nobody, as if it had been long ago."""
    server.runtime.up = False
    try:
        yield
    finally:
        server.runtime.up = True


def running_container(server: SimulatedServer, pod: str = "web-0") -> tuple[str, str]:
    """A pod with one running container: the sandbox's id and the container's."""
    runtime = server.runtime
    sandbox = runtime.run_pod(pod, "shop")
    container = runtime.create(sandbox, "app")
    runtime.start(container)
    return sandbox, container
