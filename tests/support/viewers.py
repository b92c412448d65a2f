"""Viewers of the live page: some that read, and some that do not.

Here: connecting and reading. Not here: what should come of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import aiohttp

from exporter.node.state import Node, StreamState
from tests.support.commands import DEADLINE
from tests.support.secured import port_of

_RECEIVE = 4096


def a_node() -> Node:
    """One that was listed just now."""
    return Node(stream=StreamState.STREAMING, relist_succeeded=time.monotonic())


@dataclass(frozen=True, slots=True)
class Message:
    """One of an EventSource."""

    event: str
    data: str


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who reads."""

    response: aiohttp.ClientResponse

    @property
    def status(self) -> int:
        """HTTP's."""
        return self.response.status

    async def message(self, event: str) -> Message:
        """The next one of that name; EOFError where the other side ended it."""
        while True:
            async with asyncio.timeout(DEADLINE):
                block = (await self.response.content.readuntil(b"\n\n")).decode()
            if not block:
                raise EOFError
            fields = [line.partition(": ") for line in block.splitlines()]
            data = "\n".join(value for name, _, value in fields if name == "data")
            if ("event", ": ", event) in fields:
                return Message(event, data)

    async def ended(self) -> str:
        """Wait until the other side ends it: `cleanly`, or `torn`."""
        async with asyncio.timeout(DEADLINE):
            try:
                while await self.response.content.readany():
                    pass
            except aiohttp.ClientError:
                return "torn"
        return "cleanly"


@contextlib.asynccontextmanager
async def viewing(
    url: str,
    tls: ssl.SSLContext | bool = True,  # noqa: FBT001, FBT002 -- as aiohttp has it
) -> AsyncIterator[Viewer]:
    """One viewer, who leaves at the end of the block."""
    limits = aiohttp.ClientTimeout(None, sock_connect=DEADLINE)
    async with (
        aiohttp.ClientSession(timeout=limits, read_bufsize=2**20) as session,
        session.get(f"{url}events", ssl=tls) as response,
    ):
        yield Viewer(response)


@contextlib.contextmanager
def staring(url: str) -> Iterator[socket.socket]:
    """One who asks and never reads, with as little room as a kernel gives."""
    with socket.socket() as mute:
        mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE)
        mute.connect(("127.0.0.1", port_of(url)))
        mute.sendall(b"GET /events HTTP/1.1\r\nHost: node-7\r\n\r\n")
        yield mute


async def has_room(url: str, number: int) -> bool:
    """Whether so many viewers find a place."""
    async with contextlib.AsyncExitStack() as stack:
        viewers = [await stack.enter_async_context(viewing(url)) for _ in range(number)]
        return all(viewer.status == 200 for viewer in viewers)
