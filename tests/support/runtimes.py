"""A simulated runtime whose single calls and announcements go wrong as a test says; and clients.

Each runtime of a test is on a socket of its own.
"""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import grpc

from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.client import OVERFLOW_STATUS, CriClient
from exporter.model.events import EventType, ObjectKind
from exporter.pleg.trust import SETTLES
from exporter.settings.declaring import from_text
from simulator.channel import Notice, Outbox
from simulator.churn import Churn
from simulator.options import DEMO_DEFAULTS, Events, Options, Runtime
from simulator.runtime import CgroupFiles, SimulatedRuntime
from simulator.service import Context, Handler, Method, SimulatedServer
from tests.support.observer import Observer

_LISTS = (Method.LIST_POD_SANDBOX, Method.LIST_CONTAINERS)
_Refusal = tuple[grpc.StatusCode, str]
_Behaviour = Callable[[bytes, Context], Awaitable[Any]]


@dataclass(slots=True)
class CallFaults:
    """The faults of the next calls, and a record of all calls.

    `sandboxes`, `containers`: items added to every list, however malformed. `list_seconds`: what
    each list takes. `sendable`: the most bytes of one, which Go's gRPC limits. `calls`: each call
    and when it came. `waiting`: number of calls that are hanging now; `in_flight`,
    `most_in_flight`: of calls that are, or were, under way at one time.
    """

    sandboxes: list[cri.PodSandbox] = field(default_factory=list)
    containers: list[cri.Container] = field(default_factory=list)
    list_seconds: float = 0.0
    sendable: float = math.inf
    calls: list[tuple[Method, float]] = field(default_factory=list)
    waiting: int = 0
    most_in_flight: Counter[Method] = field(default_factory=Counter)
    in_flight: Counter[Method] = field(default_factory=Counter)
    _streams: list[asyncio.Task[None]] = field(default_factory=list)
    # By method, the bytes or the status of the next answers.
    _script: defaultdict[Method, list[bytes | _Refusal]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _hanging: dict[Method, asyncio.Event] = field(default_factory=dict)
    _served_before_hanging: dict[Method, int] = field(default_factory=dict)

    def refuse_next(
        self,
        times: int = 1,
        *methods: Method,
        code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE,
        details: str = "refused on purpose",
    ) -> None:
        """Refuse the next `times` calls of each of these methods (default: of every method)."""
        for method in methods or Method:
            self._script[method] += [(code, details)] * times

    def relent(self) -> None:
        self._script.clear()

    def reply_next(self, method: Method, payload: bytes) -> None:
        self._script[method].append(payload)

    def hang(self, *methods: Method) -> None:
        """Make calls of these methods hang until `resume` or their own deadline."""
        for method in methods:
            self._hanging.setdefault(method, asyncio.Event())

    def hang_after(self, served: int, method: Method) -> None:
        """Make calls of that method hang, as `hang` does, after so many were served."""
        self._served_before_hanging[method] = served

    def resume(self) -> None:
        for gate in self._hanging.values():
            gate.set()
        self._hanging.clear()

    def overflow_oldest(self) -> None:
        """End the oldest stream as `shadow-pleg filter` ends one whose client is too slow."""
        self._streams.pop(0).cancel()

    async def stream(self, serving: Awaitable[None], context: Context) -> None:
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
        return [at for called, at in self.calls if called is method]

    def count(self, method: Method) -> int:
        return len(self.times(method))

    def gaps(self, method: Method) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.times(method))]

    async def admit(self, method: Method, context: Context) -> bytes | None:
        """Note the call; let it hang, refuse it or give its answer if the script says so."""
        self.calls.append((method, time.monotonic()))
        if self._served_before_hanging.get(method) == self.count(method) - 1:
            self.hang(method)
        if gate := self._hanging.get(method):
            self.waiting += 1
            try:
                await gate.wait()
            finally:
                self.waiting -= 1
        said = self._script[method].pop(0) if self._script[method] else None
        if isinstance(said, tuple):
            await context.abort(*said)
        return said

    async def listed(self, method: Method, payload: bytes) -> bytes:
        """A list with the items added, after some time: a slow answer is a stale one."""
        await asyncio.sleep(self.list_seconds)
        # Of two messages in a row, protobuf makes one with the items of both.
        if method is Method.LIST_POD_SANDBOX:
            return payload + cri.ListPodSandboxResponse(items=self.sandboxes).SerializeToString()
        more = cri.ListContainersResponse(containers=self.containers)
        return payload + more.SerializeToString()


