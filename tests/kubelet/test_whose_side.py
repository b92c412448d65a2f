"""On whose side events were lost: a proxy on either side, between a runtime and who listens."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web

from exporter.kubelet.comparison import Comparing, Comparison, KubeletCause
from exporter.pleg.events import EventType
from exporter.pleg.findings import Cause
from simulator.options import Options, Runtime
from testbed.waiting import until
from tests.support.kubelet_server import kubelet
from tests.support.observer import Observer, observing
from tests.support.one_side import MOST_ERRORS, PlayedKubelet, Proxy, playing_kubelet, proxy
from tests.support.runtimes import simulated
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.virtual_time

GRACE = 2.5
PERIOD = 4.0
# More than a reading and what each side may be late, so that each reading is a quiet one.
QUIET_SECONDS = 2 * PERIOD + 4 * GRACE
SILENT, DOWN, GAVE_UP = KubeletCause
MISSED = "shadow_pleg_kubelet_missed_events_total"


@dataclass
class Stage:
    """A runtime, the proxies in front of it, and both that listen there."""

    runtime: ScriptedServer
    theirs: Proxy
    ours: Proxy
    kubelet: PlayedKubelet
    observer: Observer
    sandbox: str

    @property
    def compared(self) -> Comparison:
        """What was found."""
        assert self.observer.node.comparison is not None
        return self.observer.node.comparison

    @property
    def runtimes(self) -> int:
        """How many events the exporter did not get, by its own lists."""
        return self.observer.node.tally.lost(Cause.SILENT, Cause.STALLED, Cause.STREAM_DOWN)

    async def live(self, lives: int = 1) -> None:
        """Containers that are made, run and exit, with a list in between: three events each."""
        simulator = self.runtime.runtime
        for _ in range(lives):
            container = simulator.create(self.sandbox, "app")
            await self.observer.relisted()
            simulator.start(container)
            await self.observer.relisted()
            simulator.exit(container)
            await self.observer.relisted()

    async def quiet(self) -> None:
        """Let readings pass in which nothing happens."""
        await asyncio.sleep(QUIET_SECONDS)

    async def settled(self) -> None:
        """Whatever happened is followed by an event that both get, and by readings."""
        await self.quiet()
        await self.live()
        await self.quiet()
        await self.live()
        await self.quiet()


@asynccontextmanager
async def staged(runtime: Runtime = Runtime.CONTAINERD_2) -> AsyncIterator[Stage]:
    """Everything is up, and has agreed once."""
    options = Options(pods=0, churn=0, runtime=runtime)
    async with (
        simulated(options) as server,
        proxy(server.socket) as theirs,
        proxy(server.socket) as ours,
        playing_kubelet(theirs.socket) as played,
        kubelet() as fake,
    ):

        async def page(_request: web.Request) -> web.Response:
            return web.Response(text=played.page.text())

        fake.answer = page
        sandbox = server.runtime.run_pod("web-0", "shop")
        async with observing(
            ours.socket,
            missed_grace=GRACE,
            relist_period=0.5,
            kubelet_metrics_url=fake.url,
            kubelet_metrics_period=PERIOD,
        ) as observer:
            await observer.connected()
            stage = Stage(server, theirs, ours, played, observer, sandbox)
            await stage.quiet()
            yield stage


def of_runtime(number: int) -> Callable[[Stage], None]:
    """The runtime drops STOPPED of its next containers."""

    def lose(stage: Stage) -> None:
        for _ in range(number):
            stage.runtime.runtime.outbox.drop_next(None, EventType.STOPPED)

    return lose


def of_kubelet(number: int) -> Callable[[Stage], None]:
    """The kubelet's connection loses the next events."""

    def lose(stage: Stage) -> None:
        stage.theirs.drop = number

    return lose


def of_exporter(number: int) -> Callable[[Stage], None]:
    """The exporter's connection loses the next events."""

    def lose(stage: Stage) -> None:
        stage.ours.drop = number

    return lose


