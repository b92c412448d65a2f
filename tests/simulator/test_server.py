"""The runtime's socket: who is there, how streams end, how it comes and goes."""

from __future__ import annotations

import asyncio
import socket
import stat
import time
from pathlib import Path

import grpc
import grpc.aio
import pytest

from exporter.simulator.calls import Method
from exporter.simulator.channel import End
from exporter.simulator.options import Events, Options, Runtime
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.server import serve
from tests.support.plain_client import (
    FENCE,
    Client,
    connected,
    eventually,
    serving,
    socket_path,
    subscribed,
)

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def quiet(runtime: Runtime = Runtime.CONTAINERD_2, events: Events = Events.ON) -> Options:
    """That runtime, without churn or faults."""
    return Options(churn=0, runtime=runtime, events=events)


@pytest.mark.parametrize("runtime", Runtime)
async def test_version_names_the_imitated_runtime(runtime: Runtime) -> None:
    """Name and version as the real one gives them."""
    async with serving(quiet(runtime)) as server, connected(server) as client:
        version = await client.version()
    assert f"{version.runtime_name}/{version.runtime_version}" == runtime.value
    assert version.runtime_api_version == "v1"


async def test_status_tells_whether_a_container_ran() -> None:
    """started_at is 0 for one whose start failed, and an unknown one is NOT_FOUND."""
    async with serving() as server, connected(server) as client:
        runtime = server.runtime
        pod = runtime.run_pod("web")
        ran, failed = runtime.create(pod, "a"), runtime.create(pod, "b")
        runtime.start(ran)
        runtime.fail_start(failed)
        assert (await client.status(ran)).started_at > 0
        assert (await client.status(failed)).started_at == 0
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await client.status("0" * 64)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_container_deleted_below_is_listed_but_has_no_details() -> None:
    """The plain status answers, the verbose one is NOT_FOUND."""
    async with serving() as server, connected(server) as client:
        runtime = server.runtime
        container = runtime.create(runtime.run_pod("web"), "a")
        runtime.start(container)
        runtime.exit(container)
        runtime.delete_below(container)
        assert container in await client.containers()
        assert (await client.status(container)).id == container
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await client.status(container, verbose=True)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("events", "code"),
    [
        (Events.DISABLED, grpc.StatusCode.OK),
        (Events.UNIMPLEMENTED, grpc.StatusCode.UNIMPLEMENTED),
    ],
)
async def test_a_stream_that_is_off_ends_at_once(events: Events, code: grpc.StatusCode) -> None:
    """Cleanly where events are disabled, UNIMPLEMENTED where there are none."""
    async with serving(quiet(events=events)) as server, connected(server) as client:
        assert await client.events().end() is code


async def test_a_leased_stream_ends_by_its_deadline() -> None:
    """The server itself honours the deadline of the call."""
    async with serving() as server, connected(server) as client:
        stream = client.events(deadline=0.1)
        assert await stream.end() is grpc.StatusCode.DEADLINE_EXCEEDED
        await eventually(lambda: server.runtime.channel.subscribers == 0)


async def test_a_disconnect_ends_all_streams() -> None:
    """As the script wants it: UNAVAILABLE or clean."""
    async with serving() as server:
        async with subscribed(server) as one, subscribed(server) as two:
            server.disconnect()
            assert await one.end() is UNAVAILABLE
            assert await two.end() is UNAVAILABLE
        async with subscribed(server) as stream:
            server.disconnect(End.CLEAN)
            assert await stream.end() is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("runtime", "code"),
    [
        (Runtime.CONTAINERD_2, UNAVAILABLE),
        (Runtime.CONTAINERD_1, UNAVAILABLE),
        (Runtime.CRIO, grpc.StatusCode.OK),
    ],
)
async def test_a_restart_ends_streams_its_own_way(runtime: Runtime, code: grpc.StatusCode) -> None:
    """CRI-O ends them cleanly, containerd with UNAVAILABLE; the socket comes and goes."""
    async with serving(quiet(runtime)) as server:
        async with subscribed(server) as stream:
            await server.go_down()
            assert await stream.end() is code
            assert not server.socket.exists()
        async with connected(server) as client:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await client.version()
            assert error.value.code() is UNAVAILABLE
        await server.come_up()
        assert stat.S_ISSOCK(server.socket.stat().st_mode)


