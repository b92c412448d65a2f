"""The filter in front of a runtime: what passes, what is left of it, and what a client can do."""

import asyncio
import os
import socket
import stat
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from structlog.typing import EventDict

from conformance.cri_client import encoded
from crifilter.calls import ALLOWED, EVENTS, PODS_ALLOWED, UNDECODABLE, AllowedCall, trimmed_event
from crifilter.server import Filter, serving
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import SERVICE
from exporter.cri.decode import Decoder
from exporter.cri.endpoint import Endpoint
from exporter.cri.lists import ListDecoder
from exporter.errors import CriNotFoundError, CriUnavailableError, KubeletError
from exporter.kubelet.pods import WATCH
from exporter.model.events import Inquiry
from exporter.model.facts import Discarded
from exporter.model.labels import Malformed, PodsEnd
from simulator.options import Options
from simulator.service import Method
from testbed.http2 import Connection
from testbed.waiting import until
from tests.support.hostile_runtime import HostileRuntime
from tests.support.observer import tasks
from tests.support.runtimes import (
    NOBODY,
    PATIENT,
    ScriptedServer,
    client_of,
    connected,
    short_folder,
    without_privileges,
)

DENIED = (
    *(
        SERVICE + name
        for name in (
            *("ExecSync", "RunPodSandbox", "StopContainer", "PodSandboxStatus", "Status"),
            *("version", "Version/", "/Version", "Version?x", "Version%20", "%56ersion"),
            *("../RuntimeService/Version", "./Version", "Versio\u006e\u0301", ""),
        )
    ),
    "/runtime.v1alpha2.RuntimeService/Version",
    "/runtime.v1.ImageService/PullImage",
    "/containerd.services.tasks.v1.Tasks/Exec",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/",
)
SECRET = b"PASSWORD=hunter2"
STATUS = pb.PodSandboxStatus(id="s1", metadata=pb.PodSandboxMetadata(name="web-0"))
# What each call's answer holds that the exporter reads.
ANSWERS = {
    SERVICE + "Version": pb.VersionResponse(runtime_name="containerd", runtime_version="2.1.9"),
    SERVICE + "ListPodSandbox": pb.ListPodSandboxResponse(items=[pb.PodSandbox(id="s1")]),
    SERVICE + "StreamPodSandboxes": pb.ListPodSandboxResponse(items=[pb.PodSandbox(id="s1")]),
    SERVICE + "ListContainers": pb.ListContainersResponse(containers=[pb.Container(id="c1")]),
    SERVICE + "StreamContainers": pb.ListContainersResponse(containers=[pb.Container(id="c1")]),
    SERVICE + "ContainerStatus": pb.ContainerStatusResponse(
        status=pb.ContainerStatus(id="c1", started_at=7)
    ),
    EVENTS: pb.ContainerEventResponse(container_id="c1", created_at=5, pod_sandbox_status=STATUS),
}
GARBAGE = b"\x0a\xff"


# One that `proto/` does not describe.
NOTE = encoded({100: SECRET})


@dataclass(slots=True)
class Runtime:
    """A runtime that answers every call alike. `left`: calls that ended before they were answered.

    `answers`: sent in order; then the call ends with `code`, or hangs. `written`: answers that
    gRPC took. `deadlines`: what was left of each. `pace`: one for each answer, if any is given.
    """

    answers: list[bytes] = field(default_factory=list)
    code: grpc.StatusCode = grpc.StatusCode.OK
    hangs: bool = False
    pace: asyncio.Semaphore | None = None
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    deadlines: list[float | None] = field(default_factory=list)
    waiting: int = 0
    left: int = 0
    written: int = 0

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """What serves that method: gRPC's own interface."""
        return grpc.unary_stream_rpc_method_handler(partial(self._answer, details.method))

    async def _answer(self, path: str, request: bytes, context: Any) -> None:
        self.requests.append((path, request))
        self.deadlines.append(context.time_remaining())
        self.waiting += 1
        try:
            for answer in self.answers:
                if self.pace:
                    await self.pace.acquire()
                await context.write(answer)
                self.written += 1
            if self.hangs:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.left += 1
            raise
        finally:
            self.waiting -= 1
        if self.code is not grpc.StatusCode.OK:
            await context.abort(self.code, "no luck")


