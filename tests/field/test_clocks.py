"""Clocks that are set, and times that are not what they seem."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import EventType, ListedState, Pod, Status
from exporter.model.facts import BeliefsShown, Believed
from exporter.model.findings import Verdict
from tests.support.cri_messages import NOW_NS, SECOND_NS, event, heard
from tests.support.facts import EXITED, RUNNING, Play, beat, relist, up
from tests.support.observer import Observer, observing
from tests.support.runtimes import ScriptedServer, running_container
from tests.support.virtual_time import set_clock

HOURS = 7200.0
LOSSES = (Verdict.MISSED, Verdict.GAP)
ACCUSATIONS = (*LOSSES, Verdict.FLAWED, Verdict.SLOW, Verdict.CONTRADICTED)
STEPS = "shadow_pleg_clock_steps_total"


@asynccontextmanager
async def watched(server: ScriptedServer) -> AsyncIterator[Observer]:
    """By default periods, and so that the stream is known to be served."""
    async with observing(server.socket, relist_period=10.0, missed_grace=5.0) as observer:
        await observer.connected()
        running_container(server, "other")
        await observer.settled()
        yield observer


async def lively(server: ScriptedServer, seconds: int) -> None:
    for _ in range(seconds // 5):
        await asyncio.sleep(5)
        live(server)


async def blames_nobody(observer: Observer, steps: int) -> None:
    """It saw the clock set so many times, and no event was malformed or slow by that."""
    await observer.judged()
    assert observer.tallied(*ACCUSATIONS) == {}
    seen, name = await observer.metrics(), "shadow_pleg_event_delivery_seconds"
    assert seen.value(STEPS) == steps
    assert seen.value("shadow_pleg_malformed_messages_total") == 0
    assert seen.value(f"{name}_count") == seen.value(f"{name}_bucket", le="1.0")


def live(server: ScriptedServer) -> None:
    sandbox, container = running_container(server, f"short-{time.monotonic()}")
    server.runtime.exit(container)
    server.runtime.remove(container)
    server.runtime.stop_pod(sandbox)
    server.runtime.remove_pod(sandbox)


@pytest.mark.virtual_time
async def test_a_clock_that_was_ahead_at_the_start_hides_no_loss(server: ScriptedServer) -> None:
    """https://github.com/kubernetes/kubernetes/issues/135762

    Soon after boot NTP set the clock back by what it was ahead. All that happened until it had
    passed its former time looked as if it were from before the first list.
    """
    set_clock(HOURS)
    async with watched(server) as observer:
        set_clock(-HOURS)
        await lively(server, 60)
        first, second = (running_container(server, name)[1] for name in ("web-0", "web-1"))
        for container, what in (
            (first, EventType.STOPPED),
            (second, EventType.STOPPED),
            (second, EventType.DELETED),
        ):
            server.runtime.outbox.drop_next(container, what)
        for container in (first, second):
            server.runtime.exit(container)
            server.runtime.remove(container)
        # For ten minutes what is missing may have been made before the clock was set.
        await lively(server, 60)
        assert observer.tallied(*LOSSES) == {"gap ContainerDied container": 1}
        await lively(server, 570)
        assert observer.tallied(Verdict.MISSED) == {
            "missed ContainerDied container silent": 1,
            "missed ContainerRemoved container silent": 1,
        }
        assert await observer.value(STEPS) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("step", [-HOURS, -360.0, -40.0, -1.5, 1.5, 40.0, HOURS])
async def test_a_step_of_the_clock_blames_no_runtime(server: ScriptedServer, step: float) -> None:
    """https://github.com/kubernetes/kubernetes/issues/134153

    The clock was set back by 40 s: each container that lived then has ended before it started.
    """
    async with watched(server) as observer:
        lives = [running_container(server, f"web-{n}")[1] for n in range(20)]
        await observer.relisted()
        set_clock(step)
        for container in lives:
            server.runtime.exit(container)
            server.runtime.remove(container)
        await observer.settled()
        live(server)
        await blames_nobody(observer, steps=1)


@pytest.mark.virtual_time
async def test_a_clock_that_is_set_each_second_blames_no_runtime(server: ScriptedServer) -> None:
    """https://github.com/kubernetes/kubernetes/issues/134153

    `date -s` in a loop, ten minutes ahead each time; no event comes from the future of the runtime,
    and none is malformed.
    """
    async with watched(server) as observer:
        for _ in range(20):
            set_clock(600.0)
            for _ in range(5):
                live(server)
                await asyncio.sleep(0.2)
        set_clock(-20 * 600.0)
        live(server)
        await blames_nobody(observer, steps=21)


@pytest.mark.virtual_time
async def test_a_machine_that_slept_owes_nothing_for_the_night(server: ScriptedServer) -> None:
    """https://github.com/kubernetes/kubernetes/issues/48447

    The monotonic clock stands still while a machine sleeps, so waking up sets the wall clock.
    """
    async with watched(server) as observer:
        _, container = running_container(server)
        await observer.settled()
        set_clock(8 * 3600.0)
        server.runtime.exit(container)
        await observer.settled()
        live(server)
        await blames_nobody(observer, steps=1)


@pytest.mark.quick
def test_an_exit_code_that_was_made_up_is_the_kubelets_to_tell() -> None:
    """https://github.com/cri-o/cri-o/issues/9840

    Init containers of less than 10 ms end with 255, although they succeeded: their times are equal,
    which is no flaw; what the kubelet shows disagrees.
    """
    status = pb.ContainerStatus(
        id="c1",
        state=pb.CONTAINER_EXITED,
        started_at=NOW_NS - SECOND_NS,
        finished_at=NOW_NS - SECOND_NS,
        exit_code=255,
        reason="Error",
    )
    raw = event(container_event_type=pb.CONTAINER_STOPPED_EVENT, containers_statuses=[status])
    announced, flaws = heard(raw)
    assert announced is not None
    assert announced.flawed is None
    assert not flaws
    play = Play(up(), beat(0.5), relist(1, c1=RUNNING))
    play.then(announced._replace(received=12.5), relist(20, c1=EXITED))
    shown = Status("c1", ListedState.EXITED, "app", 0, "Completed")
    told = Believed(22, Pod("shop", "cart", "u1"), (shown,), ())
    play.then(BeliefsShown(21), told, replace(told, at=22.5, changed=(), asked=True))
    assert play.judged == ["c1 ContainerDied confirmed", "c1 ContainerDied disagrees"]
