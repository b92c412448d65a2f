"""`filter`: alone opens the runtime's or the kubelet's socket, and offers `serve` what it needs.

It opens no port and reads nothing but the two sockets. `serve` then runs as a user and in a group
that cannot open these sockets: the runtime's is equivalent to root, and only uid 0 may open the
kubelet's.

A gRPC server passes on only the calls which the exporter makes. Deadlines and cancellation are
passed on, too, so the lease of a subscription still binds the runtime.

Invariant: a subscription is read as fast as the other side sends. What its client does not take
waits in a bounded backlog. If that is full, the subscription ends with `OVERFLOW_STATUS`, on both
sides and at once: else younger events on the client's next subscription would make the events that
were dropped here look lost.

Blind spot: only the socket's mode decides who may connect. Every such client can list and subscribe
as often as the bounds here allow.
"""

import asyncio
import functools
import math
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from crifilter.calls import ALLOWED, PODS_ALLOWED, AllowedCall, trimmed, trimmed_answer
from crifilter.options import FilterOptions, Passed
from exporter import __version__
from exporter.cri import limits
from exporter.cri.client import OVERFLOW_STATUS, channel_to, target_of
from exporter.cri.endpoint import Endpoint, candidates, make_way, not_made
from exporter.errors import ConfigError, CriError, KubeletError, ShadowPlegError
from exporter.kubelet.pods import reach
from exporter.model.labels import PodsEnd
from exporter.process.event_loop import first_of, guard, until_signalled
from exporter.settings.config import Config
from exporter.timing import Bucket

_log = structlog.get_logger()

_Context = grpc.aio.ServicerContext[bytes, bytes]
# How a call ends, if not well: code and details.
_Failure = tuple[grpc.StatusCode, str]

_MODE: Final = 0o660
_STOP_GRACE_SECONDS: Final = 0.3
# `serve`, `check` and `record` have three each. An idle connection takes 14 KiB; 8000 took 152 MiB,
# which were never freed.
_CONNECTIONS: Final = 32
_OPTIONS: Final = (
    # Requests name at most one container; answers are as large as the runtime's.
    ("grpc.max_receive_message_length", 4096),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.max_allowed_incoming_connections", _CONNECTIONS),
)
# Calls on each of the two connections to the runtime. The exporter has at most two subscriptions
# and a Version on one; a list and a status on the other. `check` has as many.
_MOST_AT_ONCE: Final = 8
# The shortest lease is renewed twice a second. A runtime keeps each ended subscription until its
# next event, so they must not be opened without limit.
_SUBSCRIPTIONS_PER_SECOND, _SUBSCRIPTIONS_AT_FIRST = 3.0, 10.0
_LONGEST_NAME: Final = 100
# What waits for one subscriber.
_MOST_EVENTS: Final = 4000
MOST_BYTES: Final = 4 * 1024 * 1024


