"""Subscriptions that end by themselves and are renewed before: one watch without a gap."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from exporter.cri.client import CriClient, StreamEnd, Subscription
from exporter.loops.lease import ANSWER_TIMEOUT, Held, LeasedStream
from exporter.model.facts import Discarded, StreamUnproven
from exporter.model.labels import StreamState
from exporter.runtimes.permission import EventStream
from simulator.channel import Notice, StreamEnding, Subscriber
from simulator.service import Method
from testbed.messages import introduction
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing
from tests.support.runtimes import ScriptedServer, client_of
from tests.support.virtual_time import work

pytestmark = pytest.mark.virtual_time

LEASE = 1.0
A_DAY = 86_400.0


class Watch:
    """A leased stream over a connection of its own, and what it brings.

    `told`: the number of the subscription and the event, and what is reported, in order.
    """

    def __init__(self, client: CriClient, lease: float) -> None:
        self.told: list[tuple[int, bytes] | StreamUnproven | Discarded] = []
        self.stream = LeasedStream(client, self._offer, lease, itertools.count(), self.told.append)
        self.first: Held
        self.holding: asyncio.Task[StreamEnd]

    def _offer(self, raw: bytes, stream: int) -> None:
        self.told.append((stream, raw))

    @property
    def events(self) -> list[tuple[int, bytes]]:
        return [each for each in self.told if isinstance(each, tuple)]

    @property
    def unproven(self) -> int:
        """How often the old subscription was over before the new one was known to be served."""
        return len(self.told) - len(self.events)


@asynccontextmanager
async def held(socket: Path, lease: float, *, ends: bool = False) -> AsyncIterator[Watch]:
    async with client_of(socket) as client:
        one = Watch(client, lease)
        one.first = await one.stream.open()
        one.holding = asyncio.create_task(one.stream.hold(one.first))
        try:
            yield one
            assert one.holding.done() is ends
        finally:
            one.holding.cancel()
            await asyncio.gather(one.holding, return_exceptions=True)
            await one.stream.close()


@pytest.mark.parametrize("eventful", [True, False])
async def test_a_subscription_is_proven_by_an_event_and_not_by_an_answer(
    server: ScriptedServer, *, eventful: bool
) -> None:
    """Where the old one ends before the new one has brought an event, a gap is reported."""
    async with held(server.socket, LEASE) as one:
        for number in range(50):
            if eventful:
                server.runtime.run_pod(f"web-{number}")
            await asyncio.sleep(LEASE / 10)
    assert bool(one.unproven) is not eventful


class Late:
    """A subscription's messages wait for the gate, like thousands that gRPC still has."""

    def __init__(self, subscriber: Subscriber) -> None:
        self.gate = asyncio.Semaphore(0)
        self._next, subscriber.next = subscriber.next, self.next

    async def next(self) -> Notice | StreamEnding:
        await self.gate.acquire()
        return await self._next()

    def catch_up(self) -> None:
        for _ in range(100):
            self.gate.release()


Lagging = tuple[Watch, Late, list[bytes]]


@asynccontextmanager
async def lagging(server: ScriptedServer, lease: float = 60.0) -> AsyncIterator[Lagging]:
    """A subscription that has brought one of two events; all that was sent."""
    channel, sent = server.runtime.channel, list[bytes]()
    channel.on_sent = lambda notice: sent.append(notice.payload)
    async with held(server.socket, lease) as one:
        old = Late(channel._subscribers[-1])
        server.runtime.run_pod("web-0")
        yield one, old, sent


async def renewal(server: ScriptedServer, lease: float = 60.0) -> None:
    channel = server.runtime.channel
    await until(lambda: channel.subscriptions == 2, "a renewal", seconds=lease)


@asynccontextmanager
async def renewed(server: ScriptedServer, lease: float = 60.0) -> AsyncIterator[Lagging]:
    """It has been renewed, and the new subscription has brought an event, which has to wait."""
    async with lagging(server, lease) as (one, old, sent):
        await renewal(server, lease)
        server.runtime.run_pod("web-1")
        await asyncio.sleep(0.1)
        assert one.told == [(0, sent[0])]
        yield one, old, sent


