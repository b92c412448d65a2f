"""SIGTERM and SIGINT, whatever it is doing: exit 0 within two seconds, and not a word too many."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from structlog.typing import EventDict

from exporter.daemon import serve
from exporter.simulator.calls import Method
from exporter.simulator.options import Events, Options, Runtime
from exporter.simulator.server import SimulatedServer
from tests.support.observer import DEADLINE, settings
from tests.support.processes import serving
from tests.support.runtimes import QUIET, simulated
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("log")

LIMIT: Final = 2.0
# A real process on a quiet machine ends within 0.3 s; this is what one has at load 10 and more.
REAL_LIMIT: Final = 20.0
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# A module that is stopped while it is imported, and keeps what is raised in it to itself.
SELFISH = """
import os, signal

try:
    os.kill(os.getpid(), signal.{signum})
except BaseException:
    pass
"""

Preparation = Callable[[SimulatedServer], None]


def nothing(_server: SimulatedServer) -> None:
    """Leave the runtime as it is."""


def hanging(method: Method) -> Preparation:
    """Let calls of that method hang."""
    return lambda server: server.faults.hang(method)


@dataclass(frozen=True, slots=True)
class Situation:
    """A runtime, and what the daemon is doing when it is stopped: it said so, or a call hangs."""

    said: str = ""
    options: Options = QUIET
    prepare: Preparation = nothing
    up: bool = True

    async def reached(self, server: SimulatedServer, log: list[EventDict]) -> None:
        """Wait until the daemon does that."""
        if self.said:
            await until(lambda: any(line["event"] == self.said for line in log), self.said)
        else:
            await until(lambda: server.faults.waiting > 0, "a call hangs")


SITUATIONS: Mapping[str, Situation] = {
    "connecting": Situation(prepare=hanging(Method.VERSION)),
    "waiting for a socket": Situation("event stream backoff", up=False),
    "streaming": Situation("subscribed to the event stream"),
    "disabled": Situation(
        "event stream disabled", Options(pods=0, churn=0, events=Events.DISABLED)
    ),
    "refused": Situation(
        "event stream refused", Options(pods=0, churn=0, runtime=Runtime.CONTAINERD_1)
    ),
    "unsupported": Situation(
        "event stream unsupported", Options(pods=0, churn=0, events=Events.UNIMPLEMENTED)
    ),
    "listing": Situation(prepare=hanging(Method.LIST_POD_SANDBOX)),
}


@pytest.fixture(autouse=True)
def _minds_interrupts() -> Iterator[None]:
    """SIGINT is ignored in the background of a shell, and would be by what is started here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.virtual_time
@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
@pytest.mark.parametrize("situation", SITUATIONS)
async def test_a_signal_ends_it_at_once_and_in_peace(
    situation: str, signum: signal.Signals, log: list[EventDict]
) -> None:
    """Being stopped is no failure: no error, in time, and its last word is that it stopped."""
    doing = SITUATIONS[situation]
    async with simulated(doing.options) as server:
        doing.prepare(server)
        if not doing.up:
            await server.go_down()
        daemon = asyncio.create_task(serve(settings(server.socket)))
        await doing.reached(server, log)
        began = time.monotonic()
        os.kill(os.getpid(), signum)
        await daemon
    assert time.monotonic() - began < LIMIT
    assert log[-1]["event"] == "stopped"


async def stopped(situation: Situation, message: str, signum: signal.Signals) -> None:
    """One process, from its start to its end."""
    async with simulated(situation.options) as server:
        situation.prepare(server)
        async with serving(f"--runtime-endpoint=unix://{server.socket}") as served:
            await served.says(message)
            ended = await served.end(signum)
    assert ended.code == 0
    assert ended.seconds < REAL_LIMIT
    assert "Traceback" not in ended.stderr
    assert ended.messages[-1] == "stopped"


async def test_a_signal_ends_a_process_that_streams() -> None:
    """With real sockets: exit code 0, and a log that is whole to its last line."""
    await stopped(SITUATIONS["streaming"], "subscribed to the event stream", signal.SIGTERM)


async def test_a_signal_ends_a_process_whose_call_hangs() -> None:
    """The runtime never answers: that keeps no process from its end."""
    await stopped(SITUATIONS["connecting"], "serving", signal.SIGINT)


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
async def test_a_signal_ends_a_process_that_still_imports(signum: signal.Signals) -> None:
    """It has begun to take signals, and ends without a word."""
    async with serving() as served:
        await until(served.minds_signals, "it takes signals", seconds=DEADLINE, every=0.001)
        ended = await served.end(signum)
    assert (ended.code, ended.stderr) == (0, "")


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
async def test_a_signal_arrives_whatever_an_import_does_with_what_is_raised_in_it(
    folder: Path, signum: signal.Signals
) -> None:
    """Imports run code of many hands: some of it turns what is raised into something else."""
    (folder / "durationpy.py").write_text(SELFISH.format(signum=signum.name), encoding="utf-8")
    async with serving(PYTHONPATH=str(folder)) as served:
        ended = await served.ended()
    assert (ended.code, ended.stderr) == (0, "")
