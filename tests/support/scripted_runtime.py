"""A simulated runtime whose single calls and announcements go wrong as a test says."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc

from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.client import OVERFLOW_STATUS
from exporter.model.events import EventType, ObjectKind
from simulator.cgroups import CgroupFiles
from simulator.channel import Outbox
from simulator.options import Options, Runtime
from simulator.records import Notice
from simulator.runtime import SimulatedRuntime
from simulator.server import SimulatedServer
from simulator.service import Context, Method, RuntimeService

_FAR_FUTURE_NS = 2**63
_Behaviour = Callable[[bytes, Context], Awaitable[Any]]


@dataclass(slots=True)
class CallFaults:
    """The faults of the next calls, and a record of all calls.

    `sandboxes`, `containers`: items added to every list, however malformed. `list_seconds`: what
    each list takes. `waiting`: number of calls that are hanging now. `calls`: each call and when it
    came.
    """

    sandboxes: list[cri.PodSandbox] = field(default_factory=list)
    containers: list[cri.Container] = field(default_factory=list)
    list_seconds: float = 0.0
    waiting: int = 0
    calls: list[tuple[Method, float]] = field(default_factory=list)
    _streams: list[asyncio.Task[None]] = field(default_factory=list)
    in_flight: Counter[Method] = field(default_factory=Counter)
    most_in_flight: Counter[Method] = field(default_factory=Counter)
    _refusals: dict[Method, list[tuple[grpc.StatusCode, str]]] = field(default_factory=dict)
    _replies: dict[Method, list[bytes]] = field(default_factory=dict)
    _hanging: dict[Method, asyncio.Event] = field(default_factory=dict)
    _served_before_hanging: dict[Method, int] = field(default_factory=dict)

    def refuse_next(
        self,
        times: int = 1,
        *methods: Method,
        code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE,
        details: str = "refused on purpose",
    ) -> None:
        """Refuse the next `times` calls of each of these methods (default: of every method).

        A streamed list is refused after its first message.
        """
        for method in methods or Method:
            self._refusals.setdefault(method, []).extend([(code, details)] * times)

    def relent(self) -> None:
        """Refuse nothing more."""
        self._refusals.clear()

    def reply_next(self, method: Method, payload: bytes) -> None:
        """Answer the next call of that method with these bytes instead."""
        self._replies.setdefault(method, []).append(payload)

    def hang(self, *methods: Method) -> None:
        """Make calls of these methods hang until `resume` or their own deadline."""
        for method in methods:
            self._hanging.setdefault(method, asyncio.Event())

    def hang_after(self, served: int, method: Method) -> None:
        """Make calls of that method hang, as `hang` does, after so many were served."""
        self._served_before_hanging[method] = served

    def resume(self) -> None:
        """Resume all hanging calls."""
        for gate in self._hanging.values():
            gate.set()
        self._hanging.clear()

    def overflow_oldest(self) -> None:
        """End the oldest stream as `shadow-pleg filter` ends one whose client is too slow."""
        self._streams.pop(0).cancel()

    async def stream(self, serving: Awaitable[None], context: Context) -> None:
        """Serve a stream of events until its end, or until `overflow_oldest`."""
        task = asyncio.ensure_future(serving)
        self._streams.append(task)
        try:
            await asyncio.wait({task})
        finally:
            ended = task.done()
            task.cancel()
        if ended and task.cancelled():
            await context.abort(OVERFLOW_STATUS, "dropped on purpose")
        await task

    def times(self, method: Method) -> list[float]:
        """When each call of that method came."""
        return [at for called, at in self.calls if called is method]

    def count(self, method: Method) -> int:
        """How often that method was called."""
        return len(self.times(method))

    def gaps(self, method: Method) -> list[float]:
        """Seconds between each two calls of that method."""
        return [later - earlier for earlier, later in pairwise(self.times(method))]

    async def admit(self, method: Method, context: Context) -> None:
        """Note the call; let it hang or refuse it if the script says so."""
        self.calls.append((method, time.monotonic()))
        if self._served_before_hanging.get(method) == self.count(method) - 1:
            self.hang(method)
        self.in_flight[method] += 1
        self.most_in_flight |= self.in_flight
        gate = self._hanging.get(method)
        try:
            if gate is not None:
                self.waiting += 1
                try:
                    await gate.wait()
                finally:
                    self.waiting -= 1
        finally:
            self.in_flight[method] -= 1
        refusals = self._refusals.get(method)
        if refusals:
            await context.abort(*refusals.pop(0))

    async def answer(self, method: Method, answer: Callable[[], Awaitable[bytes]]) -> bytes:
        """The bytes of the script if there are any, or the real answer with the items added."""
        replies = self._replies.get(method)
        if replies:
            return replies.pop(0)
        payload = await answer()
        if method in (Method.LIST_POD_SANDBOX, Method.LIST_CONTAINERS):
            # A slow answer is a stale one.
            await asyncio.sleep(self.list_seconds)
        # Of two messages in a row, protobuf makes one with the items of both.
        if method is Method.LIST_POD_SANDBOX:
            payload += cri.ListPodSandboxResponse(items=self.sandboxes).SerializeToString()
        if method is Method.LIST_CONTAINERS:
            payload += cri.ListContainersResponse(containers=self.containers).SerializeToString()
        return payload


class ScriptedOutbox(Outbox):
    """An outbox that drops or holds announcements on demand."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        super().__init__(runtime.options, runtime.channel.publish, runtime.lose)
        self._to_drop: list[tuple[str | None, EventType]] = []
        self._to_hold: list[tuple[str | None, EventType]] = []
        self._held: list[Notice] = []

    def drop_next(self, container_id: str | None, event: EventType) -> None:
        """Drop exactly the next announcement of that id and type; None: of any id."""
        self._to_drop.append((container_id, event))

    def hold_next(self, container_id: str | None, event: EventType) -> None:
        """Hold the next announcement of that id and type until `release`."""
        self._to_hold.append((container_id, event))

    def post(self, notice: Notice, now_ns: int) -> None:
        """Drop or hold what the script names; treat all else as usual."""
        if _named(self._to_drop, notice):
            self._lose(notice)
        elif _named(self._to_hold, notice):
            self._held.append(notice)
        else:
            super().post(notice, now_ns)

    def release(self) -> None:
        """Send everything held, in the order in which it was announced."""
        held, self._held = self._held, []
        for notice in held:
            self._publish(notice)

    def calm(self) -> None:
        """Stop random faults, and send everything that is waiting."""
        self.options = replace(self.options, drop=0, duplicate=0, delay=0)
        self.flush(_FAR_FUTURE_NS)
        self.release()


