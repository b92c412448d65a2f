"""The CRI methods, answered from the simulated world."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

import grpc
import grpc.aio

from exporter.cri import runtime_v1_pb2 as cri
from simulator.channel import StreamEnding
from simulator.options import Events
from simulator.runtime import SimulatedRuntime

SERVICE: Final = "runtime.v1.RuntimeService"

Context = grpc.aio.ServicerContext[bytes, bytes]
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


class RuntimeService:
    """One runtime's methods."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self.runtime = runtime

    def handlers(self) -> dict[Method, grpc.RpcMethodHandler[bytes, bytes]]:
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
        items = (record.item() for record in self.runtime.sandboxes.values())
        return [
            cri.ListPodSandboxResponse(items=[item]).SerializeToString()
            for item in items
            if state is None or item.state == state
        ]

    def _containers(self, state: int | None) -> list[bytes]:
        # The second list of a relist.
        self.runtime.relists += 1
        items = (record.item() for record in self.runtime.containers.values())
        return [
            cri.ListContainersResponse(containers=[item]).SerializeToString()
            for item in items
            if state is None or item.state == state
        ]

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
        subscriber = runtime.channel.subscribe(time.time_ns())
        try:
            while (notice := await subscriber.next()) is not None:
                await context.write(notice.payload)
        finally:
            if subscriber.ending is None:
                runtime.channel.leave(subscriber)
        if subscriber.ending is StreamEnding.UNAVAILABLE:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "error reading from server: EOF")