@pytest.mark.parametrize(
    ("losses", "runtime", "kubelets", "exporters"),
    [
        ([], 0, 0, 0),
        ([of_kubelet(4)], 0, 4, 0),
        ([of_runtime(2)], 2, 0, 0),
        ([of_exporter(3)], 0, 0, 3),
        ([of_kubelet(2), of_runtime(3)], 3, 2, 0),
        ([of_kubelet(5), of_exporter(1)], 0, 5, 1),
        ([of_runtime(1), of_exporter(2), of_kubelet(7)], 1, 7, 2),
    ],
    ids=["none", "kubelet", "runtime", "exporter", "both", "each", "all"],
)
async def test_each_loss_is_counted_on_the_side_that_lost_it(
    losses: list[Callable[[Stage], None]], runtime: int, kubelets: int, exporters: int
) -> None:
    """Exactly, if quiet readings lie between losses of different sides."""
    async with staged() as stage:
        for lose in losses:
            lose(stage)
            await stage.live(3)
            await stage.settled()
        await stage.observer.judged()
        compared = stage.compared
        assert dict(compared.missed) == ({SILENT: kubelets} if kubelets else {})
        assert compared.only == exporters
        assert stage.runtimes - compared.only == runtime
        assert compared.undecided == 0
        assert compared.state is Comparing.COMPARING
        exported = await stage.observer.samples(MISSED)
        assert exported == {
            (cause.value,): kubelets if cause is SILENT else 0 for cause in KubeletCause
        }


async def test_losses_on_both_sides_at_once_cannot_be_told_from_the_runtimes() -> None:
    """Nobody is accused of them, and the page says what is not known."""
    async with staged() as stage:
        stage.ours.drop = stage.theirs.drop = 1
        await stage.live()
        # Neither got the first event; of the next two, each gets one.
        stage.ours.drop, stage.theirs.drop = 1, 0
        simulator = stage.runtime.runtime
        container = simulator.create(stage.sandbox, "app")
        await stage.observer.relisted()
        stage.theirs.drop = 1
        simulator.start(container)
        await stage.observer.relisted()
        await stage.settled()
        await stage.observer.judged()
        assert dict(stage.compared.missed) == {}
        assert stage.compared.only == 0
        assert stage.runtimes == 2
        words = stage.compared.describe(Comparing.COMPARING, stage.runtimes)
        assert words.endswith(
            "the 2 lost here did not reach it either, unless it missed as many others"
        )


async def test_a_delay_on_the_kubelets_side_is_no_loss() -> None:
    """As long as it lasts, nothing is proven; then all is there."""
    async with staged() as stage:
        stage.theirs.delay = 6 * GRACE
        for _ in range(6):
            await stage.live()
            await asyncio.sleep(PERIOD)
            assert dict(stage.compared.missed) == {}
        await stage.quiet()
        stage.theirs.delay = 0.0
        stage.theirs.drop = 1
        await stage.live()
        await stage.settled()
        assert dict(stage.compared.missed) == {SILENT: 1}
        assert stage.compared.undecided == 0


async def test_the_order_of_events_does_not_matter() -> None:
    """Events that overtake others are as many."""
    async with staged() as stage:
        stage.theirs.swap = 2
        await stage.live(4)
        stage.ours.swap = 1
        await stage.live(4)
        await stage.settled()
        assert dict(stage.compared.missed) == {}
        assert stage.compared.only == 0
        assert stage.compared.undecided == 0


async def test_what_a_cut_connection_lost_has_its_cause() -> None:
    """The kubelet comes back at once; what was on its way is lost."""
    async with staged() as stage:
        stage.theirs.delay = 2.0
        await stage.live()
        await stage.quiet()
        container = stage.runtime.runtime.create(stage.sandbox, "app")
        await asyncio.sleep(1.0)
        stage.theirs.cut()
        await until(lambda: stage.kubelet.connections == 2, "it is back")
        stage.theirs.delay = 0.0
        stage.runtime.runtime.start(container)
        await stage.settled()
        assert dict(stage.compared.missed) == {DOWN: 1}
        assert stage.compared.undecided == 0


async def test_a_kubelet_that_gave_up_misses_everything_from_then_on() -> None:
    """Five errors in its life are enough; the runtime loses nothing."""
    async with staged() as stage:
        stage.theirs.refuse = MOST_ERRORS
        stage.theirs.cut()
        await until(lambda: stage.kubelet.errors == MOST_ERRORS, "it gave up")
        await stage.live(2)
        await stage.settled()
        await stage.live()
        assert set(stage.compared.missed) == {GAVE_UP}
        assert stage.compared.missed[GAVE_UP] >= 2 * 3 + 3
        streams = await stage.observer.samples("shadow_pleg_kubelet_stream")
        assert streams[("gave_up",)] == 1
        assert stage.runtimes == 0


async def test_renewed_leases_are_not_counted_twice() -> None:
    """Two subscriptions of the exporter overlap, and bring the same events; the kubelet has one."""
    async with staged() as stage:
        await stage.live(90)
        assert stage.observer.node.received.total() >= 90 * 3
        await stage.settled()
        assert dict(stage.compared.missed) == {}
        assert stage.compared.only == 0
        assert stage.compared.undecided == 0
