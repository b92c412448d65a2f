"""The daemon as a whole: what it refuses to start with, and how its parts end together."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import grpc
import pytest
from structlog.typing import EventDict

from exporter.daemon import Hooks, run_until, serve
from exporter.errors import ConfigError
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from exporter.simulator.calls import Method
from exporter.simulator.server import SimulatedServer
from tests.support.observer import DEADLINE, settings
from tests.support.runtimes import calls_of
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("log", "_recorded")


async def refused(config: Config) -> None:
    """Serve, which is to end by itself."""
    async with asyncio.timeout(DEADLINE):
        await serve(config)


async def test_a_file_in_the_place_of_the_socket_is_a_mistake(folder: Path) -> None:
    """No waiting makes a socket of it: it says so at once."""
    (folder / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a socket"):
        await refused(settings(folder / "file"))


async def test_an_address_in_use_is_a_mistake(server: SimulatedServer) -> None:
    """It is told which one, and what to do, before anything is asked of the runtime."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ListenAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ConfigError, match="is in use by another process"):
            await refused(settings(server.socket, web_listen_address=address))
    assert calls_of(server).calls == []


async def test_no_cri_behind_the_socket_is_a_mistake_found_in_a_task(
    server: SimulatedServer,
) -> None:
    """What one of the tasks finds ends them all, and comes out as the one error it is."""
    server.faults.refuse_next(1, Method.VERSION, code=grpc.StatusCode.UNIMPLEMENTED)
    with pytest.raises(ConfigError, match="speaks gRPC but not CRI v1"):
        await refused(settings(server.socket))


async def test_a_bug_in_one_task_ends_the_daemon_and_is_not_hidden(
    server: SimulatedServer,
) -> None:
    """Half a daemon would lie: its supervisor restarts a whole one."""

    def bug(_url: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(DEADLINE):
            await run_until(asyncio.Event(), settings(server.socket), Hooks(on_serving=bug))
    assert caught.group_contains(ZeroDivisionError)


async def test_a_signal_ends_serve_and_it_says_so(
    server: SimulatedServer, log: list[EventDict]
) -> None:
    """SIGTERM is its ordinary end."""
    reached: list[str] = []
    serving = asyncio.create_task(serve(settings(server.socket), Hooks(on_serving=reached.append)))
    await until(lambda: bool(reached), "it serves")
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert log[-1]["event"] == "stopped"
