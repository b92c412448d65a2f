"""The composition root: constructs everything, once, and runs it in one TaskGroup."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import structlog

from exporter import __version__
from exporter.cri.decode import Decoder
from exporter.cri.endpoint import Endpoint
from exporter.cri.lists import ListDecoder
from exporter.evidence.cases import Cases
from exporter.loops.believing import Believing
from exporter.loops.cgroups import Cgroups
from exporter.loops.context import LoopContext
from exporter.loops.inquiring import Inquiring
from exporter.loops.intake import Intake
from exporter.loops.relisting import Relisting
from exporter.loops.streaming import Streaming
from exporter.metrics.collector import Histograms, NodeCollector, Registry, new_registry
from exporter.node.chronicle import Chronicle, Counting
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.reporter import report, say_conditions
from exporter.node.state import Node
from exporter.pleg.ledger import Ledger
from exporter.process.event_loop import guard, until_signalled, watch_lag
from exporter.process.log import LINES
from exporter.runtimes.known import profile_of
from exporter.settings.config import Config, Watch
from exporter.web.app import WebApp, serving

_log = structlog.get_logger()

Begun = Callable[[str, Node], None]


async def serve(
    config: Config, begun: Begun = lambda _url, _node: None, *, outlives: bool = True
) -> None:
    """Watch the node until SIGTERM or SIGINT. ConfigError for what retrying cannot fix.

    `begun` is called once, with the URL of the pages and the node. `outlives`: see
    `until_signalled`.
    """
    await until_signalled(lambda stop: run_until(stop, config, begun), outlives=outlives)
    _log.info("stopped")


@dataclass(frozen=True, slots=True)
class Daemon:
    """A watched node without a web interface: its state, and the loops that update it.

    `beside`: the optional loops, for cgroups and for the kubelet's pods.
    """

    context: LoopContext
    judge: Judge
    registry: Registry
    intake: Intake
    relisting: Relisting
    streaming: Streaming
    cgroups: Cgroups | None
    beside: tuple[Callable[[], Coroutine[Any, Any, None]], ...]

    @classmethod
    def of(cls, config: Config) -> Self:
        """Construct everything, start nothing."""
        endpoint, registry = Endpoint(config.runtime_endpoint), new_registry()
        node = Node(began_wall=time.time())
        ledger = Ledger(profile_of("", ""), config.missed_grace)
        chronicle = Chronicle(ledger)
        histograms = Histograms(registry)
        history = History(node, ahead=time.time() - time.monotonic())
        delivered = histograms.event_delivery.observe
        chronicle.listen(history.hear)
        chronicle.listen(Counting(node, time.time, delivered, histograms.exit_measured).hear)
        chronicle.listen(report)
        judge = Judge(node, history, ledger.number, lambda: ledger.unresolved)
        context = LoopContext(
            config=config,
            endpoint=endpoint,
            node=node,
            chronicle=chronicle,
            histograms=histograms,
            inquiring=Inquiring(endpoint, chronicle, node),
            decoder=Decoder(node.malformed),
            lists=ListDecoder(node.malformed),
        )
        intake = Intake(context)
        registry.register(
            NodeCollector(
                node,
                ledger,
                lambda: judge.at(time.monotonic()),
                lambda: intake.fill,
                lambda: LINES.dropped,
            )
        )
        cgroups = Cgroups(context) if config.kernel_witness is Watch.AUTO else None
        believing = Believing(context) if config.kubelet_pods is Watch.AUTO else None
        beside = [each.run for each in (cgroups, believing) if each]
        relisting = Relisting(context, intake, cgroups)
        streaming = Streaming(context, intake, relist_soon=relisting.soon)
        return cls(context, judge, registry, intake, relisting, streaming, cgroups, tuple(beside))

    @classmethod
    @asynccontextmanager
    async def on(cls, config: Config) -> AsyncIterator[Self]:
        """A daemon that is constructed and not started; its connection is closed on exit."""
        daemon = cls.of(config)
        try:
            yield daemon
        finally:
            if daemon.cgroups:
                daemon.cgroups.close()
            await daemon.context.endpoint.close()

    @property
    def node(self) -> Node:
        """The node's state."""
        return self.context.node

    @property
    def chronicle(self) -> Chronicle:
        """The chronicle, to which listeners can be added."""
        return self.context.chronicle

    def _lagged(self, seconds: float) -> None:
        self.context.histograms.loop_lag.observe(seconds)
        self.judge.history.lagged(time.monotonic(), seconds)

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """The long-running tasks, to be run together."""
        return (
            self.relisting.run(),
            self.streaming.run(),
            self.intake.run(),
            self.context.inquiring.run(),
            say_conditions(self.judge),
            watch_lag(self._lagged),
            guard(self.context.config.watchdog_timeout),
            *(run() for run in self.beside),
        )

    async def run(self, until: Callable[[], Awaitable[object]], begin: Callable[[], None]) -> None:
        """Call `begin` and run the loops until `until()` returns; errors come in a group."""
        async with asyncio.TaskGroup() as group:
            self.context.endpoint.require_usable()
            begin()
            tasks = [group.create_task(each) for each in self.loops()]
            await until()
            for task in tasks:
                task.cancel()


async def run_until(stop: asyncio.Event, config: Config, begun: Begun) -> None:
    """Watch the node, and serve its pages, until `stop` is set."""
    async with Daemon.on(config) as daemon:
        cases = Cases(daemon.chronicle.ledger, daemon.node, config.missed_grace)
        daemon.chronicle.listen(cases.hear)
        app = WebApp(config, daemon.judge, daemon.registry, cases)
        async with serving(app) as url:

            def begin() -> None:
                _log.info("serving", url=url, version=__version__, node=config.node_name)
                begun(url, daemon.node)

            await daemon.run(stop.wait, begin)
