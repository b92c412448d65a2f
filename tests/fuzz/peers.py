"""Servers that send given bytes to each client, and leave."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_PREFACE_BYTES: Final = 24
_HEADERS: Final = 1
# What gRPC's client waits for before it makes a call.
_SETTINGS: Final = b"\0\0\0\4\0\0\0\0\0"


class _Peer(asyncio.Protocol):
    """Sends a greeting, and the answer once `asked` finds a request in what has come."""

    def __init__(self, greeting: bytes, asked: Callable[[bytes], bool], answer: bytes) -> None:
        self._greeting, self._asked, self._answer = greeting, asked, answer
        self._received = b""
        self._answered = False
        self._met = asyncio.get_running_loop().create_future()
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._met.set_result(transport)
        transport.write(self._greeting)
        self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        """Answer once."""
        self._received += data
        if not self._answered and self._asked(self._received):
            self._answered = True
            transport = self._met.result()
            transport.write(self._answer)
            transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The client ends it, or `leave` does."""
        self._lost.set()

    async def leave(self) -> None:
        """End it now: the loop that would notice the client's end may not run again."""
        (await self._met).abort()
        await self._lost.wait()


def _has_call(received: bytes) -> bool:
    at = _PREFACE_BYTES
    while at + 3 < len(received):
        if received[at + 3] == _HEADERS:
            return True
        at += 9 + int.from_bytes(received[at : at + 3], "big")
    return False


_Peers = Callable[[], _Peer]


@asynccontextmanager
async def _peers(
    greeting: bytes, asked: Callable[[bytes], bool], answer: bytes
) -> AsyncIterator[_Peers]:
    """Makes a peer for each client; all of them leave at the end."""
    made: list[_Peer] = []

    def peer() -> _Peer:
        made.append(_Peer(greeting, asked, answer))
        return made[-1]

    try:
        yield peer
    finally:
        for each in made:
            await each.leave()


@asynccontextmanager
async def runtime_peer(answer: bytes, *, greets: bool = True) -> AsyncIterator[Path]:
    """A runtime's socket, which sends these bytes once a call has come, or to begin with."""
    peers = _peers(_SETTINGS, _has_call, answer) if greets else _peers(b"", lambda _: True, answer)
    loop = asyncio.get_running_loop()
    with TemporaryDirectory() as folder:
        socket = Path(folder) / "cri.sock"
        async with peers as peer, await loop.create_unix_server(peer, str(socket)):
            yield socket


@asynccontextmanager
async def http_peer(answer: bytes) -> AsyncIterator[str]:
    """The URL of a server that answers each request with these bytes."""
    loop = asyncio.get_running_loop()
    async with (
        _peers(b"", lambda received: b"\r\n\r\n" in received, answer) as peer,
        await loop.create_server(peer, "127.0.0.1", 0) as server,
    ):
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