class Backlog:
    """Events that a client has not taken yet, within bounds."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._bytes = 0

    def put(self, event: bytes) -> bool:
        """Add an event without waiting; False if there is no room."""
        if self._events.qsize() >= _MOST_EVENTS or self._bytes + len(event) > MOST_BYTES:
            return False
        self._events.put_nowait(event)
        self._bytes += len(event)
        return True

    def drop(self) -> None:
        """Forget what was not taken."""
        while not self._events.empty():
            self._events.get_nowait()

    def end(self) -> None:
        """Nothing more will be added."""
        self._events.put_nowait(None)

    async def get(self) -> bytes | None:
        """The oldest event; None after the last one."""
        event = await self._events.get()
        self._bytes -= len(event or b"")
        return event


class Filter(grpc.GenericRpcHandler):  # type: ignore[type-arg] # no generic class at run time
    """Handles every call to the socket; `denied` and `overflows` count what was not passed on.

    `find` returns the socket of the runtime or kubelet, or raises ShadowPlegError. `ended`: the
    server serves no more. A filter may have one server after the other.
    """

    def __init__(self, find: Callable[[], Path], allowed: Mapping[str, AllowedCall]) -> None:
        self.denied = 0
        self.overflows = 0
        self.ended = asyncio.Event()
        self._find = find
        self._allowed = allowed
        self._channels: dict[bool, Any] = {}
        self._at_once: Counter[bool] = Counter()
        # A list takes up to 93 MiB while it is passed on; eight that were not read took 338 MiB.
        self._listing = asyncio.Lock()
        self._subscriptions = Bucket(_SUBSCRIPTIONS_PER_SECOND, _SUBSCRIPTIONS_AT_FIRST)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401 - either kind
        """What handles a call."""
        path = handler_call_details.method
        if path in self._allowed:
            return grpc.unary_stream_rpc_method_handler(functools.partial(self._pass_on, path))
        return grpc.stream_stream_rpc_method_handler(functools.partial(self._deny, path))

    def failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception that no code caught.

        An exception in a task may have ended gRPC's server, for example a call whose path is not
        UTF-8. The server says so only here: it waits for its clients until it is stopped.
        """
        if isinstance(context.get("exception"), UnicodeDecodeError):
            self._count("a path that is not UTF-8")
        else:
            loop.default_exception_handler(context)
        if "future" in context:
            self.ended.set()

    async def close(self) -> None:
        """Close the connections to runtime or kubelet, and every call on them."""
        for ordered in tuple(self._channels):
            await self._forget(ordered=ordered)

    async def _deny(self, path: str, _requests: object, context: _Context) -> None:
        why = f"shadow-pleg filter denies {path[:_LONGEST_NAME]}"
        await self._refuse(context, grpc.StatusCode.PERMISSION_DENIED, why)

    async def _refuse(self, context: _Context, code: grpc.StatusCode, why: str) -> None:
        self._count(why)
        await self._end(context, code, why)

    async def _end(self, context: _Context, code: grpc.StatusCode, why: str) -> None:
        try:
            await context.abort(code, why)
        except grpc.aio.InternalError:
            # The client left first, for example because its deadline has passed.
            raise asyncio.CancelledError from None

    def _count(self, why: str) -> None:
        self.denied += 1
        _log.warning("call denied", reason=why, denied=self.denied)

    async def _pass_on(self, path: str, request: bytes, context: _Context) -> None:
        # No await before the call is made: subscriptions and Version keep their order.
        kind = self._allowed[path]
        ordered = kind.ordered
        if self._at_once[ordered] >= _MOST_AT_ONCE or (
            kind.is_endless and not self._subscriptions.spend(time.monotonic())
        ):
            why = f"too many calls at a time: {path}"
            await self._refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        self._at_once[ordered] += 1
        try:
            async with self._listing if kind.is_list else nullcontext():
                failure = await self._relay(path, request, context)
        except grpc.aio.InternalError:
            # The client left in the middle of an answer.
            raise asyncio.CancelledError from None
        finally:
            self._at_once[ordered] -= 1
        if failure is None:
            return
        if failure[0] is grpc.StatusCode.UNAVAILABLE and not self._at_once[ordered]:
            await self._forget(ordered=ordered)
        await self._end(context, *failure)

    async def _relay(self, path: str, request: bytes, context: _Context) -> _Failure | None:
        """Make the call, and write its answers."""
        kind = self._allowed[path]
        try:
            asked = trimmed(kind.request, request)
        except DecodeError:
            return grpc.StatusCode.INVALID_ARGUMENT, "the request is no protobuf message"
        try:
            channel = self._channel(ordered=kind.ordered)
            call = channel.unary_stream(path)(asked, timeout=context.time_remaining())
        except ShadowPlegError as error:
            return _failure(error)
        try:
            if kind.is_endless:
                return await self._relay_events(kind, call, context)
            async for raw in call:
                await context.write(await trimmed_answer(kind, raw))
        except (grpc.aio.AioRpcError, CriError, DecodeError) as error:
            return _failure(error)
        finally:
            call.cancel()
        return None

    async def _relay_events(
        self,
        kind: AllowedCall,
        call: Any,  # noqa: ANN401 - private to grpc.aio
        context: _Context,
    ) -> _Failure | None:
        backlog = Backlog()
        reading = asyncio.create_task(self._read(kind, call, backlog))
        try:
            while (event := await backlog.get()) is not None:
                await context.write(event)
            return await reading
        finally:
            reading.cancel()

    async def _read(self, kind: AllowedCall, call: Any, backlog: Backlog) -> _Failure | None:  # noqa: ANN401 - as above
        """Read until the subscription ends or there is no more room; never wait for the client."""
        try:
            while (raw := await call.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined] # not in the stubs
                if not backlog.put(kind.trim(raw)):
                    backlog.drop()
                    return self._overflow(call)
        except grpc.aio.AioRpcError as error:
            return _failure(error)
        finally:
            backlog.end()
        return None

    def _overflow(self, call: Any) -> _Failure:  # noqa: ANN401 - as above
        # First of all, free the runtime from this subscription.
        call.cancel()
        self.overflows += 1
        _log.warning("subscription ended: its client does not read", overflows=self.overflows)
        return OVERFLOW_STATUS, "shadow-pleg filter dropped events: the client did not read in time"

    async def _forget(self, *, ordered: bool) -> None:
        """Close that connection: the next call makes a new one at once, without a backoff."""
        channel = self._channels.pop(ordered, None)
        if channel is not None:
            await channel.close()

    def _channel(self, *, ordered: bool) -> Any:  # noqa: ANN401 - as above
        """The connection for subscriptions and Version, or that for all else."""
        if ordered not in self._channels:
            self._channels[ordered] = channel_to(self._find(), patient=ordered)
        return self._channels[ordered]