class ScriptedOutbox(Outbox):
    """An outbox that drops or holds announcements on demand."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        super().__init__(runtime.options, runtime.channel.publish, runtime.lose)
        # By whose and which announcement, what is done with the next one; None: anyone's.
        self._script: list[tuple[str | None, EventType, Callable[[Notice], None]]] = []
        self._held: list[Notice] = []

    def drop_next(self, container_id: str | None, event: EventType) -> None:
        """Drop exactly the next announcement of that id and type; None: of any id."""
        self._script.append((container_id, event, self._lose))

    def hold_next(self, container_id: str, event: EventType) -> None:
        """Hold the next announcement of that id and type until `release`."""
        self._script.append((container_id, event, self._held.append))

    def post(self, notice: Notice) -> None:
        for each in self._script:
            if each[0] in (notice.container_id, None) and each[1] is notice.type:
                self._script.remove(each)
                each[2](notice)
                return
        super().post(notice)

    def release(self) -> None:
        while self._held:
            self._publish(self._held.pop(0))

    def calm(self) -> None:
        self.options = replace(self.options, drop=0, duplicate=0, delay=0)
        while self._waiting:
            self.send_next()
        self.release()


class ScriptedRuntime(SimulatedRuntime):
    """A runtime to which more can happen than the churn does."""

    outbox: ScriptedOutbox

    def __init__(self, options: Options, cgroups: CgroupFiles | None) -> None:
        super().__init__(options, cgroups)
        self.outbox = ScriptedOutbox(self)
        self.deleted_below: set[str] = set()

    def delete_below(self, container_id: str) -> None:
        """Delete an exited container behind the CRI, which keeps listing it."""
        self.deleted_below.add(container_id)
        self.outbox.drop_next(container_id, EventType.DELETED)


class ScriptedServer(SimulatedServer):
    """A scripted runtime on a socket. `faults`: the faults of the next calls."""

    runtime: ScriptedRuntime

    def __init__(self, options: Options, path: Path, cgroups: CgroupFiles | None = None) -> None:
        super().__init__(ScriptedRuntime(options, cgroups), path)
        self.faults = CallFaults()

    def handlers(self) -> dict[Method, Handler]:
        return {
            method: grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream))
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary))
            for method, handler in super().handlers().items()
        }

    def _unary(self, method: Method, real: Any) -> _Behaviour:
        async def call(request: bytes, context: Context) -> bytes:
            faults = self.faults
            faults.in_flight[method] += 1
            faults.most_in_flight |= faults.in_flight
            try:
                said = await faults.admit(method, context)
                if method is Method.CONTAINER_STATUS:
                    await self._look_below(request, context)
                if said is not None:
                    return said
                answer: bytes = await real(request, context)
                if method in _LISTS:
                    answer = await faults.listed(method, answer)
                    if len(answer) > faults.sendable:
                        sizes = f"{len(answer)} vs. {faults.sendable}"
                        why = f"grpc: trying to send message larger than max ({sizes})"
                        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
                return answer
            finally:
                faults.in_flight[method] -= 1

        return call

    def _stream(self, method: Method, real: Any) -> _Behaviour:
        async def call(request: bytes, context: Context) -> None:
            async def write(message: bytes) -> None:
                await context.write(message)
                await self.faults.admit(method, context)

            if method is Method.GET_CONTAINER_EVENTS:
                await self.faults.admit(method, context)
                await self.faults.stream(real(request, context), context)
            else:
                await real(request, SimpleNamespace(write=write, abort=context.abort))

        return call

    async def _look_below(self, request: bytes, context: Context) -> None:
        """Only a verbose status shows that the underlying runtime has no such container."""
        asked = cri.ContainerStatusRequest.FromString(request)
        if asked.verbose and asked.container_id in self.runtime.deleted_below:
            await context.abort(grpc.StatusCode.NOT_FOUND, "container: not found")

    def announce_raw(self, payload: bytes) -> None:
        notice = Notice("", EventType.CREATED, ObjectKind.CONTAINER, payload)
        self.runtime.channel.publish(notice)


NOBODY: Final = 65534
QUIET: Final = Options(pods=0, churn=0)
CRIO: Final = replace(QUIET, runtime=Runtime.CRIO)
EXCLUSIVE: Final = replace(QUIET, runtime=Runtime.CONTAINERD_1)
DISABLED: Final = replace(CRIO, events=Events.DISABLED)
UNIMPLEMENTED: Final = replace(QUIET, events=Events.UNIMPLEMENTED)
DEMO: Final = from_text(Options, {}, {}, DEMO_DEFAULTS)


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name, and that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="sp-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@asynccontextmanager
async def simulated(
    options: Options = QUIET, at: Path | None = None, cgroups: CgroupFiles | None = None
) -> AsyncIterator[ScriptedServer]:
    """A runtime in which nothing happens by itself, on a socket of its own or on that one."""
    with short_folder() as folder:
        async with ScriptedServer(options, at or folder / "cri.sock", cgroups) as server:
            yield server


@contextmanager
def unannounced(server: ScriptedServer) -> Iterator[None]:
    """What happens inside the block is not announced, as if it had been long ago."""
    server.runtime.up = False
    try:
        yield
    finally:
        server.runtime.up = True


def running_container(server: ScriptedServer, pod: str = "web-0") -> tuple[str, str]:
    """A pod with one running container: the sandbox's id and the container's."""
    runtime = server.runtime
    sandbox = runtime.run_pod(pod, "shop")
    container = runtime.create(sandbox, "app")
    runtime.start(container)
    return sandbox, container


class Bystander:
    """A pod beside the story, in the baseline: all that happens in it is announced and listed."""

    def __init__(self, server: ScriptedServer) -> None:
        self._runtime = server.runtime
        with unannounced(server):
            self._sandbox = server.runtime.run_pod("elsewhere")

    async def acts(self, observer: Observer) -> None:
        """A container is created, announced and listed."""
        self._runtime.create(self._sandbox, "job")
        await observer.relisted(time.monotonic() + SETTLES)

    async def judged(self, observer: Observer) -> None:
        """What happened so far was listed, and after the grace something is announced."""
        await observer.relisted()
        await observer.relisted(time.monotonic() + observer.config.missed_grace)
        await self.acts(observer)
        await observer.judged()


@contextmanager
def without_privileges() -> Iterator[int]:
    """Run the block as an unprivileged user if this is root; yields the uid in force."""
    if os.geteuid():
        yield os.geteuid()
        return
    os.seteuid(NOBODY)
    try:
        yield NOBODY
    finally:
        os.seteuid(0)


SOON = 0.2
PATIENT = 10.0
# One byte more than a client takes.
TOO_LARGE = b"\0" * (32 * 1024 * 1024 + 1)


@asynccontextmanager
async def client_of(socket: Path) -> AsyncIterator[CriClient]:
    client = CriClient(socket)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def connected(options: Options = QUIET) -> AsyncIterator[tuple[ScriptedServer, CriClient]]:
    async with simulated(options) as server, client_of(server.socket) as client:
        Churn(server.runtime).populate()
        yield server, client