async def test_events_of_a_new_subscription_wait_for_older_ones(server: ScriptedServer) -> None:
    """Else what the old one still brings looks lost: a younger event has come."""
    async with renewed(server) as (one, old, sent):
        for _ in range(2):
            await asyncio.sleep(8)
            server.runtime.run_pod("web-2")
            old.gate.release()
        await until(lambda: len(one.told) == len(sent), "all came")
        old.gate.release()
        await asyncio.sleep(0.1)
        assert one.told == [*((0, raw) for raw in sent[:3]), *((1, raw) for raw in sent[3:])]


@pytest.mark.parametrize(("lease", "seconds"), [(8.0, 4.0), (60.0, 10.0)], ids=["ends", "silent"])
async def test_a_new_subscription_does_not_wait_for_one_that_brings_nothing_more(
    server: ScriptedServer, lease: float, seconds: float
) -> None:
    """What only the old one had may be lost: that is reported before younger events are."""
    async with renewed(server, lease) as (one, old, sent):
        await asyncio.sleep(seconds - 0.5)
        assert one.told == [(0, sent[0])]
        await asyncio.sleep(0.5)
        (_, unproven, *rest), events = one.told, [(1, raw) for raw in sent[2:]]
        assert isinstance(unproven, StreamUnproven)
        assert rest == events
        old.gate.release()
        server.runtime.run_pod("web-2")
        await until(lambda: len(one.events) == len(sent) - 1, "all new ones came")
        assert 0 not in dict(one.events[1:])


@pytest.mark.parametrize("ahead", [True, False])
async def test_an_event_shows_as_well_as_an_answer_that_a_subscription_is_there(
    server: ScriptedServer, *, ahead: bool
) -> None:
    """Of old and new one, either may bring it first."""
    calls = server.faults
    async with lagging(server) as (one, old, sent):
        calls.hang_after(calls.count(Method.VERSION), Method.VERSION)
        await renewal(server)
        if not ahead:
            old.catch_up()
        server.runtime.run_pod("web-1")
        await asyncio.sleep(0.1)
        old.catch_up()
        await asyncio.sleep(3 * ANSWER_TIMEOUT)
        server.runtime.run_pod("web-2")
        await until(lambda: sent[-1] in {raw for _, raw in one.events}, "all came")
        assert [number for number, raw in one.events if raw in sent[4:]] == [1, 1]
    assert not one.unproven


async def test_what_waits_when_the_watch_ends_is_not_taken(server: ScriptedServer) -> None:
    async with renewed(server) as (one, _, sent):
        pass
    assert one.told == [(0, sent[0])]


async def test_a_subscription_without_answer_and_event_is_not_waited_for(
    server: ScriptedServer,
) -> None:
    channel = server.runtime.channel
    async with held(server.socket, 60.0) as one:
        server.faults.refuse_next(1, Method.VERSION, code=grpc.StatusCode.INTERNAL)
        await until(lambda: channel.subscriptions == 3, "failed, then renewed", seconds=60)
        server.runtime.run_pod("web-0")
        await asyncio.sleep(15)
        server.runtime.run_pod("web-1")
        await until(lambda: len(one.events) == 4, "all came")
        assert {number for number, _ in one.events} <= {0, 2}
    assert not one.unproven


async def test_the_subscriptions_of_a_watch_end_with_it(server: ScriptedServer) -> None:
    channel = server.runtime.channel
    async with held(server.socket, LEASE):
        await until(lambda: channel.subscriptions >= 5, "four renewals", seconds=DEADLINE)
        assert channel.subscribers <= 3
    await until(lambda: channel.subscribers == 0, "none is left", seconds=LEASE / 3)


