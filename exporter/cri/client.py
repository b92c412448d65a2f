"""Calls to one runtime over its socket; every failure is a `CriError`.

Blind spot: on a quiet stream gRPC reports nothing until the first event, so "subscribed" can only
be inferred from the answer to a later call on the same connection.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import inquiry_of, readable
from exporter.errors import (
    CriError,
    CriNotFoundError,
    CriUnavailableError,
    CriUnimplementedError,
    CriUnsendableError,
    TooLargeError,
    printable,
)
from exporter.model.events import Inquiry
from exporter.model.labels import EOF, Call

SERVICE: Final = "/runtime.v1.RuntimeService/"
_EVENTS: Final = "GetContainerEvents"
_OPTIONS: Final = (
    # The lists must not share a connection's flow control with a stalled stream.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    # The probe widens a fast sender's window without limit, and gRPC needs nine times the size of
    # empty messages in it.
    ("grpc.http2.bdp_probe", 0),
    # Callers retry by themselves. gRPC's transparent retries have no limit and no pause: two calls
    # that a GOAWAY had refused made 6 000 attempts in 0.8 s, and kept the memory of each.
    ("grpc.enable_retries", 0),
    # At most one connection attempt per second, and at most 5 s to notice a new socket.
    ("grpc.initial_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 5000),
)
# Bytes of unread events while the interpreter stalls: some 13 000 events of 4 KB before the
# runtime's send blocks. `_AHEAD` works only without bdp_probe. Memory is used only as the window
# fills (docs/benchmarks.md), and no runtime can fill more.
WINDOW: Final = 40 * 1024 * 1024
# gRPC's default of 4 MiB has broken clients on full nodes; lists and events may be larger.
_LARGEST: Final = "grpc.max_receive_message_length"
_AHEAD: Final = "grpc.http2.lookahead_bytes"
_FOR_LISTS: Final = (*_OPTIONS, (_LARGEST, limits.LIST_BYTES), (_AHEAD, 4 * 1024 * 1024))
_FOR_EVENTS: Final = (*_OPTIONS, (_LARGEST, limits.MESSAGE_BYTES), (_AHEAD, WINDOW))
_ERRORS: Final[dict[grpc.StatusCode, type[CriError]]] = {
    grpc.StatusCode.UNAVAILABLE: CriUnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: CriUnavailableError,
    grpc.StatusCode.UNIMPLEMENTED: CriUnimplementedError,
    grpc.StatusCode.NOT_FOUND: CriNotFoundError,
}
# The reason if events were dropped on this side of the runtime: by the exporter, or by `filter`,
# which ends a subscription with `OVERFLOW_STATUS`, which no runtime uses.
OVERFLOW: Final = "overflow"
# The reasons if nothing listens, and if there was no answer in time.
UNAVAILABLE: Final = "unavailable"
TIMED_OUT: Final = "deadline_exceeded"
OVERFLOW_STATUS: Final = grpc.StatusCode.DATA_LOSS
# Said by grpc-go, the server of every runtime, if an answer exceeds its own limit.
_UNSENDABLE: Final = "trying to send message larger than max"
UNSENDABLE_REMEDY: Final = (
    "remove exited pods and containers, with crictl rmp and rm; a kubelet cannot list them either,"
    " and so removes none"
)


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """The runtime's identity as it reports it."""

    name: str
    version: str
    api_version: str


@dataclass(frozen=True, slots=True)
class RawLists:
    """Both lists, undecoded, each in one or more messages, and when the first was requested."""

    requested: float
    sandboxes: tuple[bytes, ...]
    containers: tuple[bytes, ...]

    @property
    def sizes(self) -> dict[Call, int]:
        """Size in bytes of each list, in however many messages it came."""
        lists = {Call.SANDBOXES: self.sandboxes, Call.CONTAINERS: self.containers}
        return {call: sum(map(len, messages)) for call, messages in lists.items()}


@contextmanager
def _translated(call: str) -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        code, details = error.code(), error.details() or "no details"
        dropped = code is OVERFLOW_STATUS and call == _EVENTS
        reason, details = OVERFLOW if dropped else code.name.lower(), details[: limits.DETAILS]
        kind = CriUnsendableError if _UNSENDABLE in details else _ERRORS.get(code, CriError)
        raise kind(reason, f"{call}: {reason}: {details}") from None
    except grpc.aio.UsageError as error:
        raise CriUnavailableError("unavailable", f"{call}: {error}") from None
    except DecodeError:
        raise CriError("internal", f"{call}: the answer is no protobuf message") from None


Timed = Callable[[Call, float], object]


