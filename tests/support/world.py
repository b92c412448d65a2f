"""A runtime, its observer and a pod that both have known for long: the stage of a script.

Here: `World`, in which a script acts, and what a script may do that takes more
than one line. Not here: the scripts, and what they should come to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from exporter.pleg.events import EventType
from exporter.pleg.findings import Verdict
from exporter.simulator.options import Options
from tests.support.observer import Observer, observing
from tests.support.runtimes import running_container, simulated, unannounced
from tests.support.scripted_runtime import ScriptedOutbox, ScriptedRuntime, ScriptedServer

# Many worlds turn in one loop: slower than one alone, and more patient.
PERIOD: Final = 0.2
GRACE: Final = 1.0


@dataclass(frozen=True, slots=True)
class World:
    """`pod` is READY, `runs` RUNNING and `waits` CREATED in it; all are in the baseline."""

    server: ScriptedServer
    observer: Observer
    pod: str
    runs: str
    waits: str

    @property
    def runtime(self) -> ScriptedRuntime:
        """The runtime, to act on."""
        return self.server.runtime

    @property
    def outbox(self) -> ScriptedOutbox:
        """The announcements, to lose or to keep back."""
        return self.server.runtime.outbox

    def drop(self, what: EventType, container: str | None = None) -> None:
        """Lose the next announcement of that type."""
        self.outbox.drop_next(container, what)

    def hold(self, what: EventType) -> None:
        """Keep the next announcement of that type back."""
        self.outbox.hold_next(None, what)

    async def shown(self) -> None:
        """Let a relist see how it is now."""
        await self.observer.relisted()

    async def found(self, verdict: Verdict, times: int = 1) -> None:
        """Let it be found so many times."""
        await self.observer.found(verdict, times)

    def create(self) -> str:
        """One more container in the pod."""
        return self.runtime.create(self.pod, "job")

    def live(self) -> None:
        """A whole life of a container, between two relists."""
        container = self.create()
        self.runtime.start(container)
        self.runtime.exit(container)
        self.runtime.remove(container)


@asynccontextmanager
async def world(options: Options, grace: float) -> AsyncIterator[World]:
    """A world in which nothing has happened yet."""
    async with simulated(options) as server:
        with unannounced(server):
            pod, runs = running_container(server)
            waits = server.runtime.create(pod, "waits")
        async with observing(server.socket, missed_grace=grace, relist_period=PERIOD) as observer:
            await observer.connected()
            yield World(server, observer, pod, runs, waits)
