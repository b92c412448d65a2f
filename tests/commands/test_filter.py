"""`shadow-pleg filter` as a process: how it starts, what it holds, and how it ends."""

import asyncio
import itertools
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from h2.connection import H2Connection

from exporter.cri.client import CriClient
from exporter.errors import CriError
from simulator.churn import Churn
from simulator.options import Options
from testbed.http2 import framed
from testbed.waiting import until
from tests import ROOT
from tests.cri.test_hostile_runtime import FLAWED, LISTS, but_rarely, container, containers
from tests.support.commands import Filter, filtering, run_here
from tests.support.hostile_runtime import hostile, reply
from tests.support.measured import peak_mib
from tests.support.runtimes import PATIENT, ScriptedServer, client_of, running_container, simulated

MOST_MIB = 256
# A filter whose event loop stops turning soon after it began to serve.
HANGING = """
import asyncio, sys, time
from crifilter.server import run_filter
from crifilter.options import FilterOptions
from exporter.settings.config import Config
from pathlib import Path

async def main():
    asyncio.get_running_loop().call_later(0.2, time.sleep, 600)
    socket = Path(sys.argv[1])
    await run_filter(
        Config(runtime_endpoint=socket.with_name("none.sock"), watchdog_timeout=1.0),
        FilterOptions(socket=socket),
    )

asyncio.run(main())
"""


