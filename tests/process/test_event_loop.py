"""The event loop: long work shares it, its lag is observed, and a process that is stuck ends."""

import asyncio
import faulthandler
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from exporter.process.event_loop import guard, in_slices, meanwhile, watch_lag
from testbed.waiting import until
from tests import ROOT
from tests.support.observer import parts, sample, tasks
from tests.support.virtual_time import work

pytestmark = pytest.mark.usefixtures("log")

PATIENCE = 30.0
PROGRAM = """
    import asyncio, ctypes, os, sys, time
    from pathlib import Path
    from exporter.settings.config import Config, LogFormat, LogLevel
    from exporter.daemon import serve
    from exporter.settings.flags import ListenAddress
    from exporter.process.log import set_up_log

    def hang():
        print("hangs", flush=True)
        {how}

    def on_serving(_url, _node):
        asyncio.get_running_loop().call_later(0.2, hang)

    config = Config(
        runtime_endpoint=Path("/nonexistent/cri.sock"),
        web_listen_address=ListenAddress("127.0.0.1", 0),
        watchdog_timeout={timeout},
    )
    set_up_log(LogLevel.INFO, LogFormat.LOGFMT)
    asyncio.run(serve(config, on_serving))
"""
HOLD_THE_LOOP = "time.sleep(600)"
HOLD_THE_INTERPRETER = "ctypes.PyDLL(None).sleep(600)"
FILL_STDERR = """os.set_blocking(2, False)
        try:
            while True: os.write(2, b"x" * 65536)
        except BlockingIOError: os.set_blocking(2, True)
        time.sleep(600)"""


@contextmanager
def hanging(how: str, stderr: int, timeout: float = 1.0) -> Iterator[subprocess.Popen[str]]:
    program = textwrap.dedent(PROGRAM).format(how=how, timeout=timeout)
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def ended(process: subprocess.Popen[str]) -> int:
    await until(lambda: process.poll() is not None, "it ends itself", seconds=PATIENCE)
    return process.wait()


@pytest.mark.parametrize("how", [HOLD_THE_LOOP, HOLD_THE_INTERPRETER])
async def test_a_hung_process_dumps_its_stacks_and_ends(how: str) -> None:
    with hanging(how, subprocess.PIPE) as process:
        code = await ended(process)
        out, err = process.communicate()
    assert code == 1
    assert out == "hangs\n"
    assert "Timeout (0:00:01)!" in err
    assert 'in hang\n  File "' in err


async def test_the_dump_need_not_be_read() -> None:
    """A log that is blocked may be what hangs; it does not keep the process alive."""
    with hanging(FILL_STDERR, subprocess.PIPE) as process:
        assert await ended(process) == 1


async def test_a_stderr_that_cannot_be_opened_again_gets_the_dump_too() -> None:
    """A socket, as some supervisors give."""
    ours, theirs = socket.socketpair()
    with ours, theirs, hanging(HOLD_THE_LOOP, theirs.fileno()) as process:
        assert await ended(process) == 1
        theirs.close()
        assert b"Timeout (0:00:01)!" in b"".join(iter(lambda: ours.recv(65536), b""))


@pytest.mark.virtual_time
@pytest.mark.parametrize("faulty", ["block", "work", "neither"])
async def test_a_fault_of_the_block_or_beside_it_ends_both(faulty: str) -> None:
    """It is raised as it was: alone, and with its own cause."""
    ended: list[str] = []

    async def run(name: str) -> None:
        try:
            await asyncio.sleep(2 if name == "block" else 3600 if name != faulty else 1)
            if name == faulty:
                raise ZeroDivisionError(name) from KeyError("why")
        finally:
            ended.append(name)

    async def whole() -> None:
        async with meanwhile(run("work"), run("other")):
            await run("block")

    (fault,) = await asyncio.gather(whole(), return_exceptions=True)
    assert (fault is None) == (faulty == "neither")
    if fault:
        assert fault.args == (faulty,)
        assert isinstance(fault.__cause__, KeyError)
    assert len(ended) == 3


@pytest.mark.virtual_time
async def test_a_loop_that_turns_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    due: list[float] = []

    def armed(timeout: float, **_: object) -> None:
        now = time.monotonic()
        assert not due or now < due[-1] - timeout / 2
        due.append(now + timeout)

    monkeypatch.setattr(faulthandler, "dump_traceback_later", armed)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", due.clear)
    guarding = asyncio.create_task(guard(10.0))
    await asyncio.sleep(3600)
    assert due[-1] > time.monotonic()
    guarding.cancel()
    await asyncio.gather(guarding, return_exceptions=True)
    assert due == []


@pytest.mark.virtual_time
async def test_a_blocked_loop_is_observed_as_lag() -> None:
    """Lag is the time beyond the second that it meant to sleep; an idle loop has none."""

    async def observed(times: int) -> float:
        name = "shadow_pleg_event_loop_lag_seconds"
        await until(lambda: sample(daemon, f"{name}_count") >= times, "the lag is observed")
        return sample(daemon, f"{name}_sum")

    async with parts(None) as daemon, tasks(watch_lag(daemon.context.histograms.loop_lag.observe)):
        before = await observed(1)
        assert before == pytest.approx(0, abs=0.01)
        work(1.5)
        assert await observed(2) - before == pytest.approx(0.5, abs=0.01)
        assert await observed(3) - before == pytest.approx(0.5, abs=0.01)


@pytest.mark.quick
async def test_every_step_is_taken_in_order() -> None:
    assert await in_slices(iter(range(10_000))) == list(range(10_000))
    assert await in_slices([]) == []
    assert await in_slices([None, 1, None, 2]) == [1, 2]


@pytest.mark.virtual_time
@pytest.mark.parametrize(("steps", "each", "expected"), [(50, 0.001, 49), (3, 0.0, 0)])
async def test_other_tasks_have_their_turn_after_each_millisecond(
    steps: int, each: float, expected: int
) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with tasks(other()):
        await in_slices(map(work, [each] * steps))
        assert turns == expected
