"""Between the socket and the ledger: a queue that drops and counts, and never presses back."""

import asyncio
import itertools
import time

import pytest

from exporter.cri.client import StreamEnd
from exporter.daemon import Daemon
from exporter.loops.intake import QUEUE_BYTES, Clocks
from exporter.model.events import EventType, Listed
from exporter.model.findings import Cause, Verdict
from exporter.pleg.trust import SETTLES
from simulator.service import Method
from testbed.waiting import until
from tests.support.cri_messages import raw_event
from tests.support.observer import parts, subscribe, tasks
from tests.support.runtimes import ScriptedServer, running_container, unannounced
from tests.support.virtual_time import work

pytestmark = pytest.mark.virtual_time

RARELY = 60.0
CREATED, STARTED = EventType.CREATED, EventType.STARTED
STOPPED, DELETED = EventType.STOPPED, EventType.DELETED


def offer(those: Daemon, *events: bytes, stream: int = 0) -> None:
    for event in events:
        assert those.intake.offer(event, stream) is None


async def test_what_fits_waits_and_what_does_not_is_dropped_and_counted() -> None:
    async with parts(event_queue_capacity=3) as those:
        offer(those, *(raw_event(f"c{number}", STARTED) for number in range(10)))
        assert those.intake.fill == (3, 3)
        assert (those.node.discards, those.node.discards_unreconciled) == (7, 7)
        those.intake.feed()
        assert those.intake.fill == (0, 3)
        assert those.node.received.total() == 3