def libraries(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


async def test_the_filter_serves_until_a_signal_and_loads_nothing_that_faces_the_network() -> None:
    """Exit code 0, and nothing is left. What it loads is a part of what can be attacked."""
    async with simulated() as server, filtering(server.socket) as it:
        async with client_of(it.socket) as client:
            assert (await client.version(PATIENT)).name == "containerd"
        loaded = libraries(it.pid)
        assert "/grpc/" in loaded
        for library in ("aiohttp", "yarl", "multidict", "markupsafe", "bcrypt", "yaml"):
            assert f"/{library}/" not in loaded, library
        assert (await it.stop()).code == 0
        assert not it.socket.exists()


async def test_a_filter_that_hangs_ends_itself(folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HANGING, str(folder / "filter.sock")),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await asyncio.wait_for(process.communicate(), PATIENT * 3)
    assert process.returncode == 1
    assert b"Timeout (0:00:01)!" in err


async def answers(client: CriClient) -> bool:
    with suppress(CriError):
        return (await client.version(PATIENT)).name == "containerd"
    return False


# Lists in a night of one a second and a half, and of what else comes meanwhile.
NIGHT, TIMES = 20_000, 20
BUSY = Options(pods=110, churn=0)


@pytest.mark.soak
async def test_a_nights_lists_leases_and_restarts_leave_a_filters_memory_as_it_was() -> None:
    """The first quarter fills the allocator's pools; what comes after it may add 2 MiB."""
    sizes: list[float] = []
    async with (
        simulated(BUSY) as server,
        filtering(server.socket) as it,
        client_of(it.socket) as client,
    ):
        Churn(server.runtime).populate()
        for _ in range(TIMES):
            for number in range(NIGHT // TIMES):
                await client.lists(PATIENT)
                if number % 50 == 0:
                    with suppress(CriError):
                        await client.subscribe(number, 0.1).read(lambda _event: None)
                    await client.version(PATIENT)
            await server.restart()
            await until(lambda: answers(client), "the runtime is back")
            sizes.append(peak_mib(it.pid))
    assert sizes[-1] < sizes[TIMES // 4] + 2, sizes


async def test_a_client_that_leaves_amid_a_list_makes_no_noise() -> None:
    answers = {"ListContainers": reply(containers(container(1, "s")) * 20_000)}
    async with (
        hostile(answers) as (runtime, socket),
        filtering(socket) as it,
        client_of(it.socket) as client,
    ):
        writer = await called(it.socket, b"ListContainers")
        await until(lambda: runtime.calls["ListContainers"] > 0, "the call has come")
        writer.close()
        await client.version(PATIENT)


async def test_a_path_that_is_not_utf_8_ends_nothing_although_its_client_stays() -> None:
    """A server of gRPC ends, and waits for it: the filter makes another one, and counts."""
    async with simulated() as server, filtering(server.socket) as it:
        staying = [await served_on(it, server, number) for number in range(1, 4)]
        assert it.process.returncode is None
        for each in staying:
            each.close()


async def served_on(it: Filter, server: ScriptedServer, number: int) -> asyncio.StreamWriter:
    """Another client is served although this one sends such a path, as number such, and stays."""
    staying = await called(it.socket, b"\xff\xfe")
    denied = f'"denied": {number}'
    await until(lambda: denied in it.log, "it is counted")
    async with client_of(it.socket) as client:
        await until(lambda: answers(client), "it serves")
        events, asked = client.subscribe(0, lease=PATIENT), server.runtime.channel.subscriptions
        await until(lambda: server.runtime.channel.subscriptions > asked, "it is subscribed")
        _, container_id = running_container(server, f"web-{number}")
        heard = list[bytes]()

        def is_heard(raw: bytes) -> bool:
            heard.append(raw)
            return container_id.encode() in raw

        await events.read(is_heard)
        events.cancel()
        assert is_heard(heard[-1])
    return staying


async def called(path: Path, method: bytes) -> asyncio.StreamWriter:
    """A call as raw HTTP/2, whose answer is not read."""
    _, writer = await asyncio.open_unix_connection(path)
    path_of = b"/runtime.v1.RuntimeService/" + method
    headers = {b":method": b"POST", b":scheme": b"http", b":path": path_of, b":authority": b"f"}
    call = H2Connection()
    call.initiate_connection()
    call.send_headers(
        1, (headers | {b"content-type": b"application/grpc", b"te": b"trailers"}).items()
    )
    call.send_data(1, framed(b""), end_stream=True)
    writer.write(call.data_to_send())
    await writer.drain()
    return writer


@pytest.mark.usefixtures("borrowed_process")
def test_a_socket_that_cannot_be_made_is_refused(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    file = folder / "file"
    file.write_text("mine")
    (folder / ".b.sock").mkdir()
    (folder / ".c.sock").symlink_to(file)
    (folder / ".d.sock").symlink_to("none")
    loop = folder / "loop"
    loop.symlink_to(loop)
    for path, why in (
        (file, f"{file} exists and is not a socket"),
        (folder / "none" / "a.sock", f"no socket can be made in {folder}/none: it must exist"),
        (Path("/proc/a.sock"), "no socket can be made in /proc: it must exist and be writable"),
        (folder / "b.sock", f"{folder}/.b.sock exists and is needed meanwhile: remove it"),
        (folder / "c.sock", f"{folder}/.c.sock exists and is needed meanwhile: remove it"),
        (folder / "d.sock", f"{folder}/.d.sock exists and is needed meanwhile: remove it"),
        (loop / "a.sock", f"no socket can be made in {loop}: it must exist and be writable"),
    ):
        outcome = run_here(capsys, "filter", f"--socket=unix://{path}", "--log.level=error")
        assert outcome.complaint(2).startswith(f"--socket: cannot serve on unix://{path}: {why}")
    assert file.read_text() == "mine"


HOSTILE = {**LISTS, "crowded events": FLAWED["crowded events"][1]}


@pytest.mark.parametrize("sent", but_rarely(HOSTILE, "empty entries"))
async def test_nothing_that_a_runtime_sends_takes_more_memory_than_it_has(sent: str) -> None:
    async with (
        hostile(HOSTILE[sent]()) as (_, socket),
        filtering(socket) as it,
        client_of(it.socket) as client,
    ):
        subscription, events = client.subscribe(0, lease=PATIENT * 3), itertools.count(1)
        with suppress(CriError):
            await client.lists(PATIENT * 3)
        if "events" in sent:
            await subscription.read(lambda _: next(events) == 5)
        subscription.cancel()
        assert (await client.version(PATIENT)).name == "containerd"
        assert peak_mib(it.pid) < MOST_MIB
