"""Turns, allowances and connections: how many peers share what one process has."""

import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncIterator

import pytest

from exporter.errors import BusyError
from exporter.web.access.limits import Allowance, Turns, WebLimits
from tests.support.virtual_time import work

pytestmark = pytest.mark.quick

_WORK_SECONDS = 0.1
STRANGERS = [f"10.0.0.{number}" for number in range(12)]


async def insist(turns: Turns, peer: str, served: list[str]) -> None:
    """Take one turn after the other, and try again when there is no room."""
    while True:
        try:
            async with turns.turn(peer):
                served.append(peer)
                work(_WORK_SECONDS)
        except BusyError:
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def crowded(turns: Turns) -> AsyncIterator[list[str]]:
    """Every stranger insists, twice at a time; gives who was served."""
    served: list[str] = []
    tasks = [asyncio.create_task(insist(turns, peer, served)) for peer in STRANGERS * 2]
    try:
        await asyncio.sleep(20)
        yield served
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.virtual_time
async def test_who_comes_seldom_is_next_however_many_wait() -> None:
    """It waits for the current turn and its rest; who comes often is refused instead."""
    turns = Turns(of=0.2, each=2, total=16)
    async with crowded(turns) as served:
        for _ in range(3):
            before, began = len(served), time.monotonic()
            async with turns.turn("scraper"):
                assert len(served) - before <= 1
                assert time.monotonic() - began <= 2 * _WORK_SECONDS / 0.2
            await asyncio.sleep(15)


@pytest.mark.virtual_time
async def test_peers_that_insist_are_served_alike_and_within_the_share() -> None:
    """Nobody is left out, and after the first round all together take a fifth of the time."""
    async with crowded(Turns(of=0.2, each=2, total=16)) as served:
        later = (len(served) - len(STRANGERS)) * _WORK_SECONDS
        assert later == pytest.approx(0.2 * 20, rel=0.1)
        counts = [served.count(peer) for peer in STRANGERS]
        assert max(counts) - min(counts) <= 1


@pytest.mark.virtual_time
async def test_a_turn_may_say_what_it_cost() -> None:
    """A thread of low priority waits for a CPU; that is no cost."""
    turns, began = Turns(of=0.2, each=2, total=2), time.monotonic()
    for _ in range(2):
        async with turns.turn("a") as turn:
            work(2.0)
            turn.seconds = 0.1
    async with turns.turn("a"):
        assert time.monotonic() - began == pytest.approx(2 * 2.0 + 0.4, abs=0.01)


@pytest.mark.virtual_time
async def test_peers_that_nobody_knows_are_served_without_rests() -> None:
    """After a restart a scraper may be the last of thirty; invented addresses are not endless."""
    turns, began = Turns(of=0.2, each=2, total=32), time.monotonic()

    async def once(peer: str) -> None:
        async with turns.turn(peer):
            work(_WORK_SECONDS)

    await asyncio.gather(*(once(f"10.0.0.{number}") for number in range(30)))
    assert time.monotonic() - began == pytest.approx(30 * _WORK_SECONDS, abs=0.01)
    for number in range(200):
        await once(f"10.0.1.{number}")
    assert time.monotonic() - began > 150 * _WORK_SECONDS / 0.2


@pytest.mark.virtual_time
@pytest.mark.parametrize("when", ["early", "just before", "just after"])
async def test_who_leaves_while_waiting_holds_nobody_up(when: str) -> None:
    """Some time before it is called, or in the same turn of the loop."""
    turns, served = Turns(of=1.0, each=2, total=8), list[str]()
    loop = asyncio.get_running_loop()

    async def once(peer: str) -> None:
        async with turns.turn(peer):
            served.append(peer)

    async with turns.turn("a"):
        leaving, staying = (asyncio.create_task(once(peer)) for peer in "bc")
        await asyncio.sleep(1)
        if when == "early":
            leaving.cancel()
            await asyncio.sleep(1)
        elif when == "just before":
            loop.call_later(0, leaving.cancel)
    if when == "just after":
        loop.call_later(0, leaving.cancel)
    await asyncio.wait([leaving, staying], timeout=10)
    assert staying.done()
    assert served == ["c"]


@pytest.mark.virtual_time
async def test_a_peer_has_its_share_of_the_room() -> None:
    """One too many is refused at once."""
    turns = Turns(of=0.5, each=2, total=8)
    async with turns.turn("a"):
        waiting = [asyncio.create_task(insist(turns, "a", [])) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            async with turns.turn("a"):
                pass
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.virtual_time
async def test_many_peers_together_may_ask_twice_as_much_as_one() -> None:
    """A peer that asks seldom is let in meanwhile."""
    allowance, seconds = Allowance(rate=200.0, burst=500.0), 30
    admitted = refused = 0
    for number in range(100 * seconds):
        for peer in STRANGERS:
            if allowance.take(peer):
                admitted += 1
        if number % 500 == 0:
            refused += not allowance.take("scraper")
        await asyncio.sleep(0.01)
    # 1,200 a second were asked for, each peer less than it may alone.
    assert admitted <= 2 * 500 + seconds * 2 * 200 + len(STRANGERS) * (20 + seconds)
    assert admitted >= seconds * 2 * 200
    assert not refused


@pytest.mark.parametrize(
    ("descriptors", "connections"), [(64, 12), (256, 108), (1024, 128), (8, 2)]
)
def test_connections_leave_descriptors_for_the_watch(descriptors: int, connections: int) -> None:
    """Two addresses take all but forty of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
        assert WebLimits().connections == connections
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