async def test_a_queue_of_large_events_is_full_before_its_capacity() -> None:
    """Memory is bounded in bytes, too; what is taken out makes room again, and one always fits."""
    large, enormous = (raw_event("c" * size, STARTED) for size in (QUEUE_BYTES // 3, QUEUE_BYTES))
    async with parts(event_queue_capacity=1_000) as those:
        offer(those, *([large] * 5))
        assert (those.intake.fill[0], those.node.discards) == (2, 3)
        those.intake.feed()
        offer(those, large, large, large)
        assert (those.intake.fill[0], those.node.discards) == (2, 4)
        those.intake.feed()
        offer(those, enormous)
        assert (those.intake.fill[0], those.node.discards) == (1, 4)


async def test_the_task_feeds_the_ledger_and_lets_others_have_their_turn() -> None:
    async with parts(event_queue_capacity=5_000) as those:
        offer(those, *(raw_event(f"c{number}", STARTED) for number in range(5_000)))
        async with tasks(those.intake.run()):
            turns = 0
            async with asyncio.timeout(30):
                while those.intake.fill[0]:
                    await asyncio.sleep(0)
                    turns += 1
        assert those.node.received.total() == 5_000
        assert turns > 20


@pytest.mark.parametrize(
    ("count", "size", "waits"), [(4, 1, True), (5, 1, False), (1, QUEUE_BYTES // 2, False)]
)
async def test_events_wait_for_more_until_the_queue_is_half_full(
    count: int, size: int, *, waits: bool
) -> None:
    """A burst must not fill the queue during the wait."""
    async with parts(event_queue_capacity=8) as those, tasks(those.intake.run()):
        await asyncio.sleep(0)
        offer(those, *[raw_event("c" * size, STARTED)] * count)
        for _ in range(5):
            await asyncio.sleep(0)
        assert those.intake.fill[0] == (count if waits else 0)
        await until(lambda: not those.intake.fill[0], "the queue is empty")


async def test_what_comes_while_lists_are_decoded_came_before_the_relist(
    server: ScriptedServer,
) -> None:
    """Other tasks have their turns meanwhile; a millisecond is what each entry takes here."""
    async with parts(server.socket) as those:
        subscribe(those)
        await those.relisting._relist()
        with unannounced(server):
            ids = [each for number in range(100) for each in running_container(server, f"{number}")]
        decoded, some = list[str](), asyncio.Event()
        admit, turns = those.relisting._admit, list[int]()

        def admitted(item: Listed, size: int) -> None:
            work(0.001)
            decoded.append(item.id)
            some.set()
            admit(item, size)

        async def announce() -> None:
            await some.wait()
            offer(those, *(raw_event(each, STARTED) for each in ids))
            while True:
                turns.append(len(decoded))
                await asyncio.sleep(0)

        those.relisting._admit = admitted  # type: ignore[method-assign]
        async with tasks(announce()):
            await those.relisting._relist()
        assert len(decoded) == len(ids) > turns[0]
        assert max(after - before for before, after in itertools.pairwise(turns)) <= 64
        assert those.node.tally.total(Verdict.CONFIRMED) == len(ids)


async def test_settling_waits_for_silence_but_not_without_end() -> None:
    async with parts() as those:
        took = []
        for chatty in (True, False):
            began, settling = time.monotonic(), asyncio.create_task(those.intake.wait_until_quiet())
            async with asyncio.timeout(10):
                while not settling.done():
                    await asyncio.sleep(0)
                    if chatty:
                        offer(those, raw_event("c1", STARTED))
            took.append(time.monotonic() - began)
        assert took[0] > 5 * took[1]


async def test_a_miss_of_what_was_dropped_here_is_our_own_fault(server: ScriptedServer) -> None:
    with unannounced(server):
        _, container = running_container(server)
    async with parts(server.socket, event_queue_capacity=1) as those:
        node = those.node
        subscribe(those)
        async with tasks(those.relisting.run()):
            await until(lambda: node.relist_succeeded is not None, "the baseline")
            offer(those, raw_event("earlier", DELETED))
            await until(lambda: node.received.total() == 1, "it is known to be served")
            served = time.monotonic() + 2 * SETTLES
            await until(lambda: (node.relist_succeeded or 0) > served, "one that was watched")
            with unannounced(server):
                server.runtime.exit(container)
            offer(those, raw_event("other", DELETED), raw_event(container, STOPPED))
            assert (node.discards, node.discards_unreconciled) == (1, 1)
            await until(lambda: node.discards_unreconciled == 0, "the relist reconciles")
            await until(lambda: node.tally.total(Verdict.MISSED) == 1, "it is judged")
        assert node.tally.total(Verdict.MISSED, Cause.DISCARDED) == 1
        assert node.discards == 1


async def test_what_a_relist_cannot_make_up_for_waits_for_the_next(server: ScriptedServer) -> None:
    """One that failed, and one whose lists were asked for before the loss."""
    server.faults.refuse_next(1, Method.LIST_POD_SANDBOX)
    async with parts(server.socket, event_queue_capacity=1) as those:
        offer(those, raw_event("c1", STARTED), raw_event("c2", STARTED))
        async with tasks(those.relisting.run()):
            await until(lambda: those.node.relist_errors.total() == 1, "one failed")
            server.faults.hang(Method.LIST_POD_SANDBOX)
            assert those.node.discards_unreconciled == 1
            await until(lambda: server.faults.waiting == 1, "it is asked for")
            offer(those, raw_event("c3", STARTED))
            assert those.node.discards_unreconciled == 2
            server.faults.resume()
            await until(lambda: those.node.relist_succeeded is not None, "it succeeded")
            assert those.node.discards_unreconciled == 1
            await until(lambda: those.node.discards_unreconciled == 0, "the next succeeded")


async def test_a_queue_that_cannot_be_drained_ends_the_subscription() -> None:
    """Not at the first discard, nor for storms that it gets over; later it has a new chance."""
    async with parts(event_queue_capacity=1) as those:
        for _ in range(3):
            offer(those, raw_event("c1", STARTED), raw_event("c2", STARTED))
            await asyncio.sleep(3)
            those.intake.feed()
        assert those.node.discards == 3
        offer(those, *(raw_event(f"c{number}", STARTED) for number in range(3)))
        await asyncio.sleep(5.01)
        end = those.intake.offer(raw_event("c4", STARTED), 0)
        assert end == StreamEnd("overflow", "the queue could not be drained for 5 s")
        assert those.intake.offer(raw_event("c5", STARTED), 0) is None
        assert those.node.discards == 7


def test_a_clock_that_was_not_set_makes_no_step() -> None:
    clocks = Clocks()
    assert [clocks.look() for _ in range(100)] == [0.0] * 100


def test_a_step_is_noticed_once() -> None:
    clocks = Clocks()
    clocks.offset = 1000.0
    assert [clocks.see(at) for at in (1040.0, 1040.0, 1000.0, 1000.01)] == [40.0, 0.0, -40.0, 0.0]


def test_small_steps_count_once_they_add_up() -> None:
    """Each by itself is within the error of a reading."""
    clocks = Clocks()
    clocks.offset = 1000.0
    assert [clocks.see(1000.0 + n / 16) for n in range(4)] == [0.0, 0.0, 0.125, 0.0]


async def test_a_drowning_watch_lets_go_of_the_runtime_and_comes_back(
    server: ScriptedServer,
) -> None:
    async with parts(server.socket, event_queue_capacity=1, relist_period=RARELY) as those:
        node = those.node
        async with tasks(those.relisting.run(), those.streaming.run()), asyncio.timeout(30):
            await until(lambda: node.connections == 1, "it watches")
            while not node.stream.ends:
                server.runtime.run_pod(f"pod-{time.monotonic()}")
                await asyncio.sleep(0.01)
            assert node.stream.ends == {"overflow": 1}
            await until(lambda: node.connections == 2, "it is back")