def _failure(error: Exception) -> _Failure:
    match error:
        case grpc.aio.AioRpcError():
            return error.code(), (error.details() or "")[: limits.DETAILS]
        case KubeletError(reason=PodsEnd.DENIED.value):
            return grpc.StatusCode.PERMISSION_DENIED, str(error)
        case ShadowPlegError():
            return grpc.StatusCode.UNAVAILABLE, str(error)
        case _:
            return grpc.StatusCode.INTERNAL, "the answer is no protobuf message"


@asynccontextmanager
async def serving(filtering: Filter, socket: Path, group: int | None) -> AsyncIterator[None]:
    """Serve that filter on that socket, from entry to exit.

    `group`: number of the group that may connect. OSError if the socket cannot be made.
    """
    filtering.ended.clear()
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((filtering,))
    make_way(socket)
    # It gets its name last, so it is never seen with another group or mode.
    unfinished = socket.with_name(f".{socket.name}")
    _bind(server, unfinished)
    try:
        await server.start()
        _admit(unfinished, group)
        unfinished.rename(socket)
        yield
    finally:
        await server.stop(_STOP_GRACE_SECONDS)
        await filtering.close()
        with suppress(OSError):
            make_way(socket)


def _bind(server: grpc.aio.Server, path: Path) -> None:
    mask = os.umask(0o777)
    try:
        server.add_insecure_port(target_of(path))
    except RuntimeError:
        raise not_made(path) from None
    finally:
        os.umask(mask)


def _admit(path: Path, group: int | None) -> None:
    try:
        os.chown(path, -1, -1 if group is None else group)
    except PermissionError:
        raise PermissionError(f"this process is not in the group {group}") from None
    path.chmod(_MODE)


async def run_filter(config: Config, options: FilterOptions) -> None:
    """Filter until SIGTERM or SIGINT. ConfigError for what retrying cannot fix."""
    await until_signalled(lambda stop: _filter(stop, config, options), outlives=True)
    _log.info("stopped")


async def _filter(stop: asyncio.Event, config: Config, options: FilterOptions) -> None:
    socket = options.socket
    made = _of_kubelet if options.of is Passed.KUBELET else _of_runtime
    filtering = made(config, socket)
    asyncio.get_running_loop().set_exception_handler(filtering.failed)
    async with asyncio.TaskGroup() as group:
        guarding = group.create_task(guard(config.watchdog_timeout))
        try:
            while not stop.is_set():
                async with serving(filtering, socket, options.socket_group):
                    _log.info("filtering", socket=f"unix://{socket}", version=__version__)
                    await first_of(math.inf, stop.wait(), filtering.ended.wait())
        except OSError as error:
            raise ConfigError(f"--socket: cannot serve on unix://{socket}: {error}") from None
        guarding.cancel()


def _of_runtime(config: Config, socket: Path) -> Filter:
    endpoint = Endpoint(config.runtime_endpoint)
    usual = candidates() if config.runtime_endpoint is None else [config.runtime_endpoint]
    _require_another(socket, usual, "the runtime's (--runtime-endpoint)")
    endpoint.require_usable()
    return Filter(endpoint.socket, ALLOWED)


def _of_kubelet(config: Config, socket: Path) -> Filter:
    path = config.kubelet_pods_endpoint
    _require_another(socket, [path], "the kubelet's (--kubelet-pods-endpoint)")

    def find() -> Path:
        reach(path)
        return path

    return Filter(find, PODS_ALLOWED)


def _require_another(socket: Path, taken: list[Path], whose: str) -> None:
    if os.path.realpath(socket) in {os.path.realpath(each) for each in taken}:
        raise ConfigError(f"--socket: unix://{socket} is {whose}: name another socket to serve on")
