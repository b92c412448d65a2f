"""Clients of the web server: scrapers and floods."""

import asyncio
import base64
import contextlib
import itertools
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from testbed.waiting import until
from tests.support.commands import DEADLINE, fetch
from tests.support.observer import Metrics

STRANGER = "127.0.0.66"
PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
REFUSALS = "shadow_pleg_web_refusals_total"


async def counted(
    url: str,
    reason: str,
    number: int,
    tls: ssl.SSLContext | None = None,
    login: tuple[str, str] | None = None,
) -> None:
    """Wait until that many were refused for that reason; the page is up to half a second old."""

    async def is_counted() -> bool:
        text = (await fetch(url + "metrics", tls=tls, login=login)).text
        return Metrics.read(text).value(REFUSALS, reason=reason) >= number

    await until(is_counted, f"{reason}: {number}")


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


async def trickle(url: str, source: str = STRANGER, tls: ssl.SSLContext | None = None) -> None:
    """Slow-loris: a header that never ends; connects again when it is disconnected."""
    while True:
        with contextlib.suppress(OSError):
            async with connection(url, source, tls) as (_, writer):
                writer.write(b"GET /metrics HTTP/1.1\r\n")
                while True:
                    writer.write(b"X-a: b\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.2)
        await asyncio.sleep(0.01)


async def hold(url: str, source: str = STRANGER, sent: bytes = b"") -> None:
    """Connections that say that, wait a little for nothing, and are replaced."""
    while True:
        with contextlib.suppress(OSError):
            async with connection(url, source) as (_, writer):
                writer.write(sent)
                await asyncio.sleep(0.5)


async def hammer(
    url: str,
    source: str = STRANGER,
    sent: Sequence[bytes] = (SCRAPE,),
    tls: ssl.SSLContext | None = None,
) -> None:
    """One request after the other, each on a new connection."""
    for each in itertools.cycle(sent):
        await says(url, each, source, tls)


async def gulp(
    url: str, source: str = STRANGER, sent: bytes = SCRAPE, tls: ssl.SSLContext | None = None
) -> None:
    """Requests without end on one connection, whose answers are never read."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await connect(url, source, tls)
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
