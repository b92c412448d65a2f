"""An event loop whose clock is a number: it jumps to the next timer instead of waiting for it.

Threads' work is done at once; unix sockets work. Blind spot: child processes and TCP need real
time, and so does gRPC: `grpc.aio`'s channels and servers are calls in that loop meanwhile.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import grpc
import grpc.aio
import pytest

# An arbitrary moment: 2026-01-01, and a machine that has been up for some hours.
_BEGAN_WALL_NS: Final = 1_767_225_600 * 10**9
_BEGAN: Final = 10_000.0
_TURN_SECONDS: Final = 1e-5


class _Selector(selectors.PollSelector):
    """Advances the clock by the time for which the loop would have slept."""

    now = _BEGAN

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError(
                "no timer is set and nothing is ready: every task waits for another one"
            )
        # A turn takes time, too: else what never rests would stop the clock for all others.
        self.now += _TURN_SECONDS if ready or not timeout else timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Made where nothing else makes the loop: pytest-asyncio's loop factory, `asyncio.Runner`."""

    # By so many seconds is the wall clock ahead of the truth.
    ahead = 0.0

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(self, _executor: object, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """At once and in this thread: the clock would not wait for another one."""
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller that awaits it gets it
            future.set_exception(error)
        return future


@contextmanager
def clocks_of(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Meanwhile the clocks of `time` are the loop's."""

    def wall_ns() -> int:
        ahead = loop.ahead if isinstance(loop, VirtualLoop) else 0.0
        return _BEGAN_WALL_NS + round((loop.time() - _BEGAN + ahead) * 1e9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", loop.time)
        patch.setattr(time, "time_ns", wall_ns)
        patch.setattr(time, "time", lambda: wall_ns() / 1e9)
        yield


def set_clock(seconds: float) -> None:
    """Set the wall clock forward by so many seconds, back if it is negative."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.ahead += seconds


def work(seconds: float) -> None:
    """Let the code that runs now take that long, as a calculation or a blocking call would."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop._virtual.now += seconds


# --- gRPC without sockets -----------------------------------------------------

WIRE_SECONDS: Final = 0.0005
_EOF: Final = grpc.aio.EOF  # type: ignore[attr-defined] # not in the stubs

# The servers that there are, by the path of their socket.
Network = dict[Path, "MemoryServer"]


class _Aborted(Exception):  # noqa: N818 - not an error of the test
    def __init__(self, code: grpc.StatusCode, details: str = "") -> None:
        super().__init__(details)
        # As a client sees it.
        nothing = grpc.aio.Metadata()
        self.error = grpc.aio.AioRpcError(code, nothing, nothing, details, None)


class MemoryServer:
    """Stands in for `grpc.aio.Server`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._handlers: list[grpc.GenericRpcHandler[bytes, bytes]] = []
        self._listeners: dict[Path, socket.socket] = {}
        self.calls: set[asyncio.Task[None]] = set()

    def add_generic_rpc_handlers(
        self, handlers: Sequence[grpc.GenericRpcHandler[bytes, bytes]]
    ) -> None:
        self._handlers += handlers

    def add_insecure_port(self, address: str) -> int:
        self._listeners[Path(address.removeprefix("unix://"))] = socket.socket(socket.AF_UNIX)
        return 1

    async def start(self) -> None:
        """From now on calls arrive; the socket is there, too, and can be connected to."""
        for path, listener in self._listeners.items():
            listener.bind(str(path))
            listener.listen()
            self._network[path] = self

    async def stop(self, grace: float | None) -> None:
        """Take no more calls; those under way have that many seconds."""
        for path, listener in self._listeners.items():
            self._network.pop(path, None)
            listener.close()
        if calls := set(self.calls):
            await asyncio.wait(calls, timeout=grace or 0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def serve(self, method: str, request: bytes, context: _Call) -> bytes | None:
        asked: Any = SimpleNamespace(method=method, invocation_metadata=())
        for handlers in self._handlers:
            if handler := handlers.service(asked):
                behaviour: Any = handler.unary_unary or handler.unary_stream
                answer: bytes | None = await behaviour(request, context)
                return answer
        raise _Aborted(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method}")


class _Call:
    """One call: its client reads messages, then an end; the method writes, or gives the call up."""

    def __init__(self, timeout: float | None) -> None:
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ended = self._cancelled = False
        self._status: _Aborted | None = None
        self._serving: asyncio.Task[None] | None = None
        expired = _Aborted(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        self._deadline = timeout is not None and asyncio.get_running_loop().call_later(
            max(0.0, timeout), self._end, expired
        )

    def begin(self, server: MemoryServer | None, path: Path, method: str, request: bytes) -> None:
        if server is None:
            details = f"failed to connect to all addresses; unix:{path}: connection refused"
            self._end(_Aborted(grpc.StatusCode.UNAVAILABLE, details))
            return
        self._serving = asyncio.create_task(self._serve(server, method, request))
        server.calls.add(self._serving)
        self._serving.add_done_callback(server.calls.discard)

    async def read(self) -> Any:
        """The next message; `grpc.aio.EOF` after the last; AioRpcError for a bad end."""
        message = await self._messages.get()
        if self._cancelled:
            raise asyncio.CancelledError
        if message is not None:
            return message
        self._messages.put_nowait(None)
        if self._status is not None:
            raise self._status.error
        return _EOF

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self.read()) is not _EOF:
            yield message

    def cancel(self) -> bool:
        ongoing = not self._ended
        self._cancelled = self._cancelled or ongoing
        self._end(None)
        return ongoing

    async def write(self, message: bytes) -> None:
        await asyncio.sleep(WIRE_SECONDS)
        self._put(message)

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        raise _Aborted(code, details)

    async def _serve(self, server: MemoryServer, method: str, request: bytes) -> None:
        status: _Aborted | None = _Aborted(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        try:
            await asyncio.sleep(WIRE_SECONDS)
            answer = await server.serve(method, request, self)
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
            self._messages.put_nowait(message)

    def _end(self, status: _Aborted | None) -> None:
        if self._ended:
            return
        self._status, self._ended = status, True
        self._messages.put_nowait(None)
        if self._deadline:
            self._deadline.cancel()
        if self._serving is not None and self._serving is not asyncio.current_task():
            self._serving.cancel()


class MemoryChannel:
    """Stands in for `grpc.aio.Channel`."""

    def __init__(self, network: Network, target: str) -> None:
        self._network = network
        self._path = Path("/" + unquote(target.removeprefix("unix:")).lstrip("/"))
        self._calls: set[_Call] = set()
        self._closed = False

    def unary_unary(self, method: str, **_: object) -> Callable[..., Coroutine[Any, Any, bytes]]:
        async def answer(request: bytes, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - gRPC's name
            call = self._begin(method, request, timeout)
            try:
                message: bytes = await call.read()
            except asyncio.CancelledError:
                call.cancel()
                raise
            return message

        return answer

    def unary_stream(self, method: str, **_: object) -> Callable[..., _Call]:
        return lambda request, timeout=None: self._begin(method, request, timeout)

    async def close(self) -> None:
        self._closed = True
        for call in self._calls:
            call.cancel()

    def _begin(self, method: str, request: bytes, timeout: float | None) -> _Call:
        if self._closed:
            raise grpc.aio.UsageError("Channel is closed.")
        call = _Call(timeout)
        self._calls.add(call)
        call.begin(self._network.get(self._path), self._path, method, request)
        return call


@contextmanager
def in_memory() -> Iterator[None]:
    """Meanwhile `grpc.aio` makes channels and servers of this kind."""
    network: Network = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpc.aio, "insecure_channel", lambda at, **_: MemoryChannel(network, at))
        patch.setattr(grpc.aio, "server", lambda **_: MemoryServer(network))
        yield
