"""What happens while the stream is down: blamed on that, once, and forgotten by nobody."""

from __future__ import annotations

import pytest

from exporter.node.state import StreamState
from exporter.pleg.events import EventType
from exporter.pleg.findings import Verdict
from tests.support.observer import DEADLINE, observing
from tests.support.runtimes import running_container, simulated, unannounced
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time


async def test_a_death_during_an_outage_is_counted_once_and_blamed_on_it() -> None:
    """Seen before, dead after, announced never: `stream_down`, and later events as always."""
    async with simulated() as server:
        with unannounced(server):
            (_, dies), (_, lives) = (running_container(server, name) for name in ("web-0", "web-1"))
        async with observing(server.socket) as observer:
            await observer.connected()
            await server.go_down()
            await observer.reaches(StreamState.BACKOFF)
            server.runtime.exit(dies)
            await server.come_up()
            await observer.connected(times=2)
            await observer.judged()
            down = {"missed ContainerDied container stream_down": 1}
            assert await observer.losses() == down
            server.runtime.outbox.drop_next(lives, EventType.STOPPED)
            server.runtime.exit(lives)
            server.runtime.remove(dies)
            await observer.judged()
            silent = {"missed ContainerDied container silent": 1}
            assert await observer.losses() == down | silent
            assert observer.node.tally.total(Verdict.CONFIRMED) == 1


async def test_what_the_runtime_kept_until_we_were_back_is_no_loss() -> None:
    """Made between two streams and replayed to the second: backlog, and within the grace."""
    async with simulated() as server:
        with unannounced(server):
            _, container = running_container(server)
        async with observing(server.socket, missed_grace=DEADLINE) as observer:
            await observer.connected()
            server.disconnect()
            server.runtime.exit(container)
            await observer.found(Verdict.CONFIRMED)
            assert await observer.losses() == {"backlog ContainerDied": 1}


async def test_what_the_runtime_kept_before_we_first_came_is_backlog() -> None:
    """A replay is no news: neither unseen nor a gap, and its age is no delay."""
    async with simulated() as server:
        running_container(server)
        async with observing(server.socket) as observer:
            await observer.connected()
            await observer.judged()
            assert await observer.losses() == {
                "backlog ContainerChanged": 2,
                "backlog ContainerStarted": 2,
            }
            assert await observer.value("shadow_pleg_event_delivery_seconds_count") == 0


async def test_a_whole_life_during_an_outage_leaves_no_trace() -> None:
    """Nobody saw it: nothing is claimed about it."""
    async with simulated() as server, observing(server.socket) as observer:
        await observer.connected()
        await server.go_down()
        sandbox, _ = running_container(server)
        server.runtime.remove_pod(sandbox)
        await server.come_up()
        await observer.connected(times=2)
        await observer.judged()
        assert await observer.losses() == {}
        assert await observer.witnessed() == {}


async def test_a_pod_that_came_during_an_outage_is_blamed_on_it() -> None:
    """Its start is proven by the first relist after, and was never announced."""
    async with simulated() as server, observing(server.socket) as observer:
        await observer.connected()
        await server.go_down()
        running_container(server)
        await server.come_up()
        await observer.connected(times=2)
        await observer.judged()
        assert await observer.losses() == {
            "missed ContainerStarted container stream_down": 1,
            "missed ContainerStarted sandbox stream_down": 1,
        }


async def test_an_announcement_on_its_way_when_the_stream_breaks_is_blamed_on_that() -> None:
    """Proven while the stream was up, lost with it before the grace was over."""
    async with simulated() as server:
        with unannounced(server):
            _, container = running_container(server)
        async with observing(server.socket, missed_grace=2.0) as observer:
            await observer.connected()
            server.runtime.outbox.drop_next(container, EventType.STOPPED)
            server.runtime.exit(container)
            await until(lambda: observer.node.tally.total(Verdict.WITNESSED) == 1, "it was proven")
            server.disconnect()
            await observer.found(Verdict.MISSED)
            assert await observer.losses() == {"missed ContainerDied container stream_down": 1}
