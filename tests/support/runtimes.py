"""Servers for tests, each on a socket of its own: scripted runtimes; and clients of them."""

import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from exporter.cri.client import CriClient
from exporter.pleg.trust import SETTLES
from exporter.settings.declaring import from_text
from simulator.churn import Churn
from simulator.options import DEMO_DEFAULTS, Events, Options, Runtime
from simulator.runtime import CgroupFiles
from tests.support.observer import Observer
from tests.support.scripted_runtime import ScriptedServer

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
