"""A whole node that lives and loses, and an observer that counts it over the socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from exporter.pleg.events import ListedState
from exporter.simulator.churn import Churn
from exporter.simulator.node import Node, run
from exporter.simulator.options import Events, Options, Runtime
from exporter.simulator.runtime import SimulatedRuntime
from tests.support.plain_client import connected, eventually, socket_path, subscribed
from tests.support.plain_observer import GRACE, Observer

pytestmark = pytest.mark.virtual_time

BUSY = Options(pods=8, containers_per_pod=4, churn=60, drop=0.15, failed_starts=0.1)
PROVEN = ("missed", "by_design")
# Longer than any outage here: what a runtime keeps meanwhile is to come in time.
PATIENT = 0.6
FAULTY = replace(BUSY, duplicate=0.05, reorder=0.1, delay=0.02)


@contextlib.asynccontextmanager
async def living(options: Options) -> AsyncIterator[Node]:
    """A node on a socket of its own."""
    with socket_path() as path:
        async with run(options, path) as node:
            yield node


@contextlib.asynccontextmanager
async def observing(node: Node, grace: float = GRACE) -> AsyncIterator[Observer]:
    """An observer of that node."""
    observer = Observer(node, grace)
    task = asyncio.create_task(observer.run())
    try:
        yield observer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def lost(node: Node) -> int:
    """How many announcements an observer could miss by now."""
    return sum(row.missed + row.gaps for row in node.summary().rows)


@pytest.mark.parametrize("runtime", Runtime)
async def test_what_was_injected_is_what_is_counted(runtime: Runtime) -> None:
    """Exactly, once the node is quiet: missed, by design, gaps, unseen and duplicates."""
    async with living(replace(FAULTY, runtime=runtime)) as node, observing(node) as observer:
        await eventually(lambda: lost(node) > 20)
        await node.quiesce()
        with contextlib.suppress(TimeoutError):
            await eventually(lambda: not observer.disagreements())
        assert observer.disagreements() == []


@pytest.mark.parametrize("runtime", Runtime)
async def test_restarts_and_disconnects_agree_too(runtime: Runtime) -> None:
    """What the outages cost is counted, whoever is to blame.

    Gaps are left out: whether an announcement made in the instant in which a
    stream begins is news or backlog depends on whose clock is asked.
    """
    options = replace(BUSY, runtime=runtime, delay=0.0, disconnect_every=0.2)
    async with living(options) as node, observing(node, PATIENT) as observer:
        await eventually(lambda: lost(node) > 10)
        await node.server.restart(outage=0.1)
        await eventually(lambda: lost(node) > 20)
        await node.quiesce()
        with contextlib.suppress(TimeoutError):
            await eventually(lambda: not observer.disagreements(*PROVEN))
        assert observer.disagreements(*PROVEN) == []


async def test_a_node_is_populated_and_silent_about_it() -> None:
    """Pods and containers run as if for long: nothing of their start is announced."""
    options = Options(pods=3, containers_per_pod=2, churn=0)
    async with living(options) as node, connected(node.server) as client:
        states = await client.relist()
        records = node.server.runtime.sandboxes()
        assert sorted(states.values()) == ["READY"] * 3 + ["RUNNING"] * 6
        assert all(len(object_id) == 64 for object_id in states)
        assert len({record.uid for record in records}) == 3
        assert all(record.namespace and "-" in record.name for record in records)
        assert lost(node) == 0


async def test_lives_begin_once_somebody_watches() -> None:
    """Not before the first relist and the first stream."""
    options = replace(BUSY, events=Events.DISABLED)
    async with living(options) as node:
        before = {one.id for one in node.server.runtime.containers()}
        async with connected(node.server) as client:
            assert {one.id for one in node.server.runtime.containers()} == before
            await client.relist()
            await eventually(lambda: {c.id for c in node.server.runtime.containers()} != before)


def test_the_same_seed_makes_the_same_node() -> None:
    """Names and ids; another seed makes another one."""
    one, same, other = (populated(seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def populated(seed: int) -> list[tuple[str, str]]:
    """Ids and names of all sandboxes of a fresh node."""
    runtime = SimulatedRuntime(Options(seed=seed))
    Churn(runtime).populate()
    assert {one.state for one in runtime.containers()} == {ListedState.RUNNING}
    return [(one.id, one.name) for one in runtime.sandboxes()]


async def test_the_same_seed_makes_the_same_deaths_at_any_speed() -> None:
    """Who dies follows from the seed alone."""
    slow, fast = [await deaths(replace(BUSY, drop=0, churn=churn)) for churn in (50, 200)]
    assert slow == fast


async def deaths(options: Options) -> list[str]:
    """The first ten containers of a fresh node that died, in order."""
    async with living(options) as node, subscribed(node.server) as stream:
        first = {one.id for one in node.server.runtime.containers()}
        died: list[str] = []
        async with connected(node.server) as client:
            await client.relist()
        while len(died) < 10:
            event = await stream.read()
            if event is not None and event.type == "STOPPED" and event.id in first:
                died.append(event.id)
    return died


async def test_schedules_restart_and_disconnect() -> None:
    """Every so many seconds, until the node is to be quiet."""
    options = replace(BUSY, churn=0, disconnect_every=0.05)
    async with living(options) as node, observing(node):
        await eventually(lambda: node.server.runtime.channel.subscriptions >= 3)
        await node.quiesce()
