"""What goes on around a frozen or slow observer: pods that live and die, and other subscribers."""

import asyncio
import itertools
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from conformance.cri_client import Fields
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import channel_to
from testbed.containerd import Containerd
from testbed.pods import Pods
from testbed.servers import running
from testbed.waiting import until

# containerd holds 100 events for each subscriber, besides those in its socket: a few large ones.
LARGE: Final = 100_000
WORKERS: Final = 6
CONTAINERS: Final = 10
CATCHING_UP: Final = 10.0
# The deadline of a subscription whose subscriber is frozen.
LEASE: Final = 2.0
# A runtime that waits for a frozen exporter waits without end. With a load of 19 on two cores,
# RunPodSandbox alone has taken 5 s.
SLACK: Final = 20.0
# Each life has 24 steps.
MORE: Final = 24
# More steps than containerd and a socket hold for one subscriber: all are done only if the runtime
# has given up a frozen one.
FLOOD: Final = 144
# Long enough for `FLOOD` on a machine that is busy with other tests.
PATIENCE: Final = 300.0

_PLAIN: Final = """
import sys, grpc
channel = grpc.insecure_channel("unix://" + sys.argv[1])
for number, _ in enumerate(
    channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")(b"")
):
    if not number:
        print(flush=True)
"""

Step = tuple[str, str]
_T = TypeVar("_T")


class Subscriber:
    """Another reader of the events, like a kubelet with Evented PLEG, from entry to exit."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.received: set[Step] = set()
        # When it received something.
        self.last = time.monotonic()

    async def __aenter__(self) -> Self:
        self._channel: Any = channel_to(self._socket, patient=False)
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._channel.close(None)

    async def lost(self, led: set[Step]) -> set[Step]:
        """Those of these steps that it has not received, once it has had time to catch up."""
        with suppress(TimeoutError):
            await until(lambda: led <= self.received, "it has received all", seconds=CATCHING_UP)
        return led - self.received

    async def _read(self) -> None:
        method = self._channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")
        async for raw in method(b""):
            event = pb.ContainerEventResponse.FromString(raw)
            kind = pb.ContainerEventType.Name(event.container_event_type)
            self.received.add((event.container_id, kind.split("_")[1]))
            self.last = time.monotonic()


@dataclass(slots=True)
class Churn:
    """Pods that live and die, several at a time."""

    cri: Pods
    workers: int = WORKERS
    # The beginning of their names.
    name: str = "churn"
    # Bytes of a pod's annotation.
    note: int = LARGE
    # Seconds of the longest call.
    longest: float = 0.0
    # What the runtime has to announce.
    led: set[Step] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Lives follow each other until the exit, which waits for the last ones."""
        over = asyncio.Event()
        workers = [asyncio.create_task(self._work(over)) for _ in range(self.workers)]
        try:
            yield
        finally:
            over.set()
            await asyncio.gather(*workers)

    async def live(self) -> None:
        """One pod; its containers are only created and removed, the quickest way to events."""
        name = f"{self.name}-{next(self._numbers)}"
        more: Fields = {7: {1: "note", 2: "x" * self.note}}
        sandbox = await self._timed(self.cri.run_pod(name, more=more))
        for number in range(CONTAINERS):
            container = await self._timed(self.cri.create(sandbox, f"c-{number}"))
            await self._timed(self.cri.remove(container))
            self.led |= {(container, "CREATED"), (container, "DELETED")}
        await self._timed(self.cri.stop_pod(sandbox))
        await self._timed(self.cri.remove_pod(sandbox))
        self.led |= {(sandbox.id, kind) for kind in ("CREATED", "STARTED", "STOPPED", "DELETED")}

    async def _timed(self, call: Awaitable[_T]) -> _T:
        began = time.monotonic()
        try:
            return await call
        finally:
            self.longest = max(self.longest, time.monotonic() - began)

    async def _work(self, over: asyncio.Event) -> None:
        while not over.is_set():
            await self.live()


async def received(other: Subscriber, cri: Pods) -> None:
    """Wait until that subscriber receives events: of one pod, which is removed again."""
    first = Churn(cri)
    await first.live()
    await until(lambda: first.led <= other.received, "the other subscriber has all")


@asynccontextmanager
async def others(containerd: Containerd) -> AsyncIterator[tuple[Pods, Subscriber]]:
    """A client that acts, and another one that listens."""
    async with containerd.pods() as cri, Subscriber(containerd.socket) as other:
        await received(other, cri)
        yield cri, other


async def more(churn: Churn, steps: int) -> None:
    """Wait for that many more steps."""
    over = len(churn.led) + steps
    await until(lambda: len(churn.led) >= over, "life goes on", seconds=PATIENCE)


def plain_subscriber(socket: Path) -> AbstractAsyncContextManager[Process]:
    """A process with gRPC's default buffers, which writes a line when the first event comes."""
    return running(sys.executable, "-c", _PLAIN, str(socket), output=PIPE)


async def first_event(process: Process) -> None:
    """Wait until that plain subscriber has received an event."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        await process.stdout.readline()


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop that process, and continue it at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        # It may have been killed meanwhile.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