@dataclass(frozen=True, slots=True)
class Filtered:
    """A filter in front of a runtime, and a client of it."""

    runtime: Runtime
    filter: Filter
    socket: Path
    channel: Any

    def call(self, path: str, request: bytes = b"", timeout: float | None = PATIENT) -> Any:
        return self.channel.unary_stream(path)(request, timeout=timeout)

    async def all(self, path: str, request: bytes = b"") -> bytes:
        return b"".join([each async for each in self.call(path, request)])

    async def refusal(self, path: str, request: bytes = b"") -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.all(path, request)
        return caught.value


@asynccontextmanager
async def filtered(
    runtime: Runtime | None = None, allowed: Mapping[str, AllowedCall] = ALLOWED
) -> AsyncIterator[Filtered]:
    runtime = runtime or Runtime()
    with short_folder() as folder:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((runtime,))  # type: ignore[arg-type] # not of its class
        server.add_insecure_port(f"unix:{folder}/cri.sock")
        await server.start()
        # As little as possible is taken that no client reads.
        small = [("grpc.http2.bdp_probe", 0), ("grpc.max_receive_message_length", -1)]
        channel: Any = grpc.aio.insecure_channel(f"unix:{folder}/filter.sock", options=small)
        try:
            it, socket = (
                Filter(Endpoint(folder / "cri.sock").socket, allowed),
                folder / "filter.sock",
            )
            async with serving(it, socket, None):
                yield Filtered(runtime, it, socket, channel)
        finally:
            await channel.close()
            await server.stop(0)


async def test_everything_else_is_denied_and_never_reaches_the_runtime(
    log: list[EventDict],
) -> None:
    async with filtered() as it:
        for path in DENIED:
            assert (await it.refusal(path)).code() is grpc.StatusCode.PERMISSION_DENIED, path
        assert it.filter.denied == len(DENIED)
        assert it.runtime.requests == []
    assert [line["denied"] for line in log if line["event"] == "call denied"][-1] == len(DENIED)


def test_what_is_allowed_is_what_the_exporter_calls() -> None:
    """The methods of the simulated runtime, which has no others."""
    assert set(ALLOWED) == {SERVICE + method.value for method in Method}


@pytest.mark.parametrize("stream_lists", [0, 3])
async def test_the_exporters_own_client_notices_no_difference(
    folder: Path, stream_lists: int
) -> None:
    options = Options(pods=5, containers_per_pod=4, churn=0, stream_lists=stream_lists)
    socket = folder / "filter.sock"
    async with (
        connected(options) as (server, direct),
        serving(Filter(Endpoint(server.socket).socket, ALLOWED), socket, None),
        client_of(socket) as client,
    ):
        assert await client.version(PATIENT) == await direct.version(PATIENT)
        ours, theirs = await client.lists(PATIENT), await direct.lists(PATIENT)
        assert len(ours.containers) == len(theirs.containers) == (7 if stream_lists else 1)
        items = ListDecoder().items(ours.sandboxes, ours.containers)
        assert items == ListDecoder().items(theirs.sandboxes, theirs.containers)
        some = items[-1].id
        assert await client.inquire(some, PATIENT) is Inquiry.STARTED
        assert await client.audit(some, PATIENT) is None
        server.runtime.deleted_below.add(some)
        assert await client.audit(some, PATIENT) is Inquiry.DELETED_BELOW
        for call in (client.inquire, client.audit):
            with pytest.raises(CriNotFoundError, match="ContainerStatus: not_found: "):
                await call("gone", PATIENT)


@pytest.mark.parametrize("path", ALLOWED)
async def test_nothing_that_the_exporter_does_not_read_comes_through(path: str) -> None:
    known = ANSWERS[path].SerializeToString()
    async with filtered(Runtime(answers=[NOTE + known + NOTE])) as it:
        assert await it.all(path) == known


