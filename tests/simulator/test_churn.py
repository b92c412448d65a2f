"""A whole node: what it is populated with, and how it changes by itself."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.pleg.events import EventType, ListedState, ObjectKind
from simulator.cgroups import CgroupFiles
from simulator.churn import simulated_node
from simulator.options import Events, Options, Runtime
from testbed.waiting import until
from tests.support.cri_clients import PATIENT, client_of

pytestmark = pytest.mark.virtual_time

BUSY = Options(pods=8, containers_per_pod=4, churn=60)


async def test_a_node_is_populated_and_silent_about_it(folder: Path) -> None:
    """Its pods and containers are taken to have run for long: no start is announced, or lost."""
    options = Options(pods=3, containers_per_pod=2, churn=0)
    async with simulated_node(options, folder / "cri.sock") as server:
        runtime = server.runtime
        sandboxes, containers = runtime.sandboxes(), runtime.containers()
        subscriber = runtime.channel.subscribe(0)
        runtime.exit(containers[0].id)
        first = await subscriber.next()
        assert first is not None
        assert first.type is EventType.STOPPED
        assert not runtime.losses
    assert (len(sandboxes), len(containers)) == (3, 6)
    assert {one.state for one in containers} == {ListedState.RUNNING}
    assert {len(one.id) for one in sandboxes} | {len(one.id) for one in containers} == {64}
    assert len({one.uid for one in sandboxes}) == 3
    assert all(one.namespace and "-" in one.name for one in sandboxes)


async def test_nothing_changes_before_the_first_relist_and_the_first_stream(folder: Path) -> None:
    """Where there are no events, before the first relist."""
    path = folder / "cri.sock"
    for events in (Events.ON, Events.DISABLED):
        async with (
            simulated_node(replace(BUSY, events=events), path) as server,
            client_of(path) as client,
        ):
            before = server.runtime.containers()
            await asyncio.sleep(1)
            await client.lists(PATIENT)
            if events is Events.ON:
                await asyncio.sleep(1)
                assert server.runtime.containers() == before
                server.runtime.channel.subscribe(0)
            await until(lambda: server.runtime.containers() != before, "it changes", seconds=1)  # noqa: B023


async def test_the_same_seed_makes_the_same_node_at_any_speed(folder: Path) -> None:
    """Its containers and what ends next follow from the seed alone."""
    slow, fast = [await ended(replace(BUSY, churn=churn), folder) for churn in (50, 200)]
    assert slow == fast
    assert slow != await ended(replace(BUSY, seed=2), folder)


async def ended(options: Options, folder: Path) -> list[str]:
    """The first ten containers of a fresh node that exited, in order."""
    async with (
        simulated_node(options, folder / "cri.sock") as server,
        client_of(server.socket) as client,
    ):
        first = {one.id for one in server.runtime.containers()}
        subscriber = server.runtime.channel.subscribe(0)
        await client.lists(PATIENT)
        exited: list[str] = []
        while len(exited) < 10:
            notice = await subscriber.next()
            assert notice is not None
            if notice.type is EventType.STOPPED and notice.container_id in first:
                exited.append(notice.container_id)
        return exited


@pytest.mark.parametrize("runtime", Runtime)
async def test_pods_are_replaced_too(runtime: Runtime, folder: Path) -> None:
    """A new one first; the old one is removed once relists have shown that it stopped."""
    options = replace(BUSY, failed_starts=0.1, runtime=runtime)
    async with (
        simulated_node(options, folder / "cri.sock") as server,
        client_of(server.socket) as client,
    ):
        old = {one.id for one in server.runtime.sandboxes()}
        server.runtime.channel.subscribe(0)

        async def replaced() -> bool:
            await client.lists(PATIENT)
            return not old & {one.id for one in server.runtime.sandboxes()}

        await until(replaced, "each pod is another one", seconds=600, every=0.5)
        assert sum(one.ready for one in server.runtime.sandboxes()) >= options.pods


def populated(root: Path) -> set[str]:
    """The ids of all containers and sandboxes that have processes."""
    return {
        events.parent.name
        for events in root.glob("kubepods/burstable/pod*/*/cgroup.events")
        if events.read_text().startswith("populated 1")
    }


LYING = Options(pods=2, containers_per_pod=3, churn=1)


@pytest.mark.parametrize(
    ("lie", "ghosts", "strays"),
    [
        ({}, False, False),
        ({"ghosts": 1.0}, True, False),
        ({"strays": 1.0}, False, True),
        ({"exit_delay": 2.0}, True, False),
    ],
)
async def test_the_cgroups_tell_what_the_runtime_gets_wrong(
    lie: dict[str, float],
    ghosts: bool,  # noqa: FBT001 - a column of the table
    strays: bool,  # noqa: FBT001 - as above
    folder: Path,
    tmp_path: Path,
) -> None:
    """Ghosts are listed as running without a process; strays run without being listed."""
    options = replace(LYING, **lie)  # type: ignore[arg-type] # all of them are numbers
    async with (
        simulated_node(options, folder / "cri.sock", CgroupFiles(tmp_path)) as server,
        client_of(server.socket) as client,
    ):
        runtime, seen = server.runtime, {"ghosts": 0, "strays": 0}
        runtime.channel.subscribe(0)
        await client.lists(PATIENT)

        async def compared() -> bool:
            states = {one.id: one.state for one in runtime.containers()}
            states |= {one.id: ListedState.RUNNING for one in runtime.sandboxes() if one.ready}
            running = {one for one, state in states.items() if state is ListedState.RUNNING}
            shown = populated(tmp_path)
            seen["ghosts"] = max(seen["ghosts"], len(running - shown))
            seen["strays"] = max(seen["strays"], len(shown - set(states)))
            await client.lists(PATIENT)
            return runtime.relists > 60

        await until(compared, "a minute has passed", seconds=300, every=1.0)
        assert (bool(seen["ghosts"]), bool(seen["strays"])) == (ghosts, strays), seen


async def test_a_clean_up_comes_between_an_exit_and_what_is_said_of_it(folder: Path) -> None:
    """The status in the STOPPED keeps the time at which the process ended."""
    options = replace(LYING, exit_delay=2.0)
    async with (
        simulated_node(options, folder / "cri.sock") as server,
        client_of(server.socket) as client,
    ):
        subscriber = server.runtime.channel.subscribe(0)
        await client.lists(PATIENT)
        while (notice := await subscriber.next()) is not None:
            if (notice.type, notice.kind) == (EventType.STOPPED, ObjectKind.CONTAINER):
                break
        assert notice is not None
        message = pb.ContainerEventResponse.FromString(notice.payload)
        (own,) = (each for each in message.containers_statuses if each.id == notice.container_id)
        assert own.state == pb.CONTAINER_EXITED
        assert message.created_at - own.finished_at >= 2 * 10**9


async def test_schedules_disconnect_and_restart(folder: Path) -> None:
    """Every so many seconds."""
    options = Options(pods=0, churn=0, disconnect_every=3, restart_every=10)
    async with simulated_node(options, folder / "cri.sock") as server:
        channel, runtime = server.runtime.channel, server.runtime
        for _ in range(2):
            channel.subscribe(0)
            await until(lambda: not channel.subscribers, "it is disconnected", seconds=3.1)
        await until(lambda: not runtime.up, "it is down", seconds=10)
        await until(lambda: runtime.up, "it is back", seconds=3)
