"""A runtime for load: lists, and events at any rate.

It says that it is a containerd that sends every event to every subscriber, and as that one does, it
waits for its slowest.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from testbed import messages
from testbed.http2 import Connection, Stream
from testbed.waiting import until

Reader = TypeVar("Reader")

CONTAINERS: Final = 3
_SERVICE: Final = "/runtime.v1.RuntimeService/"
_NOT_FOUND: Final = 5
_UNIMPLEMENTED: Final = 12
_BATCH: Final = 16
_TICK: Final = 0.001
_PATIENCE: Final = 30.0
_EVENT_BYTES: Final = 4096


class Firehose:
    """The runtime: who is subscribed, and what they are sent."""

    def __init__(self, pods: int) -> None:
        # When (monotonic) lists were asked for.
        self.relists: list[float] = []
        self._world = messages.World(pods, CONTAINERS)
        self._events = messages.Events(_EVENT_BYTES)
        self._connections: list[Connection] = []
        self._moved = asyncio.Event()

    def connection(self) -> Connection:
        """For each client that comes."""
        connection = Connection(self._called, self._moved.set)
        self._connections.append(connection)
        return connection

    def subscribers(self) -> list[Stream]:
        """The open subscriptions."""
        calls = (call for each in self._connections for call in each.streams.values())
        return [call for call in calls if call.path.endswith("GetContainerEvents")]

    async def rate(self, per_second: int, seconds: float) -> int:
        """Send at that rate for so long; how many, all of which were taken."""
        count, sent, began = int(per_second * seconds), 0, time.monotonic()
        while sent < count:
            # By the clock: the rate is what is asked for.
            due = min(count, sent + _BATCH, int((time.monotonic() - began) * per_second) + 1)
            if due == sent:
                await asyncio.sleep(_TICK)
            else:
                await self._put(due - sent, _PATIENCE)
                sent = due
        await self._room(_PATIENCE)
        return count

    async def burst(self, count: int, patience: float) -> int:
        """Send as fast as they are taken; how many were when none was for so many seconds."""
        put = 0
        try:
            while put < count:
                await self._put(_BATCH, patience)
                put += _BATCH
            await self._room(patience)
        except TimeoutError:
            unsent = max(stream.unsent for stream in self.subscribers())
            put -= -(-unsent // self._events.size)
        return put

    def _called(self, stream: Stream) -> None:
        method = stream.path.removeprefix(_SERVICE)
        if method == "GetContainerEvents":
            # Its headers go out at once, as containerd's do with the first event at the latest.
            stream.put(())
        elif method == "Version":
            stream.answer(messages.introduction())
        elif method == "ListPodSandbox":
            self.relists.append(time.monotonic())
            stream.answer(self._world.sandboxes())
        elif method == "ListContainers":
            stream.answer(self._world.containers())
        else:
            # All that its events name is gone.
            stream.finish(_NOT_FOUND if method == "ContainerStatus" else _UNIMPLEMENTED)

    async def _put(self, count: int, patience: float) -> None:
        await self._room(patience)
        events = self._events.take(count, time.time_ns())
        for stream in self.subscribers():
            stream.put(events)
        # Lets windows be read and opened, too.
        await asyncio.sleep(0)

    async def _room(self, patience: float) -> None:
        """Wait until the slowest subscriber took everything; TimeoutError if it takes nothing."""
        while any(stream.waits for stream in self.subscribers()):
            self._moved.clear()
            async with asyncio.timeout(patience):
                await self._moved.wait()


@asynccontextmanager
async def loaded(
    start: Callable[[Path], AbstractAsyncContextManager[Reader]], pods: int = 0
) -> AsyncIterator[tuple[Firehose, Reader]]:
    """The runtime with so many pods, and who is subscribed to it."""
    with tempfile.TemporaryDirectory(prefix="shadow-pleg-bench-") as folder:
        socket, runtime = Path(folder, "runtime.sock"), Firehose(pods)
        loop = asyncio.get_running_loop()
        async with (
            await loop.create_unix_server(runtime.connection, str(socket)),
            start(socket) as reader,
        ):
            await until(lambda: bool(runtime.subscribers()), "it is subscribed", seconds=_PATIENCE)
            yield runtime, reader