@pytest.mark.parametrize("name", ["StreamPodSandboxes", "ListContainers"])
async def test_a_large_list_comes_through_without_annotations(name: str) -> None:
    entries = [pb.Container(id=f"{n:064x}").SerializeToString() for n in range(20_000)]
    note = encoded({100: b"x" * 120}) * 8
    async with filtered(Runtime(answers=[_listed(*(each + note for each in entries))])) as it:
        assert await it.all(SERVICE + name) == _listed(*entries)


def _listed(*entries: bytes) -> bytes:
    """A list of these; what they hold that is not described stays in them."""
    items = map(pb.Container.FromString, entries)
    return pb.ListContainersResponse(containers=items).SerializeToString()


async def test_a_containers_environment_stays_with_the_filter() -> None:
    """`info` is dropped, and `verbose` passed on: only so does a container's absence show."""
    known = ANSWERS[SERVICE + "ContainerStatus"].SerializeToString()
    async with filtered(Runtime(answers=[known + encoded({2: SECRET})])) as it:
        request = pb.ContainerStatusRequest(container_id="c1", verbose=True).SerializeToString()
        answer = await it.all(SERVICE + "ContainerStatus", request + NOTE)
        assert it.runtime.requests == [(SERVICE + "ContainerStatus", request)]
    assert answer == known


@pytest.mark.parametrize("path", ALLOWED)
async def test_deadlines_are_passed_on(path: str) -> None:
    async with filtered() as it:
        for timeout in (PATIENT, None):
            assert await it.call(path, timeout=timeout).code() is grpc.StatusCode.OK
        (deadline, none) = it.runtime.deadlines
    assert deadline is not None
    # gRPC rounds them up.
    assert PATIENT / 2 < deadline <= PATIENT * 1.05
    assert none is None


@pytest.mark.parametrize("path", ALLOWED)
async def test_a_call_that_is_given_up_is_given_up_at_the_runtime(path: str) -> None:
    async with filtered(Runtime(hangs=True)) as it:
        first = it.call(path)
        await until(lambda: it.runtime.waiting == 1, "the runtime has it")
        first.cancel()
        await until(lambda: it.runtime.left == 1, "the runtime notices")
        second = it.call(path)
        await until(lambda: it.runtime.waiting == 1, "the runtime has the next one")
        assert not second.done()
        await it.channel.close()
        await until(lambda: it.runtime.left == 2, "the runtime notices")


async def test_subscriptions_reach_the_runtime_before_the_question_that_follows() -> None:
    """An answer to Version shows that the runtime has got the subscription."""
    async with filtered() as it:
        await it.all(SERVICE + "Version")
        it.runtime.requests.clear()
        for _ in range(8):
            calls = [it.call(EVENTS), it.call(SERVICE + "Version")]
            for call in calls:
                assert await call.code() is grpc.StatusCode.OK
    assert [path for path, _ in it.runtime.requests] == [EVENTS, SERVICE + "Version"] * 8


async def test_lists_have_a_connection_of_their_own(folder: Path) -> None:
    """Version shares that of the subscriptions, so that it cannot overtake them."""
    runtime, connections = HostileRuntime({}), list[Connection]()

    def connect() -> Connection:
        connections.append(runtime.connection())
        return connections[-1]

    server = await asyncio.get_running_loop().create_unix_server(connect, folder / "cri.sock")
    it, path = Filter(Endpoint(folder / "cri.sock").socket, ALLOWED), folder / "filter.sock"
    async with server, serving(it, path, None), client_of(path) as client:
        subscription = client.subscribe(0, lease=None)
        await client.version(PATIENT)
        await until(lambda: runtime.calls["GetContainerEvents"] == 1, "it is subscribed")
        assert len(connections) == 1
        await client.lists(PATIENT)
        assert len(connections) == 2
        subscription.cancel()
    for each in connections:
        await until(lambda one=each: one.transport is None, "it ends with the filter")  # type: ignore[misc]


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code.value[0]])
async def test_the_runtimes_errors_are_passed_on(code: grpc.StatusCode) -> None:
    async with filtered(Runtime(code=code)) as it:
        for path in (SERVICE + "ContainerStatus", SERVICE + "StreamContainers", EVENTS):
            failed = await it.refusal(path)
            assert (failed.code(), failed.details()) == (code, "no luck")