@dataclass(frozen=True, slots=True)
class _List:
    """How to ask for a list. `parts`: one request for each state, with the state's name.

    An object goes through the states in this order, so if its state changes meanwhile, at least one
    list shows it. UNKNOWN comes twice, because an object may enter and leave it at any time.
    """

    call: Call
    streamed: str
    unary: str
    parts: tuple[tuple[str, bytes], ...]


def _of_containers(state: pb.ContainerState) -> tuple[str, bytes]:
    request = pb.ListContainersRequest()
    request.filter.state.state = state
    return pb.ContainerState.Name(state), request.SerializeToString()


def _of_sandboxes(state: pb.PodSandboxState) -> tuple[str, bytes]:
    request = pb.ListPodSandboxRequest()
    request.filter.state.state = state
    return pb.PodSandboxState.Name(state), request.SerializeToString()


# A request without a filter.
_ALL: Final = b""
_STATES: Final = (
    *(pb.CONTAINER_UNKNOWN, pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING, pb.CONTAINER_EXITED),
    pb.CONTAINER_UNKNOWN,
)
_LISTS: Final = (
    _List(
        *(Call.SANDBOXES, "StreamPodSandboxes", "ListPodSandbox"),
        tuple(map(_of_sandboxes, (pb.SANDBOX_READY, pb.SANDBOX_NOTREADY))),
    ),
    _List(
        *(Call.CONTAINERS, "StreamContainers", "ListContainers"),
        tuple(map(_of_containers, _STATES)),
    ),
)


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """Why a subscription, or a watch made of several, ended.

    `reason`: gRPC's code in lower case, `eof` for a clean end, or the exporter's own reason.
    """

    reason: str
    note: str


CLEAN: Final = StreamEnd(EOF, "ended by the runtime")


class Subscription:
    """One GetContainerEvents call."""

    def __init__(self, call: Any, number: int) -> None:  # noqa: ANN401 - grpc.aio's own call type is private
        self.number = number
        self._call = call

    async def read(self, take: Callable[[bytes], object]) -> None:
        """Pass undecoded events to `take` until it returns a true value or the stream ends.

        A loop over `read` costs less than wrapping gRPC's iterator in another one.
        """
        read = self._call.read
        with _translated(_EVENTS):
            while (raw := await read()) is not grpc.aio.EOF:  # type: ignore[attr-defined] # not in the stubs
                if take(raw):
                    return

    def cancel(self) -> None:
        """Cancel the subscription; this releases the runtime's send at once."""
        self._call.cancel()


def target_of(socket: Path) -> str:
    """The socket as gRPC names it."""
    return "unix:/" + quote(str(socket).lstrip("/"))


def channel_to(socket: Path, *, patient: bool, largest: int | None = None) -> Any:  # noqa: ANN401 - see below
    """A gRPC channel to that socket.

    `patient`: it will carry events, so it buffers as many as possible while nothing reads them.
    `largest`: bytes of a message at most; by default those of a list or an event.
    """
    # The published stubs require arguments that grpc.aio itself leaves optional.
    options = dict[str, int](_FOR_EVENTS if patient else _FOR_LISTS)
    if largest is not None:
        options[_LARGEST] = largest
    return grpc.aio.insecure_channel(target_of(socket), options=tuple(options.items()))


