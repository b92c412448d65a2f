"""Servers that send given bytes to whoever asks, and leave."""

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
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._greeting)
        self._transport = transport
        self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        """Answer once."""
        self._received += data
        if self._transport and self._asked(self._received):
            self._transport.write(self._answer)
            self._transport.write_eof()
            self._transport = None

    def eof_received(self) -> None:
        """The client ends it."""


def _has_call(received: bytes) -> bool:
    at = _PREFACE_BYTES
    while at + 3 < len(received):
        if received[at + 3] == _HEADERS:
            return True
        at += 9 + int.from_bytes(received[at : at + 3], "big")
    return False


@asynccontextmanager
async def runtime_peer(answer: bytes, *, greets: bool = True) -> AsyncIterator[Path]:
    """A runtime's socket, which sends these bytes once a call has come, or to begin with."""

    def peer() -> _Peer:
        return _Peer(_SETTINGS, _has_call, answer) if greets else _Peer(b"", lambda _: True, answer)

    with TemporaryDirectory() as folder:
        socket = Path(folder) / "cri.sock"
        async with await asyncio.get_running_loop().create_unix_server(peer, str(socket)):
            yield socket


@asynccontextmanager
async def http_peer(answer: bytes) -> AsyncIterator[str]:
    """The URL of a server that answers each request with these bytes."""

    def peer() -> _Peer:
        return _Peer(b"", lambda received: b"\r\n\r\n" in received, answer)

    async with await asyncio.get_running_loop().create_server(peer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
