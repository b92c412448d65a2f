"""Subscriptions that end by themselves and are renewed before: one watch without a gap."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from exporter.cri.client import CriClient, StreamEnd, Subscription
from exporter.cri.decode import Decoder
from exporter.loops.lease import Held, LeasedStream
from exporter.model.events import Announcement
from exporter.model.facts import Discarded, StreamUnproven
from exporter.model.findings import Verdict
from exporter.model.labels import StreamState
from exporter.pleg.ledger import Ledger
from exporter.runtimes.known import profile_of
from exporter.settings.config import EventStream
from simulator.churn import Churn
from simulator.options import Options
from simulator.service import Method
from testbed.waiting import until
from tests.support.observer import DEADLINE, observing
from tests.support.runtimes import introduction, simulated
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.virtual_time

LEASE = 1.0
# Twenty watches and their runtime are one process here, whose turns get long on a busy machine.
LEASE_OF_MANY = 2.0
WATCHES = 20
A_DAY = 86_400.0
RENEWALS = 6
BUSY = Options(pods=10, containers_per_pod=3, churn=20.0)
_CONTAINERD = profile_of("containerd", "2.1.9")


@dataclass(slots=True)
class Heard:
    """A sink: everything that came, and what a ledger made of it."""

    ledger: Ledger = field(default_factory=lambda: Ledger(_CONTAINERD, grace=5.0))
    events: list[Announcement] = field(default_factory=list)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    streams: set[int] = field(default_factory=set)

    def offer(self, raw: bytes, stream: int) -> None:
        """Take one event."""
        decoded = Decoder().event(raw, 0.0, 2**62, stream)
        assert decoded is not None
        event, _ = decoded
        self.events.append(event)
        self.streams.add(stream)
        self.verdicts.update(finding.verdict for finding in self.ledger.take(event).findings)

    @property
    def steps(self) -> set[tuple[str, str]]:
        """The announced steps of each container."""
        return {(event.container_id, event.type.name) for event in self.events}

    @property
    def announced(self) -> Counter[tuple[str, str, int]]:
        """What was announced, and how many copies came."""
        return Counter((e.container_id, e.type.name, e.created_at_ns) for e in self.events)


@dataclass(frozen=True, slots=True)
class Watch:
    """A leased stream that is held over a connection of its own."""

    heard: Heard
    stream: LeasedStream
    first: Held
    holding: asyncio.Task[StreamEnd]


@asynccontextmanager
async def held(socket: Path, lease: float) -> AsyncIterator[Watch]:
    """One leased watch, which may end before the block does."""
    heard, client = Heard(), CriClient(socket)
    stream = LeasedStream(client, heard.offer, lease, itertools.count())
    first = await stream.open()
    holding = asyncio.create_task(stream.hold(first))
    try:
        yield Watch(heard, stream, first, holding)
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await stream.close()
        await client.close()


@asynccontextmanager
async def watch(socket: Path, lease: float) -> AsyncIterator[Heard]:
    """What one leased watch hears; it must last until the block ends."""
    async with held(socket, lease) as one:
        yield one.heard
        assert not one.holding.done(), one.holding.result()


@asynccontextmanager
async def churning(server: ScriptedServer) -> AsyncIterator[None]:
    """Containers start and end on it, from its first relist on."""
    churn, client = Churn(server.runtime), CriClient(server.socket)
    churn.populate()
    await client.lists(DEADLINE)
    await client.close()
    running = asyncio.create_task(churn.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_hundred_renewals_under_churn_lose_and_double_nothing() -> None:
    """Twenty watches, all renewed: each hears all that one without a lease does, once."""
    async with simulated(BUSY) as server, contextlib.AsyncExitStack() as stack:
        channel = server.runtime.channel
        reference = await stack.enter_async_context(watch(server.socket, 0.0))
        leased = [watch(server.socket, LEASE_OF_MANY) for _ in range(WATCHES)]
        opening = map(stack.enter_async_context, leased)
        watches = await asyncio.gather(*opening)
        async with churning(server):
            renewed = WATCHES * (RENEWALS + 1) + 1
            await until(lambda: channel.subscriptions >= renewed, "renewals", seconds=DEADLINE)
        fence = server.runtime.run_pod("fence")
        await until(lambda: (fence, "STARTED") in reference.steps, "the last event is heard")
        announced = set(reference.announced)
        await until(
            lambda: all(set(one.announced) == announced for one in watches),
            "all hear the same",
            seconds=DEADLINE,
            every=0.2,
        )
        assert len(announced) > 100
        assert all(one.verdicts[Verdict.DUPLICATE] == 0 for one in watches)
        # Copies did come: it is not for want of an overlap that there are no duplicates.
        came = sum(len(one.events) for one in watches)
        # And they ended as soon as the next subscription had proven itself.
        assert WATCHES * len(announced) < came < 1.5 * WATCHES * len(announced)
        assert channel.subscribers <= 1 + 2 * WATCHES


@pytest.mark.parametrize("eventful", [True, False])
async def test_a_subscription_is_proven_by_an_event_and_not_by_an_answer(
    server: ScriptedServer, *, eventful: bool
) -> None:
    """Where the old one ends before the new one has brought an event, a gap is reported."""
    unproven: list[StreamUnproven | Discarded] = []
    client = CriClient(server.socket)
    stream = LeasedStream(client, Heard().offer, LEASE, itertools.count(), unproven.append)
    holding = asyncio.create_task(stream.hold(await stream.open()))
    for number in range(50):
        if eventful:
            server.runtime.run_pod(f"web-{number}")
        await asyncio.sleep(LEASE / 10)
    assert not holding.done()
    holding.cancel()
    await stream.close()
    await client.close()
    assert bool(unproven) is not eventful


async def test_the_subscriptions_of_a_watch_end_with_it(server: ScriptedServer) -> None:
    """Neither the current one nor the one before it outlives the watch."""
    channel = server.runtime.channel
    async with watch(server.socket, LEASE):
        await until(lambda: channel.subscriptions >= 5, "four renewals", seconds=DEADLINE)
        assert channel.subscribers <= 3
    await until(lambda: channel.subscribers == 0, "none is left", seconds=LEASE / 3)


async def test_renewals_are_one_connection() -> None:
    """What the metrics call a connection is the watch; nothing is lost or doubled in it."""
    async with simulated() as server, observing(server.socket, stream_lease=LEASE) as observer:
        await observer.connected()
        channel = server.runtime.channel
        sandbox = server.runtime.run_pod("web-0")
        before = channel.subscriptions
        async with asyncio.timeout(DEADLINE):
            for attempt in itertools.count():
                server.runtime.start(server.runtime.create(sandbox, "app", attempt))
                await observer.relisted()
                if channel.subscriptions >= before + 3:
                    break
        await observer.judged()
        assert await observer.value("shadow_pleg_stream_connections_total") == 1
        assert sum((await observer.samples("shadow_pleg_stream_disconnects_total")).values()) == 0
        assert {verdict.split()[0] for verdict in await observer.losses()} == {"unseen"}


async def test_a_renewal_that_fails_once_does_not_end_the_watch() -> None:
    """The old subscription still runs while the next attempt is made."""
    async with simulated() as server:
        channel, lease = server.runtime.channel, 6.0
        async with watch(server.socket, lease) as heard:
            server.faults.refuse_next(1, Method.VERSION, code=grpc.StatusCode.INTERNAL)
            await until(
                lambda: channel.subscriptions == 3, "failed, then renewed", seconds=DEADLINE
            )
            await until(lambda: channel.subscribers == 2, "the first has ended", seconds=DEADLINE)
            server.runtime.run_pod("web-0")
            await until(lambda: len(heard.announced) == 2, "the watch goes on")
            assert 0 not in heard.streams


async def test_a_watch_ends_when_no_renewal_succeeds(server: ScriptedServer) -> None:
    """It says that the lease ran out, and connects again."""
    async with observing(server.socket, stream_lease=LEASE) as observer:
        await observer.connected()
        server.faults.hang_after(server.faults.count(Method.VERSION), Method.VERSION)
        await observer.reaches(StreamState.BACKOFF)
        assert observer.node.disconnects == {"deadline_exceeded": 1}
        server.faults.resume()
        await observer.connected(times=2)


async def test_a_lease_that_ran_out_during_its_renewal_ends_the_watch(
    server: ScriptedServer,
) -> None:
    """The next subscription is there, but there was none for a moment: that is an end."""
    calls = server.faults
    async with held(server.socket, LEASE) as one:
        calls.hang_after(calls.count(Method.VERSION), Method.VERSION)
        await until(one.first.reader.done, "the lease has run out")
        calls.resume()
        assert (await one.holding).reason == "deadline_exceeded"
        assert one.stream.ended_at == pytest.approx(one.first.asked_at + LEASE)


async def test_leases_grow_while_nothing_happens_and_an_event_makes_them_short_again(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their own length after each 60 renewals, up to ten times."""
    asked: list[float | None] = []
    subscribe = CriClient.subscribe

    def noted(client: CriClient, number: int, lease: float | None) -> Subscription:
        asked.append(lease)
        return subscribe(client, number, lease)

    monkeypatch.setattr(CriClient, "subscribe", noted)
    async with watch(server.socket, LEASE) as heard:
        await until(lambda: len(asked) == 700, "699 quiet renewals", seconds=A_DAY, every=1)
        assert asked[:700] == [min(1.0 + number // 30, 10.0) for number in range(700)]
        server.runtime.run_pod("web-0")
        await until(lambda: len(asked) > 700, "the next renewal", seconds=DEADLINE, every=1)
        assert asked[700] == 1.0
        assert len(heard.announced) == 2


@pytest.mark.parametrize("lease", [0.0, 60.0])
async def test_a_watch_ends_as_its_stream_does(server: ScriptedServer, lease: float) -> None:
    """A lease hides no error."""
    async with held(server.socket, lease) as one:
        server.disconnect()
        assert (await one.holding).reason == "unavailable"


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
        assert observer.node.stream is StreamState.STREAMING
        assert observer.node.disconnects == {}
