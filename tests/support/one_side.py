"""What breaks one subscriber only: a proxy in front of a runtime, and what plays a kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
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
# The kubelet stops after this many errors, and tries again at once until then.
MOST_ERRORS: Final = 5


class Proxy(grpc.GenericRpcHandler):  # type: ignore[type-arg] # at run time it takes none
    """Passes calls on. `refuse`: how many of the next calls for events fail."""

    def __init__(self, runtime: Path, socket: Path) -> None:
        self.socket = socket
        self.refuse = 0
        # gRPC's stubs know no asyncio.
        self._channel: Any = grpc.aio.insecure_channel(f"unix:{runtime}")
        self._streams: set[Any] = set()

    def service(self, handler_call_details: Any) -> Any:  # noqa: ANN401 - gRPC's stubs know no asyncio
        """The handler of that method."""
        method = handler_call_details.method
        if method == _EVENTS:
            return grpc.unary_stream_rpc_method_handler(self._events)
        return grpc.unary_unary_rpc_method_handler(self._forwarding(method))

    def cut(self) -> None:
        """End all streams of events with an error; what is on its way is lost."""
        for stream in self._streams:
            stream.cancel()

    async def close(self) -> None:
        """Let go of the runtime."""
        await self._channel.close()

    def _forwarding(self, method: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def forward(request: bytes, context: Any) -> bytes:  # noqa: ANN401 - as above
            try:
                answer: bytes = await self._channel.unary_unary(method)(request)
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            return answer

        return forward

    async def _events(self, request: bytes, context: Any) -> None:  # noqa: ANN401 - as above
        if self.refuse:
            self.refuse -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "refused")
        stream = self._channel.unary_stream(_EVENTS)(request)
        self._streams.add(stream)
        try:
            with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
                async for message in stream:
                    await context.write(message)
        finally:
            self._streams.discard(stream)
            stream.cancel()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was cut")


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
        self.connections = self.errors = self.events = 0

    @property
    def page(self) -> KubeletPage:
        """Its metrics."""
        return KubeletPage(
            gate=True,
            version="v1.36.2",
            stream_errors=self.errors,
            events=self.events,
            connections=self.connections,
        )

    async def run(self) -> None:
        """Receive events until it gives up."""
        while self.errors < MOST_ERRORS:
            call = self._channel.unary_stream(_EVENTS)(b"")
            self.connections += 1
            try:
                async for raw in call:
                    event = cri.ContainerEventResponse.FromString(raw)
                    self.events += event.pod_sandbox_status.HasField("metadata")
            except grpc.aio.AioRpcError:
                pass
            finally:
                call.cancel()
            self.errors += 1

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
