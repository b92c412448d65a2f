"""Whatever the runtime does to its announcements is counted: exactly, and as the oracle does."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from exporter.account import NodeState
from exporter.model.events import EventType
from exporter.model.findings import Verdict
from exporter.runtimes.known import profile_of
from simulator.churn import simulated_node
from simulator.options import Options, Runtime
from testbed.waiting import until
from tests.support.facts import outcomes
from tests.support.observer import DEADLINE, Observer, daemon_on, observing, raw_event, settings
from tests.support.oracle import Oracle
from tests.support.runtimes import QUIET, Bystander, running_container, simulated, unannounced
from tests.support.scripted_runtime import ScriptedOutbox, ScriptedRuntime, ScriptedServer
from tests.support.tape import Tape

pytestmark = pytest.mark.virtual_time

CREATED, STOPPED, DELETED = EventType.CREATED, EventType.STOPPED, EventType.DELETED
PERIOD: Final = 0.2
GRACE: Final = 1.0
ENDLESS: Final = 60.0


@dataclass(frozen=True, slots=True)
class World:
    """`pod` is READY, `runs` RUNNING and `waits` CREATED in it; all are in the baseline."""

    server: ScriptedServer
    observer: Observer
    pod: str
    runs: str
    waits: str
    beside: Bystander
    grace: float

    @property
    def runtime(self) -> ScriptedRuntime:
        """The runtime, to act on."""
        return self.server.runtime

    @property
    def outbox(self) -> ScriptedOutbox:
        """The announcements, to drop or to hold."""
        return self.server.runtime.outbox

    def create(self) -> str:
        """One more container in the pod."""
        return self.runtime.create(self.pod, "job")


@asynccontextmanager
async def world(options: Options, grace: float) -> AsyncIterator[World]:
    """A runtime, its observer, and a pod that both have known for long."""
    async with simulated(options) as server:
        with unannounced(server):
            pod, runs = running_container(server)
            waits = server.runtime.create(pod, "waits")
        beside = Bystander(server)
        async with observing(server.socket, missed_grace=grace, relist_period=PERIOD) as observer:
            await observer.connected()
            await beside.acts(observer)
            yield World(server, observer, pod, runs, waits, beside, grace)


Action = Callable[[World], Awaitable[None]]


def dropping(what: EventType, act: Callable[[World], object]) -> Action:
    """Act, and drop the first announcement of that type."""

    async def dropped(world: World) -> None:
        world.outbox.drop_next(None, what)
        act(world)

    return dropped


@dataclass(frozen=True, slots=True)
class Script:
    """`act`, and what every counter of a verdict shows afterwards; those not named are 0."""

    act: Action
    counted: Mapping[str, int]
    options: Options = QUIET
    grace: float = GRACE


async def lives_slowly(world: World) -> None:
    """Relists show every step of a container."""
    container = world.create()
    await world.observer.relisted()
    world.runtime.start(container)
    await world.observer.relisted()
    world.runtime.exit(container)
    await world.observer.relisted()
    world.runtime.remove(container)


async def is_late(world: World) -> None:
    """Proven first, announced a little later, or when it has been counted as missed."""
    observer, unresolved = world.observer, "shadow_pleg_unresolved_events"
    world.outbox.hold_next(None, STOPPED)
    world.runtime.exit(world.runs)
    if world.grace < ENDLESS:
        await world.beside.judged(observer)
        await observer.found(Verdict.MISSED)
    else:
        await observer.found(Verdict.WITNESSED, times=2)
        await observer.relisted()
        assert await observer.value(unresolved) == 1
    world.outbox.release()
    await observer.found(*((Verdict.LATE, 1) if world.grace < ENDLESS else (Verdict.CONFIRMED, 2)))
    assert await observer.value(unresolved) == 0


async def sends_garbage(world: World) -> None:
    """Bytes that are no event, and an event that names nothing."""
    world.server.announce_raw(b"\xff\xff")
    world.server.announce_raw(raw_event("", STOPPED))
    world.runtime.exit(world.runs)


async def removes_a_pod(world: World) -> None:
    """A pod is stopped, listed so, and removed with its containers."""
    world.runtime.stop_pod(world.pod)
    await world.observer.relisted()
    world.runtime.remove_pod(world.pod)


SCRIPTS: Final[Mapping[str, Script]] = {
    "nothing is lost": Script(lives_slowly, {}),
    "a lost STOPPED": Script(
        dropping(STOPPED, lambda world: world.runtime.exit(world.runs)),
        {"missed ContainerDied container silent": 1},
    ),
    "a lost CREATED of a sandbox": Script(
        dropping(CREATED, lambda world: world.runtime.run_pod("new")),
        {"gap ContainerChanged sandbox": 1},
    ),
    "a delay within the grace": Script(is_late, {}, grace=ENDLESS),
    "a delay beyond the grace": Script(
        is_late,
        {"missed ContainerDied container silent": 1, "late ContainerDied container silent": 1},
    ),
    "announcements that are none": Script(sends_garbage, {}),
    "a pod removed on CRI-O": Script(
        removes_a_pod,
        {
            "missed ContainerRemoved container by_design": 2,
            "missed ContainerRemoved sandbox by_design": 1,
        },
        replace(QUIET, runtime=Runtime.CRIO),
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_what_happens_to_announcements_is_what_is_counted(name: str) -> None:
    """Each counter exactly, and every other one at 0."""
    script = SCRIPTS[name]
    async with world(script.options, script.grace) as stage:
        await script.act(stage)
        if script.grace < DEADLINE:
            stage.outbox.calm()
            await stage.beside.judged(stage.observer)
        assert await stage.observer.losses() == script.counted


async def test_one_lost_exit_on_a_quiet_node_is_known_within_a_minute() -> None:
    """Nothing else happens there, at the default period and grace: the stream delivered nothing."""
    async with simulated() as server:
        with unannounced(server):
            _, container = running_container(server)
        config = settings(server.socket, relist_period=10.0, missed_grace=5.0)
        async with daemon_on(config) as daemon:
            await until(lambda: daemon.node.relist_succeeded is not None, "the baseline")
            await asyncio.sleep(300)
            server.runtime.outbox.drop_next(container, STOPPED)
            server.runtime.exit(container)
            lost = time.monotonic()

            def told() -> bool:
                return daemon.judge.at(time.monotonic()).state is NodeState.STREAM_SILENT

            await until(told, "the verdict", seconds=DEADLINE + ENDLESS)
            assert time.monotonic() - lost < 60


CHURNING_SECONDS = 10.0


@pytest.mark.parametrize("runtime", [Runtime.CONTAINERD_2, Runtime.CRIO])
async def test_the_daemon_finds_what_the_oracle_finds_in_its_facts(
    runtime: Runtime, folder: Path
) -> None:
    """Losses, copies, delays, failed starts, broken streams and restarts."""
    options = Options(
        pods=12,
        containers_per_pod=3,
        churn=15.0,
        drop=0.05,
        duplicate=0.05,
        delay=0.2,
        failed_starts=0.05,
        disconnect_every=3.0,
        restart_every=7.0,
        runtime=runtime,
    )
    tape = Tape()
    async with (
        simulated_node(options, folder / "cri.sock") as server,
        observing(server.socket, tape, relist_period=0.3, missed_grace=GRACE) as observer,
    ):
        await asyncio.sleep(CHURNING_SECONDS)
        assert observer.node.connections > 3
        tally = observer.node.tally
    oracle = Oracle(profile_of(*runtime.value.split("/")), GRACE)
    expected = Counter(outcome for fact in tape.facts for outcome in oracle.take(fact))
    found = outcomes(tape.findings)
    assert (found - expected, expected - found) == (Counter(), Counter())
    for verdict in Verdict:
        assert tally.total(verdict) == sum(f.verdict is verdict for f in tape.findings)
    assert tally.total(Verdict.MISSED) > 10
    assert tally.total(Verdict.CONFIRMED) > 200