async def test_what_is_no_message_is_said_so() -> None:
    event = ANSWERS[EVENTS].SerializeToString()
    async with filtered(Runtime(answers=[GARBAGE, event])) as it:
        failed = await it.refusal(SERVICE + "ContainerStatus", GARBAGE)
        assert failed.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert it.runtime.requests == []
        assert (await it.refusal(SERVICE + "ListContainers")).code() is grpc.StatusCode.INTERNAL
        decoder, events = Decoder(), [each async for each in it.call(EVENTS)]
        heard = [decoder.event(each, 0.0, 2**62, 0) for each in events]
    assert [isinstance(each, tuple) for each in heard] == [False, True]
    assert heard[0] == Discarded(0.0)
    assert decoder.flaws == Counter({Malformed.UNDECODABLE: 1})


async def test_a_large_request_is_refused() -> None:
    request = pb.ContainerStatusRequest(container_id="c" * 5000).SerializeToString()
    async with filtered() as it:
        failed = await it.refusal(SERVICE + "ContainerStatus", request)
        assert failed.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert it.runtime.requests == []


async def read(call: Any, got: list[bytes]) -> None:
    async for raw in call:
        got.append(raw)  # noqa: PERF401 - also if the call fails in the end


@pytest.mark.parametrize(("size", "held"), [(64, 4000), (4096, 1000)])
async def test_a_client_that_does_not_read_delays_no_other(
    log: list[EventDict], size: int, held: int
) -> None:
    """The runtime sends all it has until the filter lets go, and the client learns it at once.

    What waited in the filter is not sent any more: meanwhile the client's next subscription would
    bring younger events, which prove a loss.
    """
    many = [pb.ContainerEventResponse(container_id=f"{n:0{size}x}") for n in range(3 * held)]
    answers, got = [each.SerializeToString() for each in many], list[bytes]()
    async with filtered(Runtime(answers=answers, hangs=True)) as it:
        slow = it.call(EVENTS, timeout=None)
        await until(lambda: it.runtime.left == 1, "the filter lets go", seconds=PATIENT)
        assert it.filter.overflows == 1
        assert it.runtime.written < len(answers)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read(slow, got)
    assert caught.value.code() is grpc.StatusCode.DATA_LOSS
    assert 0 < len(got) < held
    assert got == answers[: len(got)]
    assert [line["overflows"] for line in log if "does not read" in line["event"]] == [1]


async def test_a_client_that_reads_gets_any_number_of_events() -> None:
    large = pb.ContainerEventResponse(container_id="c" * 100_000).SerializeToString()
    pace, got = asyncio.Semaphore(1), list[bytes]()
    async with filtered(Runtime(answers=[large] * 60, pace=pace)) as it:
        async for raw in it.call(EVENTS):
            got.append(raw)
            pace.release()
    assert got == [large] * 60


def test_of_a_crowded_event_only_the_container_is_left() -> None:
    """Two bytes of it become a hundred in memory, so it is not decoded."""
    known = pb.ContainerEventResponse(container_id="c1").SerializeToString()
    empty_status = b"\x2a\x00"
    assert trimmed_event(known + empty_status * 100_000) == known + UNDECODABLE


