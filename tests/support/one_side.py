"""What breaks one side only: a proxy in front of a runtime, and what plays a kubelet."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc.aio

from exporter.cri import runtime_v1_pb2 as cri
from simulator.service import Method
from testbed.waiting import until
from tests.support.kubelet_pages import KubeletPage
from tests.support.runtimes import short_folder

_SERVICE: Final = "/runtime.v1.RuntimeService/"
_EVENTS: Final = _SERVICE + Method.GET_CONTAINER_EVENTS.value
_FORWARDED: Final = {
    _SERVICE + method.value
    for method in (
        Method.VERSION,
        Method.LIST_POD_SANDBOX,
        Method.LIST_CONTAINERS,
        Method.CONTAINER_STATUS,
    )
}
# The kubelet stops after this many errors, and tries again at once until then.
MOST_ERRORS: Final = 5


class Proxy(grpc.GenericRpcHandler):  # type: ignore[type-arg] # at run time it takes none
    """Passes everything on, except what a test says of the next events.

    `drop`: how many of the next ones get lost. `swap`: how many of the next ones come after the one
    that follows. `delay`: seconds by which all come later; their order stays. `refuse`: how many of
    the next calls for events fail.
    """

    def __init__(self, runtime: Path, socket: Path) -> None:
        self.socket = socket
        self.drop = self.swap = self.refuse = 0
        self.delay = 0.0
        self.dropped = self.passed = 0
        # gRPC's stubs know no asyncio.
        self._channel: Any = grpc.aio.insecure_channel(f"unix:{runtime}")
        self._cuts: set[asyncio.Event] = set()

    def service(self, handler_call_details: Any) -> Any:  # noqa: ANN401 - gRPC's stubs know no asyncio
        """The handler of that method, if it is passed on."""
        method = handler_call_details.method
        if method == _EVENTS:
            return grpc.unary_stream_rpc_method_handler(self._events)
        if method in _FORWARDED:
            return grpc.unary_unary_rpc_method_handler(self._forwarding(method))
        return None

    def cut(self) -> None:
        """End all streams of events with an error; what is on its way is lost."""
        for cut in self._cuts:
            cut.set()

    async def close(self) -> None:
        """Let go of the runtime."""
        await self._channel.close()

    def _forwarding(self, method: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def forward(request: bytes, _context: Any) -> bytes:  # noqa: ANN401 - as above
            answer: bytes = await self._channel.unary_unary(method)(request)
            return answer

        return forward

    async def _events(self, request: bytes, context: Any) -> None:  # noqa: ANN401 - as above
        if self.refuse:
            self.refuse -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "refused")
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        cut = asyncio.Event()
        self._cuts.add(cut)
        call = self._channel.unary_stream(_EVENTS)(request)
        tasks = [
            asyncio.create_task(self._take(call, on_the_way)),
            asyncio.create_task(self._pass_on(on_the_way, context)),
            asyncio.create_task(cut.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._cuts.discard(cut)
            call.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was cut")

    async def _take(self, call: Any, on_the_way: asyncio.Queue[tuple[float, bytes]]) -> None:  # noqa: ANN401 - as above
        held: deque[bytes] = deque()
        async for message in call:
            if self.drop:
                self.drop -= 1
                self.dropped += 1
            elif self.swap:
                self.swap -= 1
                held.append(message)
            else:
                due = time.monotonic() + self.delay
                on_the_way.put_nowait((due, message))
                while held:
                    on_the_way.put_nowait((due, held.popleft()))

    async def _pass_on(self, on_the_way: asyncio.Queue[tuple[float, bytes]], context: Any) -> None:  # noqa: ANN401 - as above
        while True:
            due, message = await on_the_way.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await context.write(message)
            self.passed += 1


@asynccontextmanager
async def proxy(runtime: Path) -> AsyncIterator[Proxy]:
    """A proxy in front of that socket, on one of its own."""
    with short_folder() as folder:
        one = Proxy(runtime, folder / "proxy.sock")
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((one,))
        server.add_insecure_port(f"unix://{one.socket}")
        await server.start()
        try:
            yield one
        finally:
            one.cut()
            await server.stop(0)
            await one.close()


class PlayedKubelet:
    """Subscribes, counts, retries and gives up as kubelets of 1.27 to 1.37 do."""

    def __init__(self, socket: Path) -> None:
        self._channel: Any = grpc.aio.insecure_channel(f"unix:{socket}")
        self.connections = self.errors = 0
        self.delays: list[float] = []

    @property
    def page(self) -> KubeletPage:
        """Its metrics."""
        return KubeletPage(
            gate=True,
            version="v1.36.2",
            stream_errors=self.errors,
            events=len(self.delays),
            connections=self.connections,
            delays=tuple(self.delays),
        )

    async def run(self) -> None:
        """Receive events until it gives up."""
        while self.errors < MOST_ERRORS:
            call = self._channel.unary_stream(_EVENTS)(b"")
            self.connections += 1
            try:
                async for raw in call:
                    self._count(cri.ContainerEventResponse.FromString(raw))
            except grpc.aio.AioRpcError:
                pass
            finally:
                call.cancel()
            self.errors += 1

    def _count(self, event: cri.ContainerEventResponse) -> None:
        if event.HasField("pod_sandbox_status") and event.pod_sandbox_status.HasField("metadata"):
            self.delays.append((time.time_ns() - event.created_at) / 1e9)

    async def close(self) -> None:
        """Disconnect."""
        await self._channel.close()


@asynccontextmanager
async def playing_kubelet(socket: Path) -> AsyncIterator[PlayedKubelet]:
    """A kubelet that subscribes there, connected."""
    one = PlayedKubelet(socket)
    running = asyncio.create_task(one.run())
    try:
        await until(lambda: one.connections > 0, "the kubelet is connected")
        yield one
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await one.close()
