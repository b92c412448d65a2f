"""gRPC without sockets: `grpc.aio`'s channels and servers as calls in one event loop.

It has no HTTP/2, no flow control and no reconnection backoff: tests of these use real sockets.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import grpc
import grpc.aio
import pytest

WIRE_SECONDS: Final = 0.0005

_Behaviour = Callable[[bytes, "_Context"], Awaitable[Any]]
# The servers that there are, by the path of their socket.
Network = dict[Path, "MemoryServer"]


class _Aborted(Exception):  # noqa: N818 - not an error of the test
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


class _Context:
    """What a method of the server is given: it writes messages, or gives the call up."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    async def write(self, message: bytes) -> None:
        """Send one message of a stream."""
        await asyncio.sleep(WIRE_SECONDS)
        self._write(message)

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """End the call with that status."""
        raise _Aborted(code, details)


class MemoryServer:
    """Stands in for `grpc.aio.Server`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._handlers: list[grpc.GenericRpcHandler[bytes, bytes]] = []
        self._paths: list[Path] = []
        self._calls: set[asyncio.Task[None]] = set()

    def add_generic_rpc_handlers(
        self, handlers: Sequence[grpc.GenericRpcHandler[bytes, bytes]]
    ) -> None:
        """Serve these methods."""
        self._handlers += handlers

    def add_insecure_port(self, address: str) -> int:
        """Listen there, once started."""
        self._paths.append(Path(address.removeprefix("unix://")))
        return 1

    async def start(self) -> None:
        """From now on calls arrive; the socket's file is there, too."""
        for path in self._paths:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
            self._network[path] = self

    async def stop(self, grace: float | None) -> None:
        """Take no more calls; those under way have that many seconds."""
        for path in self._paths:
            self._network.pop(path, None)
        calls = set(self._calls)
        if calls:
            await asyncio.wait(calls, timeout=grace or 0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def behaviour(self, method: str) -> _Behaviour:
        """What serves that method; UNIMPLEMENTED where nothing does."""
        for handlers in self._handlers:
            asked: Any = SimpleNamespace(method=method, invocation_metadata=())
            handler: Any = handlers.service(asked)
            if handler is not None:
                found: _Behaviour = handler.unary_unary or handler.unary_stream
                return found
        raise _Aborted(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method}")

    def begin(self, call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a call in the server's name."""
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task


class _Call:
    """One call, as its client sees it: messages, then an end."""

    def __init__(self, network: Network, path: Path, method: str, timeout: float | None) -> None:
        self._network, self._path, self._method = network, path, method
        self._messages: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._ended = False
        self._status: _Aborted | None = None
        self._cancelled = False
        self._serving: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        if timeout is not None:
            self._deadline = asyncio.get_running_loop().call_later(max(0.0, timeout), self._expire)

    def begin(self, request: bytes) -> None:
        """Send it to the server at that path."""
        server = self._network.get(self._path)
        if server is None:
            details = f"failed to connect to all addresses; unix:{self._path}: connection refused"
            self._end(_Aborted(grpc.StatusCode.UNAVAILABLE, details))
            return
        self._serving = server.begin(self._serve(server, request))

    async def read(self) -> Any:  # noqa: ANN401 - bytes, or gRPC's own mark of the end
        """The next message; `grpc.aio.EOF` after the last; AioRpcError for a bad end."""
        while not self._messages and not self._ended:
            self._news.clear()
            await self._news.wait()
        if self._cancelled:
            raise asyncio.CancelledError
        if self._messages:
            return self._messages.popleft()
        if self._status is not None:
            raise grpc.aio.AioRpcError(
                self._status.code,
                grpc.aio.Metadata(),
                grpc.aio.Metadata(),
                details=self._status.details,
                debug_error_string=None,
            )
        return grpc.aio.EOF  # type: ignore[attr-defined] # not in the stubs

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined] # as above
            yield message

    def cancel(self) -> bool:
        """Give it up, at both ends."""
        ongoing = not self._ended
        self._cancelled = self._cancelled or ongoing
        self._end(None)
        return ongoing

    async def _serve(self, server: MemoryServer, request: bytes) -> None:
        status: _Aborted | None = _Aborted(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        try:
            await asyncio.sleep(WIRE_SECONDS)
            answer = await server.behaviour(self._method)(request, _Context(self._put))
            await asyncio.sleep(WIRE_SECONDS)
            if answer is not None:
                self._put(answer)
            status = None
        except _Aborted as aborted:
            status = aborted
        finally:
            self._end(status)

    def _put(self, message: bytes) -> None:
        if not self._ended:
            self._messages.append(message)
            self._news.set()

    def _expire(self) -> None:
        self._end(_Aborted(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))

    def _end(self, status: _Aborted | None) -> None:
        if self._ended:
            return
        self._status, self._ended = status, True
        self._news.set()
        if self._deadline is not None:
            self._deadline.cancel()
        if self._serving is not None and self._serving is not asyncio.current_task():
            self._serving.cancel()


async def _answer(call: _Call) -> bytes:
    """The one answer of a call."""
    try:
        answer: bytes = await call.read()
    except asyncio.CancelledError:
        call.cancel()
        raise
    return answer


class MemoryChannel:
    """Stands in for `grpc.aio.Channel`."""

    def __init__(self, network: Network, target: str) -> None:
        self._network = network
        self._path = Path("/" + unquote(target.removeprefix("unix:")).lstrip("/"))
        self._calls: set[_Call] = set()
        self._closed = False

    def unary_unary(self, method: str, **_: object) -> Callable[..., Coroutine[Any, Any, bytes]]:
        """A method with one answer."""
        return lambda request, timeout=None: _answer(self._begin(method, request, timeout))

    def unary_stream(self, method: str, **_: object) -> Callable[..., _Call]:
        """A method with a stream of answers."""
        return lambda request, timeout=None: self._begin(method, request, timeout)

    async def close(self) -> None:
        """Give up every call."""
        self._closed = True
        for call in self._calls:
            call.cancel()

    def _begin(self, method: str, request: bytes, timeout: float | None) -> _Call:
        if self._closed:
            raise grpc.aio.UsageError("Channel is closed.")
        call = _Call(self._network, self._path, method, timeout)
        self._calls.add(call)
        call.begin(request)
        return call


@contextmanager
def in_memory() -> Iterator[None]:
    """Meanwhile `grpc.aio` makes channels and servers of this kind."""
    network: Network = {}

    def channel(target: str, **_: object) -> MemoryChannel:
        return MemoryChannel(network, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpc.aio, "insecure_channel", channel)
        patch.setattr(grpc.aio, "server", lambda **_: MemoryServer(network))
        yield