@pytest.mark.parametrize("path", [EVENTS, SERVICE + "ContainerStatus"])
async def test_calls_at_a_time_are_bounded(path: str) -> None:
    most = 8
    async with filtered(Runtime(hangs=True)) as it:
        calls = [it.call(path) for _ in range(most)]
        await until(lambda: it.runtime.waiting == most, "the runtime has them")
        assert (await it.refusal(path)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        calls[0].cancel()
        await until(lambda: it.runtime.left == 1, "the runtime notices")
        again = it.call(path)
        await until(lambda: len(it.runtime.requests) == most + 1, "another one comes through")
        again.cancel()
        assert it.filter.denied == 1


def asks_and_leaves(path: Path) -> None:
    """Calls that are refused, given up at about the moment of the refusal."""
    channel: Any = grpc.insecure_channel(f"unix:{path}")
    with channel:
        for number in range(200):
            with suppress(grpc.RpcError):
                channel.unary_unary(DENIED[0])(b"", timeout=0.001 * (1 + number % 10))


async def test_clients_that_leave_when_they_are_refused_make_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else gRPC writes a traceback for some of them, whose refusal it cannot send."""
    async with filtered() as it:
        await asyncio.gather(*(asyncio.to_thread(asks_and_leaves, it.socket) for _ in range(16)))
        assert it.filter.denied > 0
    assert [each.getMessage() for each in caplog.records if each.name.startswith("grpc")] == []


async def test_a_list_is_not_decoded_as_a_whole() -> None:
    """A hostile one would take gigabytes: it fails after some of its entries."""
    async with filtered(Runtime(answers=[_listed(b"") * 1_000_000])) as it:
        failed = await it.refusal(SERVICE + "ListContainers")
    assert "entries" in str(failed.details())


@pytest.mark.parametrize("name", ["ListContainers", "ListPodSandbox"])
async def test_there_is_one_list_at_a_time(name: str) -> None:
    """Eight unread ones took 338 MiB; the next one begins when one is read or given up."""
    listed = SERVICE + name
    async with filtered(Runtime(answers=[_listed(b"\x0a\x01c") * 100_000])) as it:
        unread = it.call(listed)
        await until(lambda: it.runtime.written == 1, "the first has an answer")
        waiting = it.call(listed)
        await it.all(SERVICE + "ContainerStatus")
        assert [path for path, _ in it.runtime.requests].count(listed) == 1
        unread.cancel()
        assert len([each async for each in waiting]) == 1


async def test_connections_are_bounded() -> None:
    async with filtered() as it, AsyncExitStack() as stack:

        async def open_ones() -> int:
            many = [stack.enter_context(connected_to(it.socket)) for _ in range(50)]
            greeted = [asyncio.to_thread(each.recv, 1) for each in many]
            return sum(map(bool, await asyncio.gather(*greeted)))

        async def is_served() -> bool:
            # Until it has noticed that those have ended, a new connection is reset.
            return await it.call(SERVICE + "Version").code() is grpc.StatusCode.OK

        assert 20 < await open_ones() < 33
        assert not await is_served()
        await stack.aclose()
        await until(is_served, "others come in")


def connected_to(path: Path) -> socket.socket:
    """A connection; gRPC's server speaks first."""
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(PATIENT)
    one.connect(str(path))
    return one


@pytest.mark.parametrize(("path", "allowed"), [(EVENTS, ALLOWED), (WATCH, PODS_ALLOWED)])
async def test_subscriptions_cannot_be_opened_without_limit(
    path: str, allowed: Mapping[str, AllowedCall]
) -> None:
    """A runtime keeps each one that has ended until its next event."""
    async with filtered(allowed=allowed) as it:
        codes = Counter([await it.call(path).code() for _ in range(40)])
        assert codes[grpc.StatusCode.RESOURCE_EXHAUSTED] > 20
        assert len(it.runtime.requests) == codes[grpc.StatusCode.OK] >= 10


async def test_a_runtime_that_is_back_is_used_at_once(server: ScriptedServer, folder: Path) -> None:
    socket = folder / "filter.sock"
    async with (
        serving(Filter(Endpoint(server.socket).socket, ALLOWED), socket, None),
        client_of(socket) as client,
    ):
        await client.lists(PATIENT)
        await client.version(PATIENT)
        await server.go_down()
        for _ in range(5):
            for call in (client.lists, client.version):
                with pytest.raises(CriUnavailableError) as caught:
                    await call(PATIENT)
        assert "no runtime socket" in str(caught.value)
        await server.come_up()
        await client.lists(PATIENT)
        await client.version(PATIENT)


async def test_a_task_that_fails_may_have_ended_the_server_and_a_callback_has_not(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another server is then made: one that serves no more would go unnoticed."""
    loop, it = asyncio.get_running_loop(), Filter(Endpoint(None).socket, ALLOWED)
    loop.set_exception_handler(it.failed)
    loop.call_soon(next, iter(()))
    await asyncio.sleep(0)
    assert not it.ended.is_set()
    loop.create_task(asyncio.to_thread(divmod, 1, 0))
    await until(it.ended.is_set, "it is noticed")
    assert it.denied == 0
    assert [each.name for each in caplog.records] == ["asyncio"] * 2
    async with serving(it, folder / "filter.sock", None):
        assert not it.ended.is_set()
    # That of a path is a refusal.
    loop.create_task(asyncio.to_thread(bytes.decode, b"\xff"))
    await until(it.ended.is_set, "it is noticed, too")
    assert it.denied == 1
    assert len(caplog.records) == 2


async def test_a_call_under_way_survives_the_failure_of_another() -> None:
    """Both are on one connection, which is only made anew when nothing is on it."""
    async with filtered(Runtime(hangs=True)) as it:
        subscription = it.call(EVENTS)
        await until(lambda: it.runtime.waiting == 1, "the runtime has it")
        it.runtime.hangs, it.runtime.code = False, grpc.StatusCode.UNAVAILABLE
        for _ in range(2):
            failed = await it.refusal(SERVICE + "Version")
            assert failed.code() is grpc.StatusCode.UNAVAILABLE
        assert it.runtime.waiting == 1
        assert not subscription.done()


@pytest.mark.parametrize(
    ("reason", "code"),
    [(PodsEnd.DENIED, "PERMISSION_DENIED"), (PodsEnd.UNSUPPORTED, "UNAVAILABLE")],
)
async def test_a_socket_that_may_not_be_opened_is_said_to_be_so(
    folder: Path, reason: PodsEnd, code: str
) -> None:
    def find() -> Path:
        raise KubeletError(reason.value, "no luck")

    path = folder / "filter.sock"
    channel: Any = grpc.aio.insecure_channel(f"unix:{path}")
    async with serving(Filter(find, PODS_ALLOWED), path, None), channel:
        call = channel.unary_stream(WATCH)(b"")
        assert (await call.code(), await call.details()) == (grpc.StatusCode[code], "no luck")


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


@pytest.mark.parametrize("group", [None, NOBODY])
async def test_only_the_group_may_connect(folder: Path, group: int | None) -> None:
    if group and os.geteuid():
        pytest.skip("only root can give a socket to any group")
    path = folder / "filter.sock"
    for _ in range(2):
        async with serving(Filter(Endpoint(None).socket, ALLOWED), path, group):
            status = path.stat()
            assert stat.S_IMODE(status.st_mode) == 0o660
            owners = os.geteuid(), os.getegid() if group is None else group
            assert (status.st_uid, status.st_gid) == owners
            assert names(folder) == [path.name]
        assert names(folder) == []
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))


def modes_in(folder: Path) -> set[tuple[str, int]]:
    return {(each.name, stat.S_IMODE(each.lstat().st_mode)) for each in folder.iterdir()}


async def test_no_one_may_connect_before_the_group_is_set(folder: Path) -> None:
    path, modes, before = folder / "filter.sock", set[tuple[str, int]](), os.umask(0o27)

    async def look() -> None:
        while True:
            modes.update(modes_in(folder))
            await asyncio.sleep(0)

    async with tasks(look()), serving(Filter(Endpoint(None).socket, ALLOWED), path, None):
        pass
    assert modes - {(path.name, 0o660)} == {(f".{path.name}", 0)}
    assert os.umask(before) == 0o27


async def test_a_group_that_is_not_ours_cannot_be_let_in(folder: Path) -> None:
    """Only who is in it may give a socket to a group."""
    os.chown(folder, NOBODY, -1)
    with without_privileges(), pytest.raises(PermissionError, match="is not in the group 4711"):
        await serving(
            Filter(Endpoint(None).socket, ALLOWED), folder / "filter.sock", 4711
        ).__aenter__()