def _named(wanted: list[tuple[str | None, EventType]], notice: Notice) -> bool:
    """Whether the list names this announcement; the entry that does is used up."""
    for each in ((notice.container_id, notice.type), (None, notice.type)):
        if each in wanted:
            wanted.remove(each)
            return True
    return False


class ScriptedRuntime(SimulatedRuntime):
    """A runtime to which more can happen than the churn does."""

    outbox: ScriptedOutbox

    def __init__(self, options: Options, cgroups: CgroupFiles | None) -> None:
        super().__init__(options, cgroups)
        self.outbox = ScriptedOutbox(self)
        self.deleted_below: set[str] = set()

    def kill_sandbox(self, sandbox_id: str) -> None:
        """The sandbox's own process, if it has one, dies; its containers keep running."""
        if self.options.runtime is not Runtime.CRIO:
            self.end_sandbox(sandbox_id)

    def delete_below(self, container_id: str) -> None:
        """Delete an exited container behind the CRI, which keeps listing it."""
        self.deleted_below.add(container_id)
        # Its removal from the CRI is not announced.
        self.outbox.drop_next(container_id, EventType.DELETED)


class ScriptedService(RuntimeService):
    """The runtime's methods, with the faults of `faults`."""

    def __init__(self, runtime: ScriptedRuntime) -> None:
        super().__init__(runtime)
        self.faults = CallFaults()
        self._deleted_below = runtime.deleted_below

    def handlers(self) -> dict[Method, grpc.RpcMethodHandler[bytes, bytes]]:
        """The handler of each method, behind its faults."""
        return {
            method: grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream))
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary))
            for method, handler in super().handlers().items()
        }

    def _unary(self, method: Method, real: Any) -> _Behaviour:  # noqa: ANN401 - gRPC's stubs know no asyncio
        async def call(request: bytes, context: Context) -> bytes:
            await self.faults.admit(method, context)
            if method is Method.CONTAINER_STATUS:
                await self._look_below(request, context)
            return await self.faults.answer(method, lambda: real(request, context))

        return call

    def _stream(self, method: Method, real: Any) -> _Behaviour:  # noqa: ANN401 - as above
        async def call(request: bytes, context: Context) -> None:
            if method is Method.GET_CONTAINER_EVENTS:
                await self.faults.admit(method, context)
                await self.faults.stream(real(request, context), context)
            else:
                await real(request, _Admitting(context, lambda: self.faults.admit(method, context)))

        return call

    async def _look_below(self, request: bytes, context: Context) -> None:
        """Only a verbose status shows that the underlying runtime has no such container."""
        asked = cri.ContainerStatusRequest.FromString(request)
        if asked.verbose and asked.container_id in self._deleted_below:
            await context.abort(grpc.StatusCode.NOT_FOUND, "container: not found")


class _Admitting:
    """The context of a streamed list: each message that was written is a call to admit."""

    def __init__(self, context: Context, admit: Callable[[], Awaitable[None]]) -> None:
        self._context = context
        self._admit = admit
        self.abort = context.abort

    async def write(self, message: bytes) -> None:
        """Write, then admit."""
        await self._context.write(message)
        await self._admit()


class ScriptedServer(SimulatedServer):
    """A scripted runtime on a socket. `faults`: the faults of the next calls."""

    runtime: ScriptedRuntime

    def __init__(self, options: Options, path: Path, cgroups: CgroupFiles | None = None) -> None:
        runtime = ScriptedRuntime(options, cgroups)
        service = ScriptedService(runtime)
        super().__init__(service, path)
        self.runtime = runtime
        self.faults = service.faults

    def announce_raw(self, payload: bytes) -> None:
        """Send these bytes to the subscribers as if they were an announcement."""
        notice = Notice("", EventType.CREATED, ObjectKind.CONTAINER, time.time_ns(), payload)
        self.runtime.channel.publish(notice)
