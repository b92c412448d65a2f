"""The CRI methods, answered from the simulated world.

RuntimeService as generic gRPC handlers; also decides which lists make up a relist. A slow answer is
a stale one: lists are taken on request and sent after `list_latency`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import grpc
import grpc.aio

from exporter.cri import runtime_v1_pb2 as cri
from exporter.pleg.events import ListedState
from exporter.simulator import wire
from exporter.simulator.calls import CallFaults, Method
from exporter.simulator.channel import End, Subscriber
from exporter.simulator.options import Events
from exporter.simulator.runtime import SimulatedRuntime

_SERVICE: Final = "runtime.v1.RuntimeService"

_Context = grpc.aio.ServicerContext[bytes, bytes]
_Answer = Callable[[bytes], Awaitable[bytes]]


class NotFound(Exception):  # noqa: N818 -- gRPC's name
    """The requested container does not exist."""


class RuntimeService:
    """One runtime's methods. A relist is ListPodSandbox, then ListContainers, both answered."""

    def __init__(self, runtime: SimulatedRuntime, faults: CallFaults) -> None:
        self._runtime = runtime
        self._faults = faults
        self._half: tuple[int, dict[str, ListedState]] | None = None

    def handlers(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        """All methods, by name; requests and answers are bytes."""
        unary = {
            Method.VERSION: self._version,
            Method.LIST_POD_SANDBOX: self._list_pod_sandbox,
            Method.LIST_CONTAINERS: self._list_containers,
            Method.CONTAINER_STATUS: self._container_status,
        }
        handlers = {
            method.value: grpc.unary_unary_rpc_method_handler(self._unary(method, answer))
            for method, answer in unary.items()
        }
        streamed = {
            Method.STREAM_POD_SANDBOXES: (self._list_pod_sandbox, wire.split_sandboxes),
            Method.STREAM_CONTAINERS: (self._list_containers, wire.split_containers),
        }
        for method, (answer, split) in streamed.items():
            call = self._streamed(method, answer, split)
            handlers[method.value] = grpc.unary_stream_rpc_method_handler(call)
        events = grpc.unary_stream_rpc_method_handler(self._events)
        handlers[Method.GET_CONTAINER_EVENTS.value] = events
        return grpc.method_handlers_generic_handler(_SERVICE, handlers)

    def _unary(
        self, method: Method, answer: _Answer
    ) -> Callable[[bytes, _Context], Awaitable[bytes]]:
        async def call(request: bytes, context: _Context) -> bytes:
            await self._admit(method, context)
            instead = self._faults.reply(method)
            if instead is not None:
                return instead
            try:
                return await answer(request)
            except NotFound as missing:
                await context.abort(grpc.StatusCode.NOT_FOUND, str(missing))

        return call

    def _streamed(
        self, method: Method, answer: _Answer, split: Callable[[bytes, int], Iterator[bytes]]
    ) -> Callable[[bytes, _Context], Awaitable[None]]:
        async def call(request: bytes, context: _Context) -> None:
            size = self._runtime.options.stream_lists
            if not size:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method.value}")
            for message in split(await answer(request), size):
                await context.write(message)
                await self._admit(method, context)

        return call

    async def _admit(self, method: Method, context: _Context) -> None:
        refusal = await self._faults.refusal(method)
        if refusal is not None:
            await context.abort(refusal.code, refusal.details)

    async def _version(self, _request: bytes) -> bytes:
        manners = self._runtime.manners
        return cri.VersionResponse(
            version="0.1.0",
            runtime_name=manners.name,
            runtime_version=manners.version,
            runtime_api_version="v1",
        ).SerializeToString()

    async def _list_pod_sandbox(self, _request: bytes) -> bytes:
        requested_ns = self._runtime.wall_ns()
        self._half = None
        records = self._runtime.sandboxes()
        response = wire.sandbox_list(records)
        response.items.extend(self._faults.sandboxes)
        await asyncio.sleep(self._runtime.options.list_latency)
        self._half = requested_ns, {record.id: record.state for record in records}
        return response.SerializeToString()

    async def _list_containers(self, _request: bytes) -> bytes:
        half, self._half = self._half, None
        records = self._runtime.containers()
        response = wire.container_list(records)
        response.containers.extend(self._faults.containers)
        payload = response.SerializeToString()
        await asyncio.sleep(self._runtime.options.list_latency)
        if half is not None:
            requested_ns, states = half
            states |= {record.id: record.state for record in records}
            self._runtime.truth.shown(states, requested_ns)
        return payload

    async def _container_status(self, request: bytes) -> bytes:
        asked = cri.ContainerStatusRequest.FromString(request)
        record = self._runtime.container(asked.container_id)
        if record is None:
            raise NotFound(
                f'an error occurred when try to find container "{asked.container_id}": not found'
            )
        below = record.deleted_below and asked.verbose
        self._runtime.truth.answered(record, found=not below)
        if below:
            raise NotFound(f'container "{record.id}" in namespace "k8s.io": not found')
        return wire.container_status(record).SerializeToString()

    async def _events(self, _request: bytes, context: _Context) -> None:
        await self._admit(Method.GET_CONTAINER_EVENTS, context)
        runtime = self._runtime
        if runtime.options.events is Events.UNIMPLEMENTED:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method GetContainerEvents")
        if runtime.options.events is Events.DISABLED:
            return
        if not runtime.up:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the runtime is down")
        subscriber = runtime.channel.subscribe(runtime.wall_ns())
        try:
            await self._stream(subscriber, context)
        finally:
            if subscriber.end is None:
                runtime.channel.leave(subscriber)
        if subscriber.end is End.UNAVAILABLE:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "error reading from server: EOF")

    async def _stream(self, subscriber: Subscriber, context: _Context) -> None:
        runtime = self._runtime
        while (notice := await subscriber.next()) is not None:
            try:
                await context.write(wire.event(notice))
            except BaseException:
                runtime.truth.lost(notice)
                raise
            now_ns = runtime.wall_ns()
            runtime.truth.arrived(notice, subscriber.number, subscriber.began_ns, now_ns)
