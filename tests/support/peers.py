"""Servers that are not what was expected there: those that send given bytes, and HTTP answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aiohttp import web

from testbed.servers import served

_PREFACE_BYTES: Final = 24
_HEADERS: Final = 1
# What gRPC's client waits for before it makes a call.
_SETTINGS: Final = b"\0\0\0\4\0\0\0\0\0"


def _has_calls(number: int, received: bytes) -> bool:
    at, calls = _PREFACE_BYTES, 0
    while at + 3 < len(received):
        calls += received[at + 3] == _HEADERS
        at += 9 + int.from_bytes(received[at : at + 3], "big")
    return calls >= number


_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _peers(
    greeting: bytes,
    asked: Callable[[bytes], bool],
    answer: bytes,
    endless: tuple[bytes, float] = (b"", 0.0),
) -> AsyncIterator[_Serve]:
    """Greets each client, and answers once `asked` finds a request in what has come.

    `endless`: what follows without end, every so many seconds.
    """
    serving = set[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        received = b""
        with contextlib.suppress(OSError):
            try:
                writer.write(greeting)
                while not asked(received) and (more := await reader.read(1 << 16)):
                    received += more
                if asked(received):
                    writer.write(answer)
                    while endless[0]:
                        writer.write(endless[0])
                        await writer.drain()
                        await asyncio.sleep(endless[1])
                    writer.write_eof()
                await reader.read()
            finally:
                writer.transport.abort()
                await writer.wait_closed()

    try:
        yield serve
    finally:
        for each in filter(None, serving):
            each.cancel()
        await asyncio.gather(*filter(None, serving), return_exceptions=True)


@asynccontextmanager
async def runtime_peer(
    answer: bytes, *, greets: bool = True, calls: int = 1
) -> AsyncIterator[Path]:
    """A runtime's socket, which sends these bytes once so many calls have come, or at once."""
    asked = partial(_has_calls, calls if greets else 0)
    peers = _peers(_SETTINGS if greets else b"", asked, answer)
    with TemporaryDirectory() as folder:
        socket = Path(folder) / "cri.sock"
        async with peers as serve, await asyncio.start_unix_server(serve, str(socket)):
            yield socket


@asynccontextmanager
async def http_peer(answer: bytes, endless: tuple[bytes, float] = (b"", 0.0)) -> AsyncIterator[str]:
    """One that has no end waits for no request."""
    async with (
        _peers(
            b"", lambda came: b"\r\n\r\n" in came or endless[0] != b"", answer, endless
        ) as serve,
        await asyncio.start_server(serve, "127.0.0.1", 0) as server,
    ):
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


MIB: Final = 1 << 20

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(**response: Any) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(**response)

    return answer


def answered_by(answer: Answer) -> contextlib.AbstractAsyncContextManager[str]:
    """A server that answers everything so; gives the URL."""
    application = web.Application()
    application.router.add_route("*", "/{anything:.*}", answer)
    return served(application)


def status(number: int, **headers: str) -> Answer:
    return answering(status=number, text="no\n", headers=headers)


def slowly(seconds: float) -> Answer:
    """Nothing of use, so much later."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response(text="no\n")

    return answer


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b'some_metric{some="label"} 1\n' * (MIB // 40))
        # Writing to a closed connection never waits: without this the loop would not notice.
        await asyncio.sleep(0)


async def breaks_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = MIB
    await response.prepare(request)
    await response.write(b'{"status":')
    assert request.transport is not None
    request.transport.abort()
    return response