class CriClient:
    """One connection to the runtime on `socket`; connects lazily, gRPC reconnects when it breaks.

    `patient`: see `channel_to`.
    """

    def __init__(self, socket: Path, *, patient: bool = False) -> None:
        self.socket = socket
        self._channel = channel_to(socket, patient=patient)
        self._streams_lists = True
        # The lists that are requested state by state.
        self._parted: set[Call] = set()
        self._calls = 0

    @property
    def idle(self) -> bool:
        """Whether no call waits for an answer; closing the connection would cancel it."""
        return not self._calls

    async def version(self, timeout: float) -> RuntimeVersion:
        """Return the runtime's name, version and API version."""
        with _translated("Version"):
            request = pb.VersionRequest(version="v1").SerializeToString()
            raw = await self._unary("Version", request, timeout)
            answer = pb.VersionResponse.FromString(raw)
        return RuntimeVersion(
            printable(readable(answer.runtime_name))[: limits.TEXT],
            printable(readable(answer.runtime_version))[: limits.TEXT],
            printable(readable(answer.runtime_api_version))[: limits.TEXT],
        )

    async def lists(self, timeout: float, timed: Timed = lambda *_: None) -> RawLists:
        """Both lists, unfiltered, in the kubelet's order, within `timeout`; `timed` gets times."""
        requested = time.monotonic()
        until = requested + timeout
        lists = []
        for each in _LISTS:
            began = time.monotonic()
            try:
                lists.append(await self._list(each, until))
            finally:
                timed(each.call, time.monotonic() - began)
        return RawLists(requested, *lists)

    def reconsider(self) -> None:
        """Forget missing features: another runtime now answers on the socket."""
        self._streams_lists = True
        self._parted.clear()

    async def _list(self, each: _List, until: float) -> tuple[bytes, ...]:
        """One list, streamed in many messages if the runtime can, so that it can be of any size.

        Else in one message; or in one for each state, while one message would be larger than the
        runtime can send.
        """
        if self._streams_lists:
            method = self._channel.unary_stream(SERVICE + each.streamed)
            left = max(0.0, until - time.monotonic())
            try:
                with _translated(each.streamed):
                    # Messages received before an error are only part of a list, so the error
                    # discards them.
                    return await _collected(method(_ALL, timeout=left))
            except CriUnimplementedError:
                self._streams_lists = False
        if each.call not in self._parted:
            try:
                return (await self._one(each.unary, _ALL, until, limits.LIST_BYTES),)
            except CriUnsendableError:
                self._parted.add(each.call)
        return await self._by_state(each, until)

    async def _by_state(self, each: _List, until: float) -> tuple[bytes, ...]:
        """The list in a message for each state, the last first: of equal ids the first counts."""
        messages: list[bytes] = []
        left = limits.LIST_BYTES
        for state, request in each.parts:
            try:
                messages.append(await self._one(each.unary, request, until, left))
            except CriUnsendableError as error:
                what = f"{error.problem}, of {state} alone"
                raise CriUnsendableError(error.reason, what, UNSENDABLE_REMEDY) from None
            left -= len(messages[-1])
        if limits.LIST_BYTES - left < limits.NEARLY_UNSENDABLE_BYTES:
            self._parted.discard(each.call)
        return tuple(reversed(messages))

    async def _one(self, name: str, request: bytes, until: float, largest: int) -> bytes:
        with _translated(name):
            return await self._unary(name, request, max(0.0, until - time.monotonic()), largest)

    async def inquire(self, container_id: str, timeout: float) -> Inquiry:
        """Whether a container ever started; CriNotFoundError if the runtime no longer knows it."""
        status = await self._status(container_id, timeout, verbose=False)
        return inquiry_of(status)

    async def started(self, container_id: str, timeout: float) -> int:
        """When a container was started, in ns; 0 if never."""
        return (await self._status(container_id, timeout, verbose=False)).started_at

    async def audit(self, container_id: str, timeout: float) -> Inquiry | None:
        """DELETED_BELOW if the CRI knows a container that the underlying runtime does not.

        containerd answers a verbose request from the runtime, a plain one from the CRI's own
        memory.
        """
        try:
            await self._status(container_id, timeout, verbose=True)
        except CriNotFoundError:
            await self._status(container_id, timeout, verbose=False)
            return Inquiry.DELETED_BELOW
        return None

    async def _status(
        self, container_id: str, timeout: float, *, verbose: bool
    ) -> pb.ContainerStatus:
        asked = pb.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        request = asked.SerializeToString()
        with _translated("ContainerStatus"):
            raw = await self._unary("ContainerStatus", request, timeout)
            return pb.ContainerStatusResponse.FromString(raw).status

    def subscribe(self, number: int, lease: float | None) -> Subscription:
        """Subscribe to events; the runtime ends the stream by itself after `lease` seconds."""
        method = self._channel.unary_stream(SERVICE + _EVENTS)
        call = method(pb.GetEventsRequest().SerializeToString(), timeout=lease)
        return Subscription(call, number)

    async def close(self) -> None:
        """Close the connection and every call on it."""
        await self._channel.close()

    async def _unary(
        self, name: str, request: bytes, timeout: float, largest: int = limits.MESSAGE_BYTES
    ) -> bytes:
        method = self._channel.unary_unary(SERVICE + name)
        self._calls += 1
        try:
            # None if the call ended well without a message, which gRPC's types do not say.
            answer: bytes | None = await method(request, timeout=timeout)
        finally:
            self._calls -= 1
        if answer is None:
            raise CriError("internal", f"{name}: the runtime sent no answer")
        if len(answer) > largest:
            raise TooLargeError(f"an answer to {name} larger than {largest >> 20} MiB")
        return answer


async def _collected(call: Any) -> tuple[bytes, ...]:  # noqa: ANN401 - as in Subscription
    """The messages of a streamed list."""
    messages, left = [], limits.LIST_BYTES
    async for raw in call:
        left -= len(raw) + limits.LISTED_BYTES
        if left < 0:
            call.cancel()
            raise TooLargeError(f"a list larger than {limits.LIST_BYTES >> 20} MiB")
        messages.append(raw)
    return tuple(messages)
