"""Calls to a runtime and its event stream: answers as they are, every failure a `CriError`."""

import asyncio
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError, CriNotFoundError, CriUnavailableError, CriUnimplementedError
from simulator.options import Options
from simulator.service import Method
from testbed.waiting import until
from tests import ROOT
from tests.support.cri_messages import GARBAGE
from tests.support.peers import runtime_peer
from tests.support.runtimes import PATIENT, SOON, TOO_LARGE, client_of, connected

OK = grpc.StatusCode.OK
CODES = [code for code in grpc.StatusCode if code is not OK]
OF_THEIR_OWN = {
    grpc.StatusCode.UNAVAILABLE: CriUnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: CriUnavailableError,
    grpc.StatusCode.UNIMPLEMENTED: CriUnimplementedError,
    grpc.StatusCode.NOT_FOUND: CriNotFoundError,
}


async def test_lists_are_whole_and_stamped_before_they_are_asked_for() -> None:
    """Undecoded; what happened after the stamp may or may not be in them."""
    async with connected() as (server, client):
        sandbox = server.runtime.run_pod("cart")
        container = server.runtime.create(sandbox, "app")
        before = time.monotonic()
        lists = await client.lists(PATIENT)
        after = time.monotonic()
    assert before <= lists.requested <= after
    sandboxes = pb.ListPodSandboxResponse.FromString(*lists.sandboxes).items
    containers = pb.ListContainersResponse.FromString(*lists.containers).containers
    assert [each.id for each in sandboxes] == [sandbox]
    assert [each.id for each in containers] == [container]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name.lower())
async def test_each_code_of_grpc_becomes_a_cri_error(code: grpc.StatusCode) -> None:
    async with connected() as (server, client):
        for details in ("no luck", ""):
            server.faults.refuse_next(1, Method.VERSION, code=code, details=details)
            with pytest.raises(CriError) as caught:
                await client.version(PATIENT)
            assert type(caught.value) is OF_THEIR_OWN.get(code, CriError)
            assert caught.value.reason == code.name.lower()
            said = details or "no details"
            assert str(caught.value) == f"Version: {code.name.lower()}: {said}"


STREAMED = Options(pods=5, containers_per_pod=4, churn=0, stream_lists=3)


async def test_a_runtime_that_cannot_is_asked_once_until_it_may_be_another() -> None:
    async with connected(replace(STREAMED, stream_lists=0)) as (server, client):
        await client.lists(PATIENT)
        server.runtime.options = STREAMED
        assert len((await client.lists(PATIENT)).containers) == 1
        client.reconsider()
        assert len((await client.lists(PATIENT)).containers) == 7


@pytest.mark.parametrize("method", [Method.STREAM_POD_SANDBOXES, Method.STREAM_CONTAINERS])
async def test_half_a_streamed_list_is_none(method: Method) -> None:
    """It would prove removals that never were. The next one is streamed again."""
    async with connected(STREAMED) as (server, client):
        server.faults.refuse_next(1, method)
        with pytest.raises(CriUnavailableError, match=f"{method.value}: unavailable"):
            await client.lists(PATIENT)
        assert len((await client.lists(PATIENT)).containers) == 7
        server.faults.refuse_next(1, method, code=grpc.StatusCode.UNIMPLEMENTED)
        lists = await client.lists(PATIENT)
    items = ListDecoder().items(lists.sandboxes, lists.containers)
    assert len(items) == len({item.id for item in items}) == 25


async def test_a_hung_list_in_parts_ends_with_the_relists_deadline() -> None:
    async with connected(STREAMED) as (server, client):
        server.faults.hang(Method.STREAM_CONTAINERS)
        with pytest.raises(CriUnavailableError, match="StreamContainers") as caught:
            async with asyncio.timeout(PATIENT):
                await client.lists(SOON)
    assert caught.value.reason == "deadline_exceeded"


@pytest.mark.parametrize(
    ("method", "inquiry"), [(Method.VERSION, None), (Method.CONTAINER_STATUS, "c1")]
)
async def test_an_answer_that_is_no_message_is_an_error(
    method: Method, inquiry: str | None
) -> None:
    async with connected() as (server, client):
        server.faults.reply_next(method, GARBAGE)
        with pytest.raises(CriError, match="the answer is no protobuf message") as caught:
            await (client.version(PATIENT) if inquiry is None else client.inquire(inquiry, PATIENT))
    assert caught.value.reason == "internal"


async def test_a_list_beyond_32_mebibytes_is_an_error_and_the_connection_lives() -> None:
    """The limit protects memory; the next list may fit again."""
    async with connected() as (server, client):
        server.faults.reply_next(Method.LIST_CONTAINERS, TOO_LARGE)
        with pytest.raises(CriError, match="ListContainers: resource_exhausted: ") as caught:
            await client.lists(PATIENT)
        assert caught.value.reason == "resource_exhausted"
        assert (await client.lists(PATIENT)).containers == (b"",)


async def test_a_runtime_is_unavailable_without_a_server_and_after_the_end(folder: Path) -> None:
    async with client_of(folder / "none.sock") as absent, connected() as (_, closed):
        await closed.close()
        for client in (absent, closed):
            with pytest.raises(CriUnavailableError) as caught:
                await client.version(PATIENT)
            assert caught.value.reason == "unavailable"


async def test_a_cancelled_subscription_is_given_up_by_the_runtime() -> None:
    async with connected() as (server, client):
        subscription = client.subscribe(0, None)
        await until(lambda: server.runtime.channel.subscribers == 1, "it is subscribed")
        subscription.cancel()
        with pytest.raises(asyncio.CancelledError):
            await subscription.read(lambda _raw: None)
        server.runtime.run_pod("cart")
        await until(lambda: server.runtime.channel.subscribers == 0, "the runtime let go")


GOAWAY = b"\0\0\x08\x07\0\0\0\0\0" + bytes(8)
# Of resident memory. The calls themselves take 3; with retries it was 20 to 5000.
MOST_MIB = 10.0
PROGRAM = """
import asyncio, sys
from pathlib import Path
from exporter.cri.client import CriClient
from exporter.errors import CriError
from tests.support.measured import peak_mib

async def main():
    before = peak_mib()
    clients = [CriClient(Path(sys.argv[1])) for _ in range(20)]
    calls = [call(5.0) for each in clients for call in (each.version, each.lists)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    print(peak_mib() - before, sum(isinstance(each, CriError) for each in outcomes))

asyncio.run(main())
"""


async def test_calls_that_a_goaway_refuses_take_no_memory() -> None:
    """By default gRPC retries them in a loop without pause, and keeps what each attempt took."""
    # Both that a client makes at once.
    async with runtime_peer(GOAWAY, calls=2) as socket:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, str(socket)), stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        out, _ = await process.communicate()
    grown, failed = out.split()
    assert int(failed) == 40
    assert float(grown) < MOST_MIB


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "a%41b", "ä", "a:b"])
async def test_a_sockets_path_may_hold_any_character(name: str) -> None:
    """To gRPC it is a URI; what is special there is a letter like any other in a path."""
    async with connected() as (server, _):
        odd = server.socket.with_name(name)
        os.link(server.socket, odd)
        # As in `unix:////run/...`: to the kernel it is the same path.
        async with client_of(Path(f"/{odd}")) as client:
            assert (await client.version(PATIENT)).name == "containerd"
