"""Clients of the web server: scrapers, viewers of the live page, floods."""

import asyncio
import base64
import contextlib
import itertools
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp

from tests.support.commands import DEADLINE, connector_to, fetch

STRANGER = "127.0.0.66"
PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_REFUSALS = re.compile(r'^shadow_pleg_web_refusals_total\{reason="(\w+)"\} (.*)$', re.MULTILINE)


def metrics(url: str) -> str:
    """The URL of the metrics as of now: a page of them is cached for a moment."""
    return f"{url}metrics?{time.monotonic_ns()}"


def refusals_in(text: str) -> dict[str, float]:
    """How many were refused, by reason."""
    return {reason: float(number) for reason, number in _REFUSALS.findall(text)}


async def refusals(url: str, tls: ssl.SSLContext | None = None) -> dict[str, float]:
    """How many were refused, by reason, as of now."""
    return refusals_in((await fetch(metrics(url), tls=tls)).text)


def port_of(url: str) -> int:
    """The port of a URL that has one."""
    return urlsplit(url).port or 0


def as_login(name: str, password: str) -> bytes:
    """A scrape with that name and password."""
    pair = base64.b64encode(f"{name}:{password}".encode())
    return SCRAPE.replace(b"Host: localhost", b"Host: localhost\r\nAuthorization: Basic " + pair)


async def connect(
    url: str, source: str = STRANGER, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection from that address."""
    path = unquote(urlsplit(url).netloc)
    if "/" in path:
        return await asyncio.open_unix_connection(path)
    name = "localhost" if tls else None
    return await asyncio.open_connection(
        "127.0.0.1", port_of(url), local_addr=(source, 0), ssl=tls, server_hostname=name
    )


async def says(
    url: str, sent: bytes, source: str = STRANGER, tls: ssl.SSLContext | None = None
) -> bytes:
    """All that is answered until the other side closes; empty if the connection fails."""
    try:
        async with connection(url, source, tls) as (reader, writer):
            writer.write(sent)
            return await reader.read()
    except OSError:
        return b""


@contextlib.asynccontextmanager
async def connection(
    url: str, source: str = STRANGER, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that is closed at the end of the block."""
    reader, writer = await connect(url, source, tls)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def negotiated(url: str, tls: ssl.SSLContext) -> ssl.SSLObject:
    """What a handshake led to."""
    async with connection(url, tls=tls) as (_, writer):
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return found


async def is_turned_away(url: str, tls: ssl.SSLContext) -> bool:
    """Whether TLS ends before one byte of HTTP comes; one attempt, which HTTP clients repeat."""
    async with asyncio.timeout(DEADLINE):
        return not await says(
            url, PROBE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), tls=tls
        )


async def trickle(url: str, source: str = STRANGER) -> None:
    """Slow-loris: a header that never ends; connects again when it is disconnected."""
    while True:
        with contextlib.suppress(OSError):
            async with connection(url, source) as (_, writer):
                writer.write(b"GET /metrics HTTP/1.1\r\n")
                while True:
                    writer.write(b"X-a: b\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.2)
        await asyncio.sleep(0.01)


async def hammer(url: str, source: str = STRANGER, sent: Sequence[bytes] = (SCRAPE,)) -> None:
    """One request after the other, each on a new connection."""
    for each in itertools.cycle(sent):
        await says(url, each, source)


async def gulp(url: str, source: str = STRANGER, sent: bytes = SCRAPE) -> None:
    """Requests without end on one connection, whose answers are never read."""
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
    attack: Callable[..., Coroutine[Any, Any, None]],
    url: str,
    times: int,
    sources: Sequence[str] = (STRANGER,),
) -> AsyncIterator[None]:
    """That many of them at once, from these addresses, until the end of the block."""
    tasks = [
        asyncio.create_task(attack(url, source=source))
        for source in itertools.islice(itertools.cycle(sources), times)
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer of the live page that reads."""

    response: aiohttp.ClientResponse

    async def message(self, event: str) -> str:
        """The data of the next message of that name."""
        while True:
            async with asyncio.timeout(DEADLINE):
                block = (await self.response.content.readuntil(b"\n\n")).decode()
            assert block, "the other side ended it"
            fields = [line.partition(": ") for line in block.splitlines()]
            if ("event", ": ", event) in fields:
                return "\n".join(value for name, _, value in fields if name == "data")

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
async def viewing(url: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Viewer]:
    """One viewer, who leaves at the end of the block."""
    limits = aiohttp.ClientTimeout(None, sock_connect=DEADLINE)
    connector, asked = connector_to(f"{url}events")
    async with (
        aiohttp.ClientSession(connector=connector, timeout=limits, read_bufsize=2**20) as session,
        session.get(asked, ssl=tls or True) as response,
    ):
        yield Viewer(response)


@contextlib.contextmanager
def staring(url: str) -> Iterator[socket.socket]:
    """A viewer that asks and never reads, with as little room as a kernel gives."""
    path = unquote(urlsplit(url).netloc)
    unix = "/" in path
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as mute:
        mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        mute.connect(path if unix else ("127.0.0.1", port_of(url)))
        mute.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield mute


async def has_room(url: str, number: int) -> bool:
    """Whether that many more viewers are let in."""
    async with contextlib.AsyncExitStack() as stack:
        viewers = [await stack.enter_async_context(viewing(url)) for _ in range(number)]
        return all(viewer.response.status == 200 for viewer in viewers)
