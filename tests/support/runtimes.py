"""Servers for tests, each on a socket of its own: scripted runtimes.

And clients of them, closed at the end, and what their streams carry.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.client import CriClient, Subscription
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError
from exporter.model.events import ListedState
from exporter.pleg.watch import SETTLES
from exporter.settings.declaring import from_text
from simulator.cgroups import CgroupFiles
from simulator.churn import Churn
from simulator.options import DEMO_DEFAULTS, Events, Options, Runtime
from testbed.waiting import until
from tests.support.observer import Observer
from tests.support.scripted_runtime import ScriptedServer

NOBODY: Final = 65534
QUIET: Final = Options(pods=0, churn=0)
CRIO: Final = replace(QUIET, runtime=Runtime.CRIO)
EXCLUSIVE: Final = replace(QUIET, runtime=Runtime.CONTAINERD_1)
DISABLED: Final = replace(CRIO, events=Events.DISABLED)
UNIMPLEMENTED: Final = replace(QUIET, events=Events.UNIMPLEMENTED)
# What `demo` runs without flags.
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
    """A pod beside the story, in the baseline: all that happens in it is announced and listed.

    So it is known how far the stream has come: what is missing before is lost.
    """

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
async def connected(options: Options = QUIET) -> AsyncIterator[tuple[ScriptedServer, CriClient]]:
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


class Stream:
    """A subscription whose events are read one after the other."""

    def __init__(self, server: ScriptedServer, subscription: Subscription) -> None:
        self._server = server
        self._subscription = subscription

    async def read(self, count: int = 1) -> list[cri.ContainerEventResponse]:
        """The next events."""
        raws: list[bytes] = []

        def take(raw: bytes) -> bool:
            raws.append(raw)
            return len(raws) == count or raw == _FENCE

        async with asyncio.timeout(PATIENT):
            await self._subscription.read(take)
        return [cri.ContainerEventResponse.FromString(raw) for raw in raws if raw != _FENCE]

    async def rest(self) -> list[cri.ContainerEventResponse]:
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


@asynccontextmanager
async def subscribed(server: ScriptedServer, lease: float | None = None) -> AsyncIterator[Stream]:
    """A stream that the server knows of."""
    channel = server.runtime.channel
    before = channel.subscriptions
    async with client_of(server.socket) as client:
        stream = Stream(server, client.subscribe(7, lease))
        await until(lambda: channel.subscriptions > before, "the stream is open")
        yield stream