async def test_a_restart_keeps_state_and_announces_nothing_of_the_outage() -> None:
    """What exits meanwhile is listed EXITED afterwards, and never announced."""
    async with serving() as server:
        runtime = server.runtime
        container = runtime.create(runtime.run_pod("web"), "app")
        runtime.start(container)
        restart = asyncio.create_task(server.restart(outage=0.01))
        await eventually(lambda: not runtime.up)
        runtime.exit(container)
        await restart
        async with subscribed(server) as stream, connected(server) as client:
            assert (await client.containers())[container] == "EXITED"
            server.announce_raw(FENCE)
            assert await stream.until("fence") == []


async def test_calls_can_be_refused_and_lists_hang() -> None:
    """Refusals are counted down per method; a hanging call ends by its own deadline."""
    async with serving() as server, connected(server) as client:
        server.faults.refuse_next(
            1, Method.LIST_POD_SANDBOX, code=grpc.StatusCode.INTERNAL, details="disk full"
        )
        with pytest.raises(grpc.aio.AioRpcError, match="disk full"):
            await client.sandboxes()
        assert await client.sandboxes() == {}
        server.faults.hang(Method.LIST_CONTAINERS)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await client.call("ListContainers", deadline=0.05)
        assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await eventually(lambda: server.faults.waiting == 0)
        waiting = asyncio.create_task(client.containers())
        await eventually(lambda: server.faults.waiting == 1)
        server.faults.refuse_next(1, Method.LIST_CONTAINERS)
        server.faults.resume()
        with pytest.raises(grpc.aio.AioRpcError, match="refused on purpose"):
            await waiting


async def test_lists_take_their_time_and_show_what_was_when_they_were_asked_for() -> None:
    """A slow answer is an old one."""
    async with serving(Options(churn=0, list_latency=0.1)) as server, connected(server) as client:
        asked = asyncio.create_task(client.sandboxes())
        began = time.monotonic()
        assert await asked == {}
        assert time.monotonic() - began >= 0.1


async def test_it_stops_within_a_second_and_takes_its_socket_along() -> None:
    """Whatever is open or hangs."""
    with socket_path() as path:
        async with serve(SimulatedRuntime(quiet()), path) as server:
            server.faults.hang(Method.VERSION)
            client = Client(path)
            stream = client.events()
            hanging = asyncio.create_task(client.version())
            await eventually(lambda: server.runtime.channel.subscribers == 1)
            began = time.monotonic()
        assert time.monotonic() - began < 1.0
        assert not path.exists()
        assert await stream.end() is UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError):
            await hanging
        await client.close()


def leave_behind(path: Path) -> None:
    """Bind a socket there, and go away."""
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


async def test_it_takes_the_place_of_a_socket_left_behind() -> None:
    """A killed runtime leaves its socket: the next one listens all the same."""
    with socket_path() as path:
        leave_behind(path)
        async with serve(SimulatedRuntime(quiet()), path) as server, connected(server) as client:
            assert (await client.version()).runtime_name == "containerd"


async def test_it_does_not_touch_what_is_not_its_own() -> None:
    """Neither a socket that somebody serves, nor a file."""
    async with serving() as server, connected(server) as client:
        with pytest.raises(OSError, match="somebody serves"):
            async with serve(SimulatedRuntime(quiet()), server.socket):
                pass
        assert (await client.version()).runtime_name == "containerd"
        file = server.socket.with_name("file")
        write(file)
        with pytest.raises(OSError, match="no socket"):
            async with serve(SimulatedRuntime(quiet()), file):
                pass
        assert file.read_text() == "mine"


def write(path: Path) -> None:
    """Make a file there."""
    path.write_text("mine")


async def test_it_says_where_it_cannot_listen() -> None:
    """A folder that is not there is an error, not a silent runtime."""
    with socket_path() as path, pytest.raises(OSError, match="cannot listen"):
        async with serve(SimulatedRuntime(quiet()), path.parent / "no" / "cri.sock"):
            pass
