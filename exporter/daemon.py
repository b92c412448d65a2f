"""The composition root: everything is built here, once, and lives in one TaskGroup."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from exporter import __version__
from exporter.collector import Histograms, NodeCollector, new_registry
from exporter.config import Config
from exporter.cri.connect import Endpoint
from exporter.cri.decode import Decoder
from exporter.cri.endpoint import require_usable
from exporter.errors import ConfigError, CriError
from exporter.footprint import keep_small
from exporter.loops.inquiring import Inquiring
from exporter.loops.intake import Intake, Witnessing
from exporter.loops.lag import watch_lag
from exporter.loops.relisting import Relisting
from exporter.loops.report import Reporter
from exporter.loops.streaming import Streaming
from exporter.loops.watchdog import guard
from exporter.pleg.ledger import Ledger
from exporter.pleg.node import Node
from exporter.pleg.profiles import profile_of
from exporter.web.app import Face, serving
from exporter.web.status import Comparison

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Hooks:
    """What an embedding command may add: rows for the page, and a word once the URL is known."""

    compare: Callable[[Node], tuple[Comparison, ...]] = lambda _node: ()
    on_serving: Callable[[str], None] = lambda _url: None


async def serve(config: Config, hooks: Hooks = Hooks()) -> None:
    """Watch the node until SIGTERM or SIGINT. ConfigError for what no waiting will heal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    mistake: ConfigError | None = None
    try:
        await run_until(stop, config, hooks)
    except* ConfigError as group:
        # Raised from in here, Python before 3.11.4 would put it into a group again.
        mistake = _first(group)
    if mistake is not None:
        raise mistake from None
    _log.info("stopped")


async def run_until(stop: asyncio.Event, config: Config, hooks: Hooks) -> None:
    """Watch the node until `stop` is set."""
    keep_small()
    endpoint = Endpoint(config.runtime_endpoint)
    node = Node()
    ledger = Ledger(profile_of("", ""), config.missed_grace)
    registry = new_registry()
    inquiring = Inquiring(endpoint, ledger)
    shared = Witnessing(
        node=node,
        ledger=ledger,
        histograms=Histograms(registry),
        reporter=Reporter(node),
        inquiring=inquiring,
        decoder=Decoder(node.malformed),
    )
    intake = Intake(shared, config.event_queue_capacity)
    registry.register(NodeCollector(node, lambda: ledger.unresolved, lambda: intake.fill))
    relisting = Relisting(config, endpoint, intake, shared)
    streaming = Streaming(config, endpoint, intake, shared)
    streaming.on_connect = relisting.soon
    face = Face(config, node, registry, lambda: hooks.compare(node))
    try:
        async with serving(face) as url, asyncio.TaskGroup() as group:
            _require_usable(endpoint)
            _log.info("serving", url=url, version=__version__, node=config.node_name)
            hooks.on_serving(url)
            loops = (
                relisting.run(),
                streaming.run(),
                intake.run(),
                inquiring.run(),
                watch_lag(shared.histograms),
                guard(config.watchdog_timeout),
            )
            tasks = [group.create_task(each) for each in loops]
            await stop.wait()
            for task in tasks:
                task.cancel()
    finally:
        await endpoint.close()


def _require_usable(endpoint: Endpoint) -> None:
    try:
        require_usable(endpoint.socket())
    except CriError as error:
        # It may come yet: a node's runtime often starts after its exporters.
        _log.warning("waiting for the runtime", why=str(error))


def _first(group: ExceptionGroup[ConfigError]) -> ConfigError:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, ConfigError) else ConfigError(str(error))
