"""The runtime's socket: what it answers, how streams end, how it comes and goes."""

import asyncio
import socket
import stat
import time
from pathlib import Path

import pytest

from exporter.errors import CriError, CriUnavailableError
from simulator.channel import StreamEnding
from simulator.options import Options, Runtime
from simulator.service import Method
from testbed.waiting import until
from tests.support.cri_clients import PATIENT, Stream, client_of, states_of, subscribed
from tests.support.runtimes import QUIET, running_container, simulated
from tests.support.scripted_runtime import ScriptedServer


async def test_a_disconnect_ends_all_streams() -> None:
    """With UNAVAILABLE, or cleanly."""
    async with simulated() as server:
        async with subscribed(server) as one, subscribed(server) as two:
            server.disconnect()
            assert [await one.end(), await two.end()] == ["unavailable"] * 2
        async with subscribed(server) as stream:
            server.disconnect(StreamEnding.CLEAN)
            assert await stream.end() == "eof"


@pytest.mark.parametrize(
    ("runtime", "end"),
    [
        (Runtime.CONTAINERD_2, "unavailable"),
        (Runtime.CONTAINERD_1, "unavailable"),
        (Runtime.CRIO, "eof"),
    ],
)
async def test_a_restart_ends_streams_its_own_way(runtime: Runtime, end: str) -> None:
    """CRI-O ends them cleanly, containerd with UNAVAILABLE; the socket comes and goes."""
    async with simulated(Options(churn=0, runtime=runtime)) as server:
        async with subscribed(server) as stream:
            await server.go_down()
            assert await stream.end() == end
            assert not server.socket.exists()
        async with client_of(server.socket) as client:
            with pytest.raises(CriUnavailableError):
                await client.version(PATIENT)
        await server.come_up()
        assert stat.S_ISSOCK(server.socket.stat().st_mode)


@pytest.mark.virtual_time
async def test_lists_take_their_time_and_show_what_was_when_they_were_requested() -> None:
    """A slow answer is an old one."""
    async with simulated(Options(churn=0, list_latency=0.1)) as server:
        began = time.monotonic()
        listing = asyncio.create_task(states_of(server))
        await asyncio.sleep(0.15)
        running_container(server)
        assert await listing == {}
        assert time.monotonic() - began >= 0.2


async def test_it_stops_within_a_second_and_removes_its_socket(folder: Path) -> None:
    """Whatever is open or hangs."""
    path = folder / "cri.sock"
    async with client_of(path) as client:
        async with ScriptedServer(QUIET, path) as server:
            server.faults.hang(Method.VERSION)
            stream = Stream(server, client.subscribe(1, None))
            hanging = asyncio.create_task(client.version(PATIENT))
            await until(lambda: server.runtime.channel.subscribers == 1, "it is subscribed to")
            began = time.monotonic()
        assert time.monotonic() - began < 1.0
        assert not path.exists()
        assert await stream.end() == "unavailable"
        with pytest.raises(CriError):
            await hanging


async def test_it_replaces_a_socket_left_behind(folder: Path) -> None:
    """A killed runtime leaves its socket: the next one listens all the same."""
    path = folder / "cri.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    async with simulated(at=path), client_of(path) as client:
        assert (await client.version(PATIENT)).name == "containerd"


async def test_it_does_not_take_the_socket_of_another_server() -> None:
    """The other one goes on."""
    async with simulated() as server, client_of(server.socket) as client:
        with pytest.raises(OSError, match="another process serves"):
            async with simulated(at=server.socket):
                pass
        assert (await client.version(PATIENT)).name == "containerd"
