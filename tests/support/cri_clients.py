"""Clients of runtimes, closed at the end, and what their streams carry."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.client import CriClient, Subscription
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError
from exporter.model.events import EventType, ListedState
from simulator.churn import Churn
from simulator.options import Options
from testbed.waiting import until
from tests.support.runtimes import QUIET, simulated
from tests.support.scripted_runtime import ScriptedServer

SOON = 0.2
PATIENT = 10.0
# One byte more than a client takes.
TOO_LARGE = b"\0" * (32 * 1024 * 1024 + 1)
# Of no container: one that no list shows would seem to be removed without an announcement.
_FENCE = cri.ContainerEventResponse(
    created_at=1, pod_sandbox_status=cri.PodSandboxStatus(id="fence")
).SerializeToString()


@asynccontextmanager
async def client_of(socket: Path) -> AsyncIterator[CriClient]:
    """A client of that socket, closed at the end."""
    client = CriClient(socket)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def connected(
    options: Options = QUIET,
) -> AsyncIterator[tuple[ScriptedServer, CriClient]]:
    """A simulated runtime, with all its pods, and a client of it."""
    async with simulated(options) as server, client_of(server.socket) as client:
        Churn(server.runtime).populate()
        yield server, client


async def states_of(server: ScriptedServer) -> dict[str, ListedState]:
    """The state of each sandbox and container, as a relist shows it."""
    async with client_of(server.socket) as client:
        lists = await client.lists(PATIENT)
    items = ListDecoder().items(lists.sandboxes, lists.containers)
    return {item.id: item.state for item in items}


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """One event, and whether its sandbox was READY (None: no status came with it)."""

    id: str
    type: EventType
    ready: bool | None


class Stream:
    """A subscription whose events are read one after the other."""

    def __init__(self, server: ScriptedServer, subscription: Subscription) -> None:
        self._server = server
        self._subscription = subscription

    async def read(self, count: int = 1) -> list[ReceivedEvent]:
        """The next events."""
        raws: list[bytes] = []

        def take(raw: bytes) -> bool:
            raws.append(raw)
            return len(raws) == count or raw == _FENCE

        async with asyncio.timeout(PATIENT):
            await self._subscription.read(take)
        return [_received(raw) for raw in raws if raw != _FENCE]

    async def rest(self) -> list[ReceivedEvent]:
        """All events up to now that were not read yet."""
        self._server.announce_raw(_FENCE)
        return await self.read(-1)

    async def end(self) -> str:
        """How the stream ends, whatever comes before."""
        try:
            async with asyncio.timeout(PATIENT):
                await self._subscription.read(lambda _: False)
        except CriError as error:
            return error.reason
        return "eof"


def _received(raw: bytes) -> ReceivedEvent:
    event = cri.ContainerEventResponse.FromString(raw)
    ready = None
    if event.HasField("pod_sandbox_status"):
        ready = event.pod_sandbox_status.state == cri.SANDBOX_READY
    return ReceivedEvent(event.container_id, EventType(event.container_event_type), ready)


@asynccontextmanager
async def subscribed(server: ScriptedServer, lease: float | None = None) -> AsyncIterator[Stream]:
    """A stream that the server knows of."""
    channel = server.runtime.channel
    before = channel.subscriptions
    async with client_of(server.socket) as client:
        stream = Stream(server, client.subscribe(7, lease))
        await until(lambda: channel.subscriptions > before, "the stream is open")
        yield stream
