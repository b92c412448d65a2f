"""SIGTERM and SIGINT, whatever it is doing: exit 0 within two seconds, and not a word too many.

Every case is a process of its own. All of them come to their states side by
side; each is then stopped by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from exporter.simulator.calls import Method
from exporter.simulator.options import Events, Options, Runtime
from exporter.simulator.server import SimulatedServer
from tests.grounds.waiting import until
from tests.loops.observer import DEADLINE
from tests.loops.processes import Ended, Serving, serving
from tests.loops.runtimes import QUIET, simulated
from tests.loops.together import Outcomes, side_by_side

LIMIT = 2.0
CHANCES = 3
SIGNALS = (signal.SIGTERM, signal.SIGINT)

# A module that is stopped while it is imported, and keeps what is raised in it to itself.
SELFISH = """
import os, signal

try:
    os.kill(os.getpid(), signal.{signum})
except BaseException:
    pass
"""

Preparation = Callable[[SimulatedServer], None]
Meeting = Callable[[], AbstractAsyncContextManager[None]]
Arrival = Callable[[Serving, SimulatedServer], Awaitable[None]]


def nothing(_server: SimulatedServer) -> None:
    """Leave the runtime as it is."""


def hanging(method: Method) -> Preparation:
    """Let calls of that method hang."""
    return lambda server: server.faults.hang(method)


def state(name: str) -> Arrival:
    """The stream is in that state."""
    return lambda served, _server: served.reaches(name)


async def hung(_served: Serving, server: SimulatedServer) -> None:
    """A call hangs at the runtime."""
    await until(lambda: server.faults.waiting > 0, "a call hangs", seconds=DEADLINE)


async def importing(served: Serving, _server: SimulatedServer) -> None:
    """The process has begun to take signals, and has not said a word yet."""
    await until(served.minds_signals, "it takes signals", seconds=DEADLINE, every=0.001)


@dataclass(frozen=True, slots=True)
class Situation:
    """A runtime, and what the process is doing when it is stopped."""

    arrival: Arrival
    options: Options = QUIET
    prepare: Preparation = nothing
    up: bool = True


SITUATIONS: Mapping[str, Situation] = {
    "importing": Situation(importing),
    "connecting": Situation(hung, prepare=hanging(Method.VERSION)),
    "waiting for a socket": Situation(state("backoff"), up=False),
    "streaming": Situation(state("streaming")),
    "disabled": Situation(state("disabled"), Options(pods=0, churn=0, events=Events.DISABLED)),
    "refused": Situation(state("refused"), Options(pods=0, churn=0, runtime=Runtime.CONTAINERD_1)),
    "unsupported": Situation(
        state("unsupported"), Options(pods=0, churn=0, events=Events.UNIMPLEMENTED)
    ),
    "listing": Situation(hung, prepare=hanging(Method.LIST_POD_SANDBOX)),
}


class Scene:
    """Where all the processes meet: busy neighbours must not be what takes long."""

    def __init__(self) -> None:
        starting = [each for each in SITUATIONS.values() if each.arrival is not importing]
        self._all_there = asyncio.Barrier(len(starting) * len(SIGNALS))
        self.turn = asyncio.Lock()

    @asynccontextmanager
    async def meet(self) -> AsyncIterator[None]:
        """Wait for all, and for one's turn."""
        async with asyncio.timeout(DEADLINE):
            await self._all_there.wait()
        async with self.turn:
            yield


async def stopped(situation: Situation, signum: signal.Signals, scene: Scene) -> Ended:
    """Bring a process there, and stop it when all are where they should be and it is its turn.

    One that took too long gets another chance: a busy machine is slow once, a bug always.
    """
    ended = await stopped_once(situation, signum, scene.meet)
    for _ in range(CHANCES - 1):
        if ended.code or ended.seconds < LIMIT:
            break
        async with scene.turn:
            ended = await stopped_once(situation, signum, contextlib.nullcontext)
    return ended


async def stopped_once(situation: Situation, signum: signal.Signals, meeting: Meeting) -> Ended:
    """One process, from its start to its end."""
    async with simulated(situation.options) as server:
        situation.prepare(server)
        if not situation.up:
            await server.go_down()
        async with serving(f"--runtime-endpoint=unix://{server.socket}") as served:
            await situation.arrival(served, server)
            if situation.arrival is importing:
                return await served.end(signum)
            async with meeting():
                return await served.end(signum)


@pytest.fixture(scope="module")
def endings() -> Iterator[Outcomes[Ended]]:
    """How each of them ended, by situation and signal."""
    scene = Scene()
    # One that is ignored here, as in the background of a shell, would be ignored there too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield side_by_side(
        {
            f"{name} {signum.name}": partial(stopped, situation, signum, scene)
            for name, situation in SITUATIONS.items()
            for signum in SIGNALS
        }
    )
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_signal_ends_it_at_once_and_in_peace(
    endings: Outcomes[Ended], situation: str, signum: signal.Signals
) -> None:
    """Being stopped is no failure: exit 0, in time, and a log that is whole to its last line."""
    ended = endings.of(f"{situation} {signum.name}")
    assert ended.code == 0
    assert ended.seconds < LIMIT
    assert "Traceback" not in ended.stderr
    if situation == "importing":
        assert ended.stderr == ""
    else:
        assert ended.messages[-1] == "stopped"


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
async def test_a_signal_arrives_whatever_an_import_does_with_what_is_raised_in_it(
    folder: Path, signum: signal.Signals
) -> None:
    """Imports run code of many hands: some of it turns what is raised into something else."""
    (folder / "durationpy.py").write_text(SELFISH.format(signum=signum.name), encoding="utf-8")
    async with serving(PYTHONPATH=str(folder)) as served:
        ended = await served.ended()
    assert (ended.code, ended.stderr) == (0, "")
