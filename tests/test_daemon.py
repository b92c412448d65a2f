"""The daemon as a whole: when it does not start, what it waits for, what ends it, what it costs."""

import asyncio
import os
import signal
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final

import grpc
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

import exporter
from exporter.daemon import run_until, serve
from exporter.errors import ConfigError
from exporter.model.events import Listed, ListedState, ObjectKind
from exporter.model.facts import ProfileChosen, Relist
from exporter.model.findings import Verdict
from exporter.node.state import Node
from exporter.settings.flags import ListenAddress
from exporter.web.access.policy import WebPolicy
from simulator.churn import simulated_node
from simulator.options import Options
from simulator.service import Method
from testbed.waiting import until
from tests.support.commands import ANYWHERE, Exporter, Running
from tests.support.cri_messages import SHOP, event
from tests.support.facts import RUNNING, beat, facts_of, relist, up
from tests.support.measured import rss_mib
from tests.support.observer import DEADLINE, settings
from tests.support.runtimes import (
    DISABLED,
    EXCLUSIVE,
    QUIET,
    UNIMPLEMENTED,
    ScriptedServer,
    simulated,
)
from tests.support.stage import Stage

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


@pytest.mark.usefixtures("log")
async def test_a_bug_in_a_task_of_the_web_server_ends_the_daemon(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bug(_policy: WebPolicy) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(WebPolicy, "keep_up", bug)
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(DEADLINE):
            await run_until(asyncio.Event(), settings(server.socket), lambda _url, _node: None)


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


PACKAGE = str(Path(exporter.__file__).parent)


def calls_of(act: Callable[[], object]) -> Counter[str]:
    """How many Python calls that takes: cost, in a unit that no busy machine changes.

    Calls of this package's functions count, also of those that dataclasses and named tuples
    generate, and each time a generator is resumed; calls of libraries do not.
    """
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith((PACKAGE, "<string>")):
            calls[f"{Path(code.co_filename).stem} {code.co_name}"] += 1

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.quick
def test_a_relist_that_settles_a_miss_takes_at_most_150_calls() -> None:
    """From the decoded relist to the finding counted, logged, in the history, and made a case."""
    stage, known = Stage(), (ProfileChosen(0.0, "containerd", "1.7.24"), up())
    *before, settling = facts_of((*known, relist(1), relist(2, c1=RUNNING), relist(20, c1=RUNNING)))
    for fact in before:
        stage.chronicle.record(fact)
    with capture_logs() as log:
        calls = calls_of(lambda: stage.chronicle.record(settling))
    assert stage.node.tally.total(Verdict.MISSED) == len(stage.cases.newest) == len(log) == 1
    assert calls.total() <= 150, calls


@pytest.mark.quick
@pytest.mark.virtual_time
async def test_an_event_that_confirms_takes_at_most_25_calls() -> None:
    """A STARTED for which the ledger waits: from the queue to the finding, counted and kept."""
    stage, at = Stage(), time.monotonic()
    for fact in facts_of((up(at - 3), beat(at - 2.5), relist(at - 2))):
        stage.chronicle.record(fact)
    running = Listed("c1", ObjectKind.CONTAINER, ListedState.RUNNING, "p1", "app", SHOP)
    stage.chronicle.record(Relist(at - 1, at - 1, 1, (running,), ()))
    intake = stage.daemon.intake
    intake.offer(event(container_id="c0", created_at=time.time_ns()), 1)
    intake.feed()
    intake.offer(event(created_at=time.time_ns()), 1)
    calls = calls_of(intake.feed)
    assert stage.node.tally.total(Verdict.CONFIRMED) == 1
    assert calls.total() <= 25, calls


# `make soak` says for how many minutes.
SOAK_SECONDS: Final = 60 * float(os.environ.get("SOAK_MINUTES", "20"))
TROUBLED: Final = Options(
    pods=110,
    containers_per_pod=3,
    churn=20,
    drop=0.01,
    duplicate=0.01,
    failed_starts=0.01,
    disconnect_every=17,
    restart_every=61,
)


def cost(pid: int) -> tuple[float, int]:
    return rss_mib(pid), len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 300)
async def test_memory_and_open_files_stay_flat_on_a_troubled_node(folder: Path) -> None:
    """Its runtime loses events, ends its streams and restarts, and leases are short.

    What is remembered of gone containers grows for ten minutes, or until it is full: the first half
    is the warm-up. A connection that is being remade has two sockets for a moment.
    """
    costs = []
    async with (
        simulated_node(TROUBLED, folder / "cri.sock") as server,
        Exporter(server.socket, "--relist-period=1s", "--stream-lease=5s", grace=1.0) as exporter,
    ):
        ends = time.monotonic() + SOAK_SECONDS
        while time.monotonic() < ends:
            await exporter.metrics()
            costs.append(cost(exporter.pid))
            # As often as a sample is wanted.
            await asyncio.sleep(1)
        seen = await exporter.metrics()
        for name in ("lifecycle_events", "stream_connections", "verdicts"):
            assert seen.value(f"shadow_pleg_{name}_total") > 0, name
    half, last = len(costs) // 2, 3 * len(costs) // 4
    (memory, files), (memory_then, files_then) = (
        map(statistics.median, zip(*part, strict=True)) for part in (costs[half:last], costs[last:])
    )
    assert memory_then <= memory * 1.03
    assert files_then <= files + 2
