"""The runtime's socket: the CRI methods, answered from the simulated world.

A gRPC server that restarts and disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path
from typing import Final, Self, TypeAlias

import grpc
import grpc.aio

from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.endpoint import make_way, not_made
from simulator.channel import StreamEnding
from simulator.options import Events
from simulator.runtime import SimulatedRuntime

_SERVICE: Final = "runtime.v1.RuntimeService"
# How long a restarting runtime is away.
_OUTAGE_SECONDS: Final = 2.0
_STOP_GRACE_SECONDS: Final = 0.3
_OPTIONS: Final = (("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0))

Context = grpc.aio.ServicerContext[bytes, bytes]
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
# Lists what is in that state, or everything, in messages of one item each, which may be joined.
_List = Callable[[int | None], list[bytes]]
_Request = cri.ListPodSandboxRequest | cri.ListContainersRequest


class Method(Enum):
    """The CRI methods that are served."""

    VERSION = "Version"
    LIST_POD_SANDBOX = "ListPodSandbox"
    LIST_CONTAINERS = "ListContainers"
    STREAM_POD_SANDBOXES = "StreamPodSandboxes"
    STREAM_CONTAINERS = "StreamContainers"
    CONTAINER_STATUS = "ContainerStatus"
    GET_CONTAINER_EVENTS = "GetContainerEvents"


async def listening(path: Path, service: str, handlers: dict[str, Handler]) -> grpc.aio.Server:
    """A server of these methods on a socket, which replaces what is there; OSError if it cannot."""
    make_way(path)
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    try:
        server.add_insecure_port(f"unix://{path}")
    except RuntimeError:
        raise not_made(path) from None
    await server.start()
    return server


class SimulatedServer:
    """A runtime on a socket, from entry to exit, which ends streams as a restart does.

    OSError on entry if it cannot listen.
    """

    def __init__(self, runtime: SimulatedRuntime, socket: Path) -> None:
        self.runtime = runtime
        self.socket = socket
        self._listener: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.come_up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_down()

    @property
    def endpoint(self) -> str:
        """The socket, in the form that `--runtime-endpoint` accepts."""
        return f"unix://{self.socket}"

    def handlers(self) -> dict[Method, Handler]:
        """The handler of each method; requests and answers are bytes."""
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        return {
            Method.VERSION: unary(self._version),
            Method.LIST_POD_SANDBOX: unary(self._whole(self._sandboxes, cri.ListPodSandboxRequest)),
            Method.LIST_CONTAINERS: unary(self._whole(self._containers, cri.ListContainersRequest)),
            Method.CONTAINER_STATUS: unary(self._container_status),
            Method.STREAM_POD_SANDBOXES: stream(self._streamed(self._sandboxes)),
            Method.STREAM_CONTAINERS: stream(self._streamed(self._containers)),
            Method.GET_CONTAINER_EVENTS: stream(self._events),
        }

    def disconnect(self, ending: StreamEnding = StreamEnding.UNAVAILABLE) -> None:
        """End all streams now; announcements not yet sent to their clients are lost."""
        self.runtime.channel.end_all(ending)

    async def go_down(self) -> None:
        """The runtime dies: streams end its way, the socket is gone, all calls fail."""
        self.runtime.go_down()
        clean = self.runtime.behaviour.clean_end
        self.disconnect(StreamEnding.CLEAN if clean else StreamEnding.UNAVAILABLE)
        if self._listener is not None:
            # Let responses in transit arrive.
            await self._listener.stop(_STOP_GRACE_SECONDS)
            self._listener = None
            self.socket.unlink(missing_ok=True)

    async def come_up(self) -> None:
        """The runtime is there, on the same path as before, with its state intact."""
        self.runtime.up = True
        handlers = {method.value: handler for method, handler in self.handlers().items()}
        self._listener = await listening(self.socket, _SERVICE, handlers)

    async def restart(self) -> None:
        """Go down, and come up a little later."""
        await self.go_down()
        await asyncio.sleep(_OUTAGE_SECONDS)
        await self.come_up()

    def _whole(
        self, listed: _List, kind: type[_Request]
    ) -> Callable[[bytes, Context], Awaitable[bytes]]:
        async def call(request: bytes, _context: Context) -> bytes:
            asked = kind.FromString(request).filter
            return b"".join(listed(asked.state.state if asked.HasField("state") else None))

        return call

    def _streamed(self, listed: _List) -> Callable[[bytes, Context], Awaitable[None]]:
        async def call(_request: bytes, context: Context) -> None:
            size = self.runtime.options.stream_lists
            if not size:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
            messages = listed(None)
            for at in range(0, len(messages), size):
                await context.write(b"".join(messages[at : at + size]))

        return call

    async def _version(self, _request: bytes, _context: Context) -> bytes:
        name, _, version = self.runtime.options.runtime.value.partition("/")
        return cri.VersionResponse(
            version="0.1.0", runtime_name=name, runtime_version=version, runtime_api_version="v1"
        ).SerializeToString()

    def _sandboxes(self, state: int | None) -> list[bytes]:
        listed = (it for it in self.runtime.sandboxes.values() if state in {None, it.state})
        return [cri.ListPodSandboxResponse(items=[it]).SerializeToString() for it in listed]

    def _containers(self, state: int | None) -> list[bytes]:
        # The second list of a relist.
        self.runtime.relists += 1
        items = (record.item() for record in self.runtime.containers.values())
        listed = (each for each in items if state in {None, each.state})
        return [cri.ListContainersResponse(containers=[it]).SerializeToString() for it in listed]

    async def _container_status(self, request: bytes, context: Context) -> bytes:
        container_id = cri.ContainerStatusRequest.FromString(request).container_id
        record = self.runtime.containers.get(container_id)
        if record is None:
            why = f'an error occurred when try to find container "{container_id}": not found'
            await context.abort(grpc.StatusCode.NOT_FOUND, why)
        return cri.ContainerStatusResponse(status=record.status()).SerializeToString()

    async def _events(self, _request: bytes, context: Context) -> None:
        runtime = self.runtime
        if runtime.options.events is Events.UNIMPLEMENTED:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method GetContainerEvents")
        if runtime.options.events is Events.DISABLED:
            return
        if not runtime.up:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the runtime is down")
        subscriber = runtime.channel.subscribe()
        ending = None
        try:
            while not isinstance(message := await subscriber.next(), StreamEnding):
                await context.write(message.payload)
            ending = message
        finally:
            if ending is None:
                runtime.channel.leave(subscriber)
        if ending is StreamEnding.UNAVAILABLE:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "error reading from server: EOF")
