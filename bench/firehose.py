"""A runtime for load, as a process of its own: lists, and events at any rate.

It says that it is a containerd that sends every event to every subscriber, and
as that one does, it waits for its slowest. Commands on stdin, each answered by
one line of JSON once it is done:

    ready                 at once: how many are subscribed
    burst COUNT PATIENCE  send so many events as fast as they are taken; give up,
                          with the rest unsent, once none was taken for PATIENCE seconds
    rate PER_SECOND SECONDS
    relists               when (monotonic) lists were asked for since the last such command
"""

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any, Final

from bench.processes import obey
from testbed import messages
from testbed.http2 import Connection, Stream

_SERVICE: Final = "/runtime.v1.RuntimeService/"
_NOT_FOUND: Final = 5
_UNIMPLEMENTED: Final = 12
_BATCH: Final = 16
_TICK: Final = 0.001
_PATIENCE: Final = 30.0
_CONTAINERS: Final = 3
_EVENT_BYTES: Final = 4096


class Firehose:
    """The runtime: who is subscribed, and what they are sent."""

    def __init__(self, world: messages.World) -> None:
        self._world = world
        self._events = messages.Events(_EVENT_BYTES)
        self._connections: set[Connection] = set()
        self._moved = asyncio.Event()
        self._relists: list[float] = []

    def connection(self) -> Connection:
        """For each client that comes."""
        connection = Connection(self._called, self._moved.set)
        self._connections.add(connection)
        return connection

    async def command(self, word: str, numbers: list[float]) -> dict[str, Any]:
        """Do what a line on stdin says."""
        if word == "burst":
            return await self._send(int(numbers[0]), 0.0, numbers[1])
        if word == "rate":
            rate, seconds = numbers
            return await self._send(int(rate * seconds), rate, _PATIENCE)
        if word == "relists":
            relists, self._relists = self._relists, []
            return {"relists": relists}
        return {"subscribers": len(self._subscribers())}

    def _called(self, stream: Stream) -> None:
        method = stream.path.removeprefix(_SERVICE)
        if method == "GetContainerEvents":
            # Its headers go out at once, as containerd's do with the first event at the latest.
            stream.put(())
        elif method == "Version":
            stream.answer(messages.introduction())
        elif method == "ListPodSandbox":
            self._relists.append(time.monotonic())
            stream.answer(self._world.sandboxes())
        elif method == "ListContainers":
            stream.answer(self._world.containers())
        else:
            # All that its events name is gone.
            stream.finish(_NOT_FOUND if method == "ContainerStatus" else _UNIMPLEMENTED)

    def _subscribers(self) -> list[Stream]:
        return [
            stream
            for connection in self._connections
            for stream in connection.streams.values()
            if stream.path.endswith("GetContainerEvents")
        ]

    async def _send(self, count: int, rate: float, patience: float) -> dict[str, int]:
        """`sent`: how many were given to the kernel.

        `put`: those and the few that still wait for the slowest subscriber, who will get them.
        """
        put, began = 0, time.monotonic()
        while put < count:
            # Lets windows be read and opened, too.
            await asyncio.sleep(0)
            if not await self._room(patience):
                break
            due = min(count, int((time.monotonic() - began) * rate) + 1) if rate else count
            share = min(_BATCH, due - put)
            if share <= 0:
                # By the clock: the rate is what is asked for.
                await asyncio.sleep(_TICK)
                continue
            events = self._events.take(share, time.time_ns())
            for stream in self._subscribers():
                stream.put(events)
            put += share
        await self._room(patience)
        unsent = max((stream.unsent for stream in self._subscribers()), default=0)
        return {"sent": put - -(-unsent // self._events.framed_size), "put": put}

    async def _room(self, patience: float) -> bool:
        """Wait for the slowest subscriber; whether it took everything."""
        while any(stream.waits for stream in self._subscribers()):
            self._moved.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._moved.wait()
            except TimeoutError:
                return False
        return True


async def _main(given: argparse.Namespace) -> None:
    firehose = Firehose(messages.World(given.pods, _CONTAINERS))
    loop = asyncio.get_running_loop()
    await loop.create_unix_server(firehose.connection, given.socket)
    await obey(firehose.command)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.firehose")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--pods", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(_main(_arguments()))
