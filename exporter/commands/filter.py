"""`filter`: alone has the runtime's socket, and offers `serve` what it needs on another one.

It opens no port and reads nothing but the two sockets. `serve` then runs as a user and in a group
that cannot open the runtime's socket, which is equivalent to root.
"""

import asyncio
import math

import structlog

from exporter import __version__
from exporter.commands.options import FilterOptions
from exporter.cri.endpoint import Endpoint, candidates
from exporter.cri.filter import Filter, serving
from exporter.errors import ConfigError
from exporter.process.signals import until_signalled
from exporter.process.watchdog import guard
from exporter.settings.config import Config
from exporter.timing.turns import first_of

_log = structlog.get_logger()


async def run_filter(config: Config, options: FilterOptions) -> None:
    """Filter until SIGTERM or SIGINT. ConfigError for what retrying cannot fix."""
    await until_signalled(lambda stop: _filter(stop, config, options), outlives=True)
    _log.info("stopped")


async def _filter(stop: asyncio.Event, config: Config, options: FilterOptions) -> None:
    endpoint, socket = Endpoint(config.runtime_endpoint), options.socket
    usual = candidates() if config.runtime_endpoint is None else (config.runtime_endpoint,)
    if socket.resolve() in {each.resolve() for each in usual}:
        raise ConfigError(
            f"--socket: unix://{socket} is the runtime's (--runtime-endpoint):"
            " name another socket to serve on"
        )
    endpoint.require_usable()
    filtering = Filter(endpoint)
    asyncio.get_running_loop().set_exception_handler(filtering.failed)
    async with asyncio.TaskGroup() as group:
        guarding = group.create_task(guard(config.watchdog_timeout))
        try:
            while not stop.is_set():
                async with serving(filtering, socket, options.socket_group):
                    _log.info("filtering", socket=f"unix://{socket}", version=__version__)
                    await first_of(math.inf, stop.wait(), filtering.ended.wait())
        except OSError as error:
            raise ConfigError(f"--socket: cannot serve on unix://{socket}: {error}") from None
        guarding.cancel()
