"""Clients of the web server: scrapers and floods."""

import asyncio
import base64
import contextlib
import itertools
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.commands import DEADLINE, answered
from tests.support.observer import Metrics, tasks

STRANGER = "127.0.0.66"
PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
REFUSALS = "shadow_pleg_web_refusals_total"
Attack = Callable[..., Coroutine[Any, Any, None]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def counted(
    url: str,
    reason: str,
    number: int,
    tls: ssl.SSLContext | None = None,
    login: tuple[str, str] | None = None,
) -> None:
    """Wait until that many were refused for that reason; the page is up to half a second old."""
    await answered(
        url + "metrics",
        lambda page: Metrics.read(page.text).value(REFUSALS, reason=reason) >= number,
        f"{reason}: {number}",
        tls=tls,
        login=login,
    )


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def as_login(name: str, password: str, page: bytes = b"/metrics") -> bytes:
    pair = base64.b64encode(f"{name}:{password}".encode())
    head = b"GET %b HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %b\r\n" % (page, pair)
    return head + b"Connection: close\r\n\r\n"


def pages_for(name: str, password: str) -> tuple[bytes, ...]:
    """A request for each page that takes long to make."""
    cases = b"/debug/misses?format="
    pages = (b"/metrics", b"/", cases + b"json", cases + b"html")
    return tuple(as_login(name, password, page) for page in pages)


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
) -> AsyncIterator[Connection]:
    """A connection from that address, closed at the end of the block."""
    path = unquote(urlsplit(url).netloc)
    if "/" in path:
        reader, writer = await asyncio.open_unix_connection(path)
    else:
        name, host = "localhost" if tls else None, "::1" if ":" in source else "127.0.0.1"
        reader, writer = await asyncio.open_connection(
            host, port_of(url), local_addr=(source, 0), ssl=tls, server_hostname=name
        )
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def probed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A probe is answered on that connection, which stays open."""
    writer.write(PROBE)
    assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")


async def is_turned_away(url: str, tls: ssl.SSLContext) -> bool:
    """Whether TLS ends before one byte of HTTP comes; one attempt, which HTTP clients repeat."""
    async with asyncio.timeout(DEADLINE):
        return not await says(
            url, PROBE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), tls=tls
        )


async def pester(
    url: str,
    source: str = STRANGER,
    tls: ssl.SSLContext | None = None,
    *,
    sent: tuple[bytes, bytes] = (b"", b""),
    every: float = 0.5,
) -> None:
    """Send the first, wait, and send the second without end unless it is empty; connect again."""
    first, then = sent
    while True:
        with contextlib.suppress(OSError):
            async with connection(url, source, tls) as (_, writer):
                try:
                    writer.write(first)
                    await asyncio.sleep(every)
                    while then:
                        writer.write(then)
                        await writer.drain()
                        await asyncio.sleep(every)
                finally:
                    writer.transport.abort()
        await asyncio.sleep(0.01)


# Slow-loris: a header that never ends.
trickle = partial(pester, sent=(b"GET /metrics HTTP/1.1\r\n", b"X-a: b\r\n"), every=0.2)


def gulp(sent: bytes) -> Attack:
    return partial(pester, sent=(b"", sent.replace(b"Connection: close\r\n", b"")), every=0.001)


async def hammer(
    url: str, source: str = STRANGER, tls: ssl.SSLContext | None = None, *, sent: Sequence[bytes]
) -> None:
    for each in itertools.cycle(sent):
        await says(url, each, source, tls)


def flooded(
    attack: Attack, url: str, times: int, sources: Sequence[str] = (STRANGER,)
) -> contextlib.AbstractAsyncContextManager[None]:
    chosen = itertools.islice(itertools.cycle(sources), times)
    return tasks(*(attack(url, source=source) for source in chosen))
