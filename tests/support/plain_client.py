"""A plain CRI client for a simulated runtime, and its life in a test.

Here: calls as a kubelet makes them, and waiting for a condition with a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from exporter.cri import runtime_v1_pb2 as cri
from exporter.simulator.options import Options
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.server import SimulatedServer, serve

SERVICE = "/runtime.v1.RuntimeService/"
DEADLINE = 5.0
# An event type that no runtime sends: what comes before it is all there is.
FENCE = cri.ContainerEventResponse(container_id="fence").SerializeToString()


@dataclass(frozen=True, slots=True)
class Heard:
    """One event, and whether its sandbox was READY (None: no status came with it)."""

    id: str
    type: str
    ready: bool | None


class Stream:
    """One subscription."""

    def __init__(self, call: Any) -> None:  # noqa: ANN401 -- grpc.aio's call types are not public
        self.call = call

    async def read(self) -> Heard | None:
        """The next event; None at a clean end. AioRpcError at any other."""
        raw = await asyncio.wait_for(self.call.read(), DEADLINE)
        return heard(raw) if isinstance(raw, bytes) else None

    async def until(self, fence: str) -> list[Heard]:
        """All events before the one with that id."""
        events = []
        while (event := await self.read()) is not None and event.id != fence:
            events.append(event)
        return events

    async def end(self) -> grpc.StatusCode:
        """The status with which it ends, whatever comes before."""
        code: grpc.StatusCode = await asyncio.wait_for(self.call.code(), DEADLINE)
        return code


def heard(raw: bytes) -> Heard:
    """An event from its bytes."""
    event = cri.ContainerEventResponse.FromString(raw)
    ready = None
    if event.HasField("pod_sandbox_status"):
        ready = event.pod_sandbox_status.state == cri.SANDBOX_READY
    kind = word(cri.ContainerEventType, event.container_event_type)
    return Heard(event.container_id, kind, ready)


def word(enum: Any, number: int) -> str:  # noqa: ANN401 -- an EnumTypeWrapper
    """An enum's value in short: CONTAINER_STARTED_EVENT is STARTED."""
    if number not in enum.values():
        return str(number)
    name: str = enum.Name(number)
    return name.removeprefix("CONTAINER_").removeprefix("SANDBOX_").removesuffix("_EVENT")


class Client:
    """Calls over one connection."""

    def __init__(self, socket: Path) -> None:
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
        )
        self._channel: Any = grpc.aio.insecure_channel(f"unix:{socket}", options=options)

    async def call(self, method: str, request: bytes = b"", deadline: float = DEADLINE) -> bytes:
        """Any unary method."""
        answer: bytes = await self._channel.unary_unary(SERVICE + method)(request, timeout=deadline)
        return answer

    async def version(self) -> cri.VersionResponse:
        """Return the runtime's name, version and API version."""
        return cri.VersionResponse.FromString(await self.call("Version"))

    async def sandboxes(self) -> dict[str, str]:
        """Ids and states of ListPodSandbox."""
        raw = await self.call("ListPodSandbox")
        items = cri.ListPodSandboxResponse.FromString(raw).items
        return {one.id: word(cri.PodSandboxState, one.state) for one in items}

    async def containers(self) -> dict[str, str]:
        """Ids and states of ListContainers."""
        raw = await self.call("ListContainers")
        items = cri.ListContainersResponse.FromString(raw).containers
        return {one.id: word(cri.ContainerState, one.state) for one in items}

    async def relist(self) -> dict[str, str]:
        """Both lists, in the order that makes a relist."""
        return await self.sandboxes() | await self.containers()

    async def status(self, container_id: str, *, verbose: bool = False) -> cri.ContainerStatus:
        """ContainerStatus of one container."""
        request = cri.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        raw = await self.call("ContainerStatus", request.SerializeToString())
        return cri.ContainerStatusResponse.FromString(raw).status

    def events(self, deadline: float | None = None) -> Stream:
        """A new subscription; the server may not know of it yet."""
        method = self._channel.unary_stream(SERVICE + "GetContainerEvents")
        return Stream(method(b"", timeout=deadline))

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


@contextlib.asynccontextmanager
async def connected(server: SimulatedServer) -> AsyncIterator[Client]:
    """A client of that server."""
    client = Client(server.socket)
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def subscribed(server: SimulatedServer) -> AsyncIterator[Stream]:
    """A connection with a stream that the server knows of."""
    before = server.runtime.channel.subscriptions
    async with connected(server) as client:
        stream = client.events()
        await eventually(lambda: server.runtime.channel.subscriptions > before)
        yield stream


@contextlib.contextmanager
def socket_path() -> Any:  # noqa: ANN401 -- an iterator, to contextlib
    """A path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="sp") as folder:
        yield Path(folder) / "cri.sock"


@contextlib.asynccontextmanager
async def serving(options: Options | None = None) -> AsyncIterator[SimulatedServer]:
    """A simulated runtime without churn on a socket of its own."""
    runtime = SimulatedRuntime(options or Options(churn=0))
    with socket_path() as socket:
        async with serve(runtime, socket) as server:
            yield server


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds; TimeoutError when it never does."""
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110 -- the world wakes nobody
            await asyncio.sleep(0.01)
