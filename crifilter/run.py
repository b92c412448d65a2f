"""`filter`: alone opens the runtime's or the kubelet's socket, and offers `serve` what it needs.

It opens no port and reads nothing but the two sockets. `serve` then runs as a user and in a group
that cannot open these sockets: the runtime's is equivalent to root, and only uid 0 may open the
kubelet's.
"""

import asyncio
import math
import os
from pathlib import Path

import structlog

from crifilter.calls import ALLOWED
from crifilter.options import FilterOptions, Passed
from crifilter.pods import PODS_ALLOWED
from crifilter.server import Filter, serving
from exporter import __version__
from exporter.cri.endpoint import Endpoint, candidates
from exporter.errors import ConfigError
from exporter.kubelet.pods import reach
from exporter.process.event_loop import first_of, guard, until_signalled
from exporter.settings.config import Config

_log = structlog.get_logger()


async def run_filter(config: Config, options: FilterOptions) -> None:
    """Filter until SIGTERM or SIGINT. ConfigError for what retrying cannot fix."""
    await until_signalled(lambda stop: _filter(stop, config, options), outlives=True)
    _log.info("stopped")


async def _filter(stop: asyncio.Event, config: Config, options: FilterOptions) -> None:
    socket = options.socket
    made = _of_kubelet if options.of is Passed.KUBELET else _of_runtime
    filtering = made(config, socket)
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


def _of_runtime(config: Config, socket: Path) -> Filter:
    endpoint = Endpoint(config.runtime_endpoint)
    usual = candidates() if config.runtime_endpoint is None else [config.runtime_endpoint]
    _require_another(socket, usual, "the runtime's (--runtime-endpoint)")
    endpoint.require_usable()
    return Filter(endpoint.socket, ALLOWED)


def _of_kubelet(config: Config, socket: Path) -> Filter:
    path = config.kubelet_pods_endpoint
    _require_another(socket, [path], "the kubelet's (--kubelet-pods-endpoint)")

    def find() -> Path:
        reach(path)
        return path

    return Filter(find, PODS_ALLOWED)


def _require_another(socket: Path, taken: list[Path], whose: str) -> None:
    if os.path.realpath(socket) in {os.path.realpath(each) for each in taken}:
        raise ConfigError(f"--socket: unix://{socket} is {whose}: name another socket to serve on")
