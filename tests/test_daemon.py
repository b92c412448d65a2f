"""The daemon as a whole: what it refuses to start with, what it waits for, and what ends it."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import grpc
import pytest
from structlog.typing import EventDict

from exporter.daemon import run_until, serve
from exporter.errors import ConfigError
from exporter.node.state import Node
from exporter.settings.flags import ListenAddress
from simulator.options import Options
from simulator.service import Method
from testbed.waiting import until
from tests.support.commands import ANYWHERE, Running
from tests.support.observer import DEADLINE, settings
from tests.support.runtimes import (
    DISABLED,
    EXCLUSIVE,
    QUIET,
    UNIMPLEMENTED,
    ScriptedServer,
    simulated,
)

LIMIT_SECONDS: Final = 2.0
each_signal = pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])


@pytest.fixture(autouse=True)
def _handles_interrupts() -> Iterator[None]:
    """SIGINT is ignored in the background of a shell, and then by child processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("log")
async def test_an_address_in_use_is_a_mistake(server: ScriptedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ListenAddress("127.0.0.1", taken.getsockname()[1])
        said = f"^--web.listen-address: cannot listen on {address}: Address already in use$"
        with pytest.raises(ConfigError, match=said):
            async with asyncio.timeout(DEADLINE):
                await serve(settings(server.socket, web_listen_address=address))
    assert server.faults.calls == []


@pytest.mark.usefixtures("log")
async def test_a_bug_in_one_task_ends_the_daemon_and_is_not_hidden(server: ScriptedServer) -> None:
    """Half a daemon would lie: its supervisor restarts a whole one."""

    def bug(_url: str, _node: Node) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(DEADLINE):
            await run_until(asyncio.Event(), settings(server.socket), bug)
    assert caught.group_contains(ZeroDivisionError)


async def test_a_socket_that_speaks_grpc_but_no_cri_is_a_mistake(server: ScriptedServer) -> None:
    server.faults.refuse_next(1000, code=grpc.StatusCode.UNIMPLEMENTED)
    flags = (f"--runtime-endpoint={server.endpoint}", "--log.level=error")
    async with Running("serve", ANYWHERE, *flags) as it:
        said = (await it.ended()).complaint(2)
    assert said.startswith(f"--runtime-endpoint: {server.endpoint} speaks gRPC but not CRI v1")
    assert "name the runtime's CRI socket, or enable its CRI plugin" in said


# A module that is stopped while it is imported, and suppresses what is raised in it.
SELFISH = """
import os, signal

try:
    os.kill(os.getpid(), signal.{signum})
except BaseException:
    pass
"""


SITUATIONS: Mapping[str, tuple[Options, Method | str]] = {
    "connecting": (QUIET, Method.VERSION),
    "listing": (QUIET, Method.LIST_POD_SANDBOX),
    "waiting for a socket": (QUIET, "waiting for the runtime"),
    "streaming": (QUIET, "event stream streaming"),
    "disabled": (DISABLED, "event stream disabled"),
    "refused": (EXCLUSIVE, "event stream refused"),
    "unsupported": (UNIMPLEMENTED, "event stream unsupported"),
}


@pytest.mark.virtual_time
@each_signal
@pytest.mark.parametrize("situation", SITUATIONS)
async def test_a_signal_ends_it_at_once_and_cleanly(
    situation: str, signum: signal.Signals, log: list[EventDict]
) -> None:
    options, doing = SITUATIONS[situation]
    async with simulated(options) as server:
        if isinstance(doing, Method):
            server.faults.hang(doing)
        elif "waiting" in doing:
            await server.go_down()
        daemon = asyncio.create_task(serve(settings(server.socket)))
        await until(
            lambda: server.faults.waiting > 0 or doing in [each["event"] for each in log], situation
        )
        began = time.monotonic()
        os.kill(os.getpid(), signum)
        await daemon
    assert time.monotonic() - began < LIMIT_SECONDS
    assert log[-1]["event"] == "stopped"


@each_signal
async def test_a_signal_ends_a_check_that_hangs(signum: signal.Signals) -> None:
    async with simulated() as runtime:
        runtime.faults.hang(Method.VERSION)
        async with Running("check", f"--runtime-endpoint={runtime.endpoint}") as process:
            await until(lambda: runtime.faults.waiting > 0, "the check asks", seconds=DEADLINE)
            outcome = await process.stop(signum)
    assert (outcome.code, outcome.err) == (0, "")


@each_signal
async def test_a_signal_arrives_even_if_an_import_suppresses_what_is_raised_in_it(
    folder: Path, signum: signal.Signals
) -> None:
    """Libraries may turn any exception during their import into something else."""
    (folder / "durationpy.py").write_text(SELFISH.format(signum=signum.name), encoding="utf-8")
    async with Running("serve", ANYWHERE, PYTHONPATH=str(folder)) as process:
        outcome = await process.ended()
    assert (outcome.code, outcome.err) == (0, "")


async def test_a_closed_pipe_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    async with Running("check", "--runtime-endpoint=/none.sock", output=writing) as process:
        os.close(writing)
        outcome = await process.ended()
    assert (outcome.code, outcome.err) == (1, "")