async def test_a_renewal_that_fails_once_does_not_end_the_watch(server: ScriptedServer) -> None:
    channel, lease = server.runtime.channel, 6.0
    async with held(server.socket, lease) as one:
        server.faults.refuse_next(1, Method.VERSION, code=grpc.StatusCode.INTERNAL)
        await until(lambda: channel.subscriptions == 3, "failed, then renewed", seconds=DEADLINE)
        await until(lambda: channel.subscribers == 2, "the first has ended", seconds=DEADLINE)
        server.runtime.run_pod("web-0")
        await until(lambda: len(one.events) == 2, "the watch goes on")
        assert 0 not in dict(one.events)


async def test_a_watch_ends_when_no_renewal_succeeds(server: ScriptedServer) -> None:
    async with observing(server.socket, stream_lease=LEASE) as observer:
        await observer.connected()
        server.faults.hang_after(server.faults.count(Method.VERSION), Method.VERSION)
        await observer.reaches(StreamState.BACKOFF)
        assert observer.node.stream.ends == {"deadline_exceeded": 1}
        server.faults.resume()
        await observer.connected(times=2)


async def test_a_lease_that_ran_out_during_its_renewal_ends_the_watch(
    server: ScriptedServer,
) -> None:
    """The next subscription is there, but there was none for a moment: that is an end."""
    calls = server.faults
    async with held(server.socket, LEASE, ends=True) as one:
        calls.hang_after(calls.count(Method.VERSION), Method.VERSION)
        await until(one.first.reader.done, "the lease has run out")
        calls.resume()
        assert (await one.holding).reason == "deadline_exceeded"
        assert one.stream.ended_at == pytest.approx(one.first.asked_at + LEASE)


async def test_a_process_that_slept_through_its_lease_renews_nothing(
    server: ScriptedServer,
) -> None:
    """Events of another subscription would be taken for those of a watch that has ended."""
    async with held(server.socket, LEASE, ends=True) as one:
        await asyncio.sleep(0)
        work(2 * LEASE)
        assert (await one.holding).reason == "deadline_exceeded"
        assert server.runtime.channel.subscriptions == 1


@pytest.mark.parametrize("lease", [150.0, 600.0, 700.0])
async def test_leases_grow_while_nothing_happens_and_an_event_makes_them_short_again(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, lease: float
) -> None:
    """By their own length after each 30 renewals, up to ten minutes; longer ones never."""
    asked: list[float | None] = []
    subscribe = CriClient.subscribe

    def noted(client: CriClient, number: int, lease: float | None) -> Subscription:
        asked.append(lease)
        return subscribe(client, number, lease)

    monkeypatch.setattr(CriClient, "subscribe", noted)
    async with held(server.socket, lease) as one:
        await until(lambda: len(asked) == 200, "199 quiet renewals", seconds=A_DAY, every=10)
        grown = [lease * (1 + number // 30) for number in range(200)]
        assert asked[:200] == [min(each, max(lease, 600)) for each in grown]
        server.runtime.run_pod("web-0")
        await until(lambda: len(asked) > 200, "the next renewal", seconds=A_DAY, every=10)
        assert asked[200] == lease
        assert len(one.events) == 2


@pytest.mark.parametrize("runtime", [("cri-o", "1.30.4"), ("containerd", "1.7.24"), None])
async def test_a_runtime_that_suffers_from_clients_that_leave_is_not_leased(
    server: ScriptedServer, runtime: tuple[str, str] | None
) -> None:
    """CRI-O 1.28 to 1.32 can crash, containerd 1.7 loses an event; all others are leased."""
    if runtime:
        server.faults.reply_next(Method.VERSION, introduction(*runtime))
    wish = {"event_stream": EventStream.ALWAYS, "stream_lease": LEASE}
    async with observing(server.socket, **wish) as observer:
        await observer.reaches(StreamState.STREAMING)
        await asyncio.sleep(5 * LEASE)
        assert (server.runtime.channel.subscriptions == 1) is (runtime is not None)
        assert observer.node.stream.state is StreamState.STREAMING
        assert observer.node.stream.ends == {}
