"""Whole processes: what they wait for, what ends them, and how."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import grpc
import grpc.aio
import pytest

from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.server import serve
from tests.support.commands import ANYWHERE, Running, fetch, running
from tests.support.odd_runtimes import QUIET, folder, grpc_without_cri, simulated
from tests.support.waiting import until

JSON = "--log.format=json"
SIGNALS = [signal.SIGTERM, signal.SIGINT]
_Context = grpc.aio.ServicerContext[bytes, bytes]


async def status_of(url: str) -> int:
    """The HTTP status of a page."""
    return (await fetch(url)).status


async def url_of(process: Running) -> str:
    """Where a `serve` with a JSON log says it serves."""
    return str((await process.logged("serving"))["url"])


async def test_serve_waits_for_a_runtime_that_is_not_there_yet() -> None:
    """A node's exporters often start before its runtime: alive, not ready, then ready."""
    with folder() as here:
        socket = here / "cri.sock"
        flags = (f"--runtime-endpoint=unix://{socket}", "--relist-period=100ms")
        async with running("serve", ANYWHERE, JSON, *flags) as process:
            why = (await process.logged("waiting for the runtime"))["error"]
            url = await url_of(process)
            not_yet = await fetch(url + "readyz")
            assert (not_yet.status, await status_of(url + "livez")) == (503, 200)
            assert f"no runtime socket at unix://{socket}: start the runtime" in why
            async with serve(SimulatedRuntime(QUIET), socket):
                await until(lambda: _is_ready(url), "ready once the runtime is there")
                outcome = await process.stop()
    assert outcome.code == 0


async def _is_ready(url: str) -> bool:
    return await status_of(url + "readyz") == 200


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda each: each.name)
async def test_a_signal_ends_serve_with_exit_0(signum: signal.Signals) -> None:
    """Being stopped is no failure, and every line of the log has its form to the end."""
    async with (
        simulated() as runtime,
        running("serve", ANYWHERE, JSON, f"--runtime-endpoint={runtime.endpoint}") as process,
    ):
        await process.logged("subscribed to the event stream")
        process.process.send_signal(signum)
        await process.logged("stopped")
        outcome = await process.ended()
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


async def test_a_socket_that_speaks_grpc_but_no_cri_is_a_mistake() -> None:
    """Waiting would not help: one line names the socket and what to do, exit 2."""
    async with grpc_without_cri() as socket:
        flags = (f"--runtime-endpoint={socket}", "--log.level=error")
        async with running("serve", ANYWHERE, *flags) as process:
            outcome = await process.ended()
    said = f"shadow-pleg: --runtime-endpoint: unix://{socket} speaks gRPC but not CRI v1"
    assert outcome.err.startswith(said)
    assert "name the runtime's CRI socket, or enable its CRI plugin" in outcome.err
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


async def test_an_older_cri_is_as_good_as_none() -> None:
    """A runtime that has v1alpha2 alone answers v1 with UNIMPLEMENTED."""

    async def version(_request: bytes, _context: _Context) -> bytes:
        return b""

    handler = grpc.unary_unary_rpc_method_handler(version)
    old = grpc.method_handlers_generic_handler(
        "runtime.v1alpha2.RuntimeService", {"Version": handler}
    )
    async with grpc_without_cri(old) as socket:
        flags = (f"--runtime-endpoint={socket}", "--log.level=error")
        async with running("serve", ANYWHERE, *flags) as process:
            outcome = await process.ended()
    assert outcome.err.startswith(f"shadow-pleg: --runtime-endpoint: unix://{socket} speaks gRPC")
    assert outcome.code == 2


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda each: each.name)
async def test_a_signal_ends_a_check_that_hangs(signum: signal.Signals) -> None:
    """A runtime that never answers is no reason to kill -9, nor for a traceback."""
    asked = asyncio.Event()

    async def version(_request: bytes, _context: _Context) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    handler = grpc.unary_unary_rpc_method_handler(version)
    hung = grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", {"Version": handler})
    async with (
        grpc_without_cri(hung) as socket,
        running("check", f"--runtime-endpoint={socket}") as process,
    ):
        await until(asked.is_set, "the check asks for the version")
        outcome = await process.stop(signum)
    assert (outcome.code, outcome.err) == (0, "")


async def test_simulate_says_where_it_is_and_what_it_lost() -> None:
    """The embedded runtime alone: a socket for other tools, and a summary at the end."""
    with folder() as here:
        socket = here / "cri.sock"
        flags = (f"--socket=unix://{socket}", "--pods=1", "--containers-per-pod=1")
        async with running("simulate", *flags) as process:
            assert await process.printed() == f"containerd/2.1.9 on unix://{socket}\n"
            assert socket.is_socket()
            outcome = await process.stop()
        assert not socket.exists()
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == "lost, provably: all 0"


async def test_demo_prints_where_to_look() -> None:
    """One line, then a page that compares what was lost with what was counted."""
    async with running("demo", ANYWHERE, "--pods=2", "--drop=1", "--churn=20") as process:
        name, url = (await process.printed()).rsplit(" ", 1)
        assert name == "shadow-pleg demo:"
        page = await fetch(url.strip())
        outcome = await process.stop()
    assert page.status == 200
    assert "Injected by the embedded runtime, and counted here" in page.text
    assert outcome.code == 0


async def test_every_choice_can_come_from_the_environment() -> None:
    """A DaemonSet's manifest without a single flag."""
    async with simulated() as runtime:
        environ = {
            "CONTAINER_RUNTIME_ENDPOINT": runtime.endpoint,
            "SHADOW_PLEG_WEB_LISTEN_ADDRESS": "127.0.0.1:0",
            "SHADOW_PLEG_WEB_TELEMETRY_PATH": "/here",
            "SHADOW_PLEG_LOG_FORMAT": "json",
            "SHADOW_PLEG_MISSED_GRACE": "",
            "NODE_NAME": "node-7",
        }
        async with running("serve", **environ) as process:
            said = await process.logged("serving")
            metrics = await fetch(f"{said['url']}here")
            await process.stop()
    assert (said["node"], metrics.status) == ("node-7", 200)


async def test_who_reads_no_answer_gets_no_traceback_for_it() -> None:
    """As in `shadow-pleg check | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    with folder() as here:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "exporter", "check", f"--runtime-endpoint={here}/none.sock"),
            stdout=writing,
            stderr=asyncio.subprocess.PIPE,
        )
        os.close(writing)
        _, err = await process.communicate()
    assert err == b""
    assert process.returncode == 1


async def test_demo_without_room_for_its_socket_says_so() -> None:
    """A deep TMPDIR leaves no room for a socket's path: one line, no traceback."""
    with folder() as here:
        deep = here / ("x" * 100)
        deep.mkdir()
        async with running("demo", ANYWHERE, TMPDIR=str(deep)) as process:
            outcome = await process.ended()
    assert outcome.code == 2
    last = outcome.err.splitlines()[-1]
    assert last.startswith("shadow-pleg: ")
    assert "Traceback" not in outcome.err
