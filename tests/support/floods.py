"""Clients that mean no good, from an address of their own.

Here: slow and many connections, rubbish. Not here: what should come of it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from tests.support.secured import ended, port_of

STRANGER = "127.0.0.66"
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def as_login(name: str, password: str) -> bytes:
    """A scrape with that name and password."""
    pair = base64.b64encode(f"{name}:{password}".encode())
    return REQUEST.replace(b"Host: x", b"Host: x\r\nAuthorization: Basic " + pair)


async def connect(
    url: str, source: str = STRANGER
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection from that address."""
    return await asyncio.open_connection("127.0.0.1", port_of(url), local_addr=(source, 0))


async def says(url: str, sent: bytes, source: str = STRANGER) -> bytes:
    """All that is answered to these bytes, until the other side closes; empty if it slams."""
    try:
        reader, writer = await connect(url, source)
    except OSError:
        return b""
    try:
        writer.write(sent)
        return await reader.read()
    except OSError:
        return b""
    finally:
        await ended(writer)


async def trickle(url: str, source: str = STRANGER) -> None:
    """Slow-loris: a header that never ends; comes again when it is thrown out."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await connect(url, source)
            try:
                writer.write(b"GET /metrics HTTP/1.1\r\n")
                while True:
                    writer.write(b"X-a: b\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.2)
            finally:
                await ended(writer)
        await asyncio.sleep(0.01)


async def hammer(url: str, source: str = STRANGER, sent: bytes = REQUEST) -> None:
    """One request after the other, each on a new connection."""
    while True:
        await says(url, sent, source)


async def gulp(url: str, source: str = STRANGER, sent: bytes = REQUEST) -> None:
    """Requests without end on one connection, whose answers nobody reads."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await connect(url, source)
            try:
                while True:
                    writer.write(sent.replace(b"Connection: close\r\n", b""))
                    await writer.drain()
                    await asyncio.sleep(0.001)
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def flooded(
    attack: Callable[[str], Coroutine[Any, Any, None]], url: str, times: int
) -> AsyncIterator[None]:
    """So many of them at once, until the end of the block."""
    tasks = [asyncio.create_task(attack(url)) for _ in range(times)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
