"""What a runtime may do to its announcements, and exactly what an observer must count.

Here: data, one `Script` for each way. Not here: acting it out (`test_exact`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from exporter.pleg.events import EventType
from exporter.pleg.findings import Verdict
from exporter.simulator.options import Options, Runtime
from tests.support.parts import raw_event
from tests.support.runtimes import QUIET
from tests.support.world import GRACE, World

CREATED, STARTED = EventType.CREATED, EventType.STARTED
STOPPED, DELETED = EventType.STOPPED, EventType.DELETED
DOUBLING: Final = Options(pods=0, churn=0, duplicate=1.0)
SWAPPING: Final = Options(pods=0, churn=0, reorder=1.0)
DELAYING: Final = Options(pods=0, churn=0, delay=0.3)
CRIO: Final = Options(pods=0, churn=0, runtime=Runtime.CRIO)
FOR_EVER: Final = 60.0
UNSEEN_LIFE: Final = MappingProxyType(
    {
        "unseen ContainerChanged container": 1,
        "unseen ContainerStarted container": 1,
        "unseen ContainerDied container": 1,
        "unseen ContainerRemoved container": 1,
    }
)

Action = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Script:
    """`act`, and what every counter of a verdict shows afterwards; those not named are 0."""

    act: Action
    counted: Mapping[str, int]
    options: Options = QUIET
    grace: float = GRACE


def unseen(*but: str) -> dict[str, int]:
    """A whole life that was announced and not seen, without these."""
    return {name: 1 for name in UNSEEN_LIFE if not any(each in name for each in but)}


def losing(what: EventType, then: Callable[[World], object]) -> Action:
    """Lose that announcement of what is done then."""

    async def act(world: World) -> None:
        world.drop(what)
        then(world)

    return act


async def loses_removal(world: World) -> None:
    """A container exits, and its removal is not announced."""
    world.runtime.exit(world.runs)
    await world.shown()
    world.drop(DELETED)
    world.runtime.remove(world.runs)


async def loses_pod_removal(world: World) -> None:
    """A pod stops, and its removal is not announced."""
    world.runtime.stop_pod(world.pod)
    await world.shown()
    for container in (world.runs, world.waits):
        world.runtime.remove(container)
    await world.shown()
    world.drop(DELETED)
    world.runtime.remove_pod(world.pod)


async def loses_nothing(world: World) -> None:
    """A life that relists see every step of."""
    container = world.create()
    await world.shown()
    world.runtime.start(container)
    await world.shown()
    world.runtime.exit(container)
    await world.shown()
    world.runtime.remove(container)


async def is_late_within_the_grace(world: World) -> None:
    """Proven first, announced a little later."""
    world.hold(STOPPED)
    world.runtime.exit(world.runs)
    await world.found(Verdict.WITNESSED)
    await world.shown()
    assert await world.observer.value("shadow_pleg_unresolved_events") == 1
    world.outbox.release()
    await world.found(Verdict.CONFIRMED)
    assert await world.observer.value("shadow_pleg_unresolved_events") == 0


async def is_late_beyond_the_grace(world: World) -> None:
    """Proven first, announced when it has been counted as missed."""
    world.hold(STOPPED)
    world.runtime.exit(world.runs)
    await world.found(Verdict.MISSED)
    world.outbox.release()
    await world.found(Verdict.LATE)


async def overtakes(world: World) -> None:
    """A STOPPED that comes after its DELETED, both in time."""
    world.hold(STOPPED)
    world.runtime.exit(world.runs)
    world.runtime.remove(world.runs)
    await world.found(Verdict.CONFIRMED)
    await world.shown()
    world.outbox.release()
    await world.found(Verdict.CONFIRMED, times=2)


async def lives_unseen(world: World) -> None:
    """Born and gone between two relists."""
    world.live()


async def lives_seen_and_swapped(world: World) -> None:
    """Pairs of announcements in the wrong order."""
    container = world.create()
    world.runtime.start(container)
    await world.shown()
    world.runtime.exit(container)
    world.runtime.remove(container)


async def lies(world: World) -> None:
    """A STOPPED of a container that the lists go on showing as running."""
    world.server.announce_raw(raw_event(world.runs, STOPPED, time.time_ns(), sandbox=world.pod))
    await world.found(Verdict.CONTRADICTED)


async def babbles(world: World) -> None:
    """What is no event, or names nothing."""
    world.server.announce_raw(b"\xff\xff")
    world.server.announce_raw(raw_event("", STOPPED))
    world.runtime.exit(world.runs)


async def removes_a_pod(world: World) -> None:
    """A pod is stopped, seen so, and removed with all that is in it."""
    world.runtime.stop_pod(world.pod)
    await world.shown()
    world.runtime.remove_pod(world.pod)


SCRIPTS: Final[Mapping[str, Script]] = {
    "nothing is lost": Script(loses_nothing, {}),
    "CREATED of a container": Script(
        losing(CREATED, lambda world: world.create()),
        {"missed ContainerChanged container silent": 1},
    ),
    "STARTED of a container": Script(
        losing(STARTED, lambda world: world.runtime.start(world.waits)),
        {"missed ContainerStarted container silent": 1},
    ),
    "STOPPED of a container": Script(
        losing(STOPPED, lambda world: world.runtime.exit(world.runs)),
        {"missed ContainerDied container silent": 1},
    ),
    "DELETED of a container": Script(
        loses_removal, {"missed ContainerRemoved container silent": 1}
    ),
    "CREATED of a sandbox": Script(
        losing(CREATED, lambda world: world.runtime.run_pod("new")),
        {"gap ContainerChanged sandbox": 1},
    ),
    "STARTED of a sandbox": Script(
        losing(STARTED, lambda world: world.runtime.run_pod("new")),
        {"missed ContainerStarted sandbox silent": 1, "unseen ContainerChanged sandbox": 1},
    ),
    "STOPPED of a sandbox": Script(
        losing(STOPPED, lambda world: world.runtime.kill_sandbox(world.pod)),
        {"missed ContainerDied sandbox silent": 1},
    ),
    "DELETED of a sandbox": Script(
        loses_pod_removal, {"missed ContainerRemoved sandbox silent": 1}
    ),
    "a delay within the grace": Script(is_late_within_the_grace, {}, grace=FOR_EVER),
    "a delay beyond the grace": Script(
        is_late_beyond_the_grace,
        {"missed ContainerDied container silent": 1, "late ContainerDied container": 1},
    ),
    "delays by chance": Script(loses_nothing, {}, DELAYING),
    "everything twice": Script(
        loses_nothing,
        {
            "duplicate ContainerChanged": 1,
            "duplicate ContainerStarted": 1,
            "duplicate ContainerDied": 1,
            "duplicate ContainerRemoved": 1,
        },
        DOUBLING,
    ),
    "one overtakes another": Script(overtakes, {}, grace=FOR_EVER),
    "pairs change places": Script(
        lives_seen_and_swapped, {"unseen ContainerChanged container": 1}, SWAPPING
    ),
    "a life too short to be seen": Script(lives_unseen, UNSEEN_LIFE),
    "CREATED of a short life": Script(
        losing(CREATED, World.live), {**unseen("Changed"), "gap ContainerChanged container": 1}
    ),
    "STARTED of a short life": Script(
        losing(STARTED, World.live), {**unseen("Started"), "gap ContainerStarted container": 1}
    ),
    "STOPPED of a short life": Script(
        losing(STOPPED, World.live), {**unseen("Died"), "gap ContainerDied container": 1}
    ),
    "DELETED of a short life": Script(
        losing(DELETED, World.live),
        {**unseen("Removed"), "missed ContainerRemoved container silent": 1},
    ),
    "an announcement that is not true": Script(lies, {"contradicted ContainerDied": 1}),
    "announcements that are none": Script(babbles, {}),
    "a pod removed on CRI-O": Script(
        removes_a_pod,
        {
            "missed ContainerRemoved container by_design": 2,
            "missed ContainerRemoved sandbox by_design": 1,
        },
        CRIO,
    ),
    "a pod removed on containerd": Script(removes_a_pod, {}),
}
