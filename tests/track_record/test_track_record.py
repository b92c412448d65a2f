"""The bugs of docs/track-record.md, made to happen: each by the function of its name.

A real containerd where it has the bug, else the simulator. Blind spots: no CRI-O can be had here,
and a subscriber that counts and retries as a kubelet does stands for one.
"""

import asyncio
import io
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Final

import grpc.aio
import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import EventType
from testbed.churn import WORKERS, Churn, Subscriber, first_event, frozen, plain_subscriber
from testbed.containerd import Containerd
from testbed.fixtures import unavailable
from testbed.pods import CANNOT_START, Pods
from testbed.waiting import until
from tests.support.cri_messages import METADATA, raw_event
from tests.support.real_lives import begin
from tests.support.runtimes import CRIO, running_container, short_folder, simulated
from tests.track_record.bugs import BUGS, Bug, Story

# More than the few losses that make no headline.
EXITS: Final = 10
# Calls hang for as long as a frozen subscriber is there.
_HANGS: Final = 300.0
# What ended sooner may have been a start that failed: no proof of a ghost.
_LASTS: Final = 3.0
# While pods come and go, there are many events a second.
_STILL: Final = 5.0


class Link:
    """A socket in front of a runtime's, which can be cut: then no connection is left, nor taken."""

    def __init__(self, runtime: Path, socket: Path) -> None:
        self.socket = socket
        self._runtime = runtime
        self._ends: set[asyncio.StreamWriter] = set()

    async def mend(self) -> None:
        """Take connections, from now on or again."""
        self._server = await asyncio.start_unix_server(self._connected, self.socket)

    def cut(self) -> None:
        """End all connections; what is on its way is lost."""
        self._server.close()
        for end in self._ends:
            end.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._runtime)
        self._ends |= {writer, back}
        await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def linked(runtime: Path) -> AsyncIterator[Link]:
    """A link to that socket, on one of its own."""
    with short_folder() as folder:
        link = Link(runtime, folder / "link.sock")
        await link.mend()
        try:
            yield link
        finally:
            link.cut()


@asynccontextmanager
async def _real(story: Story, version: str) -> AsyncIterator[tuple[Containerd, Pods]]:
    """A containerd of its own, and a client that acts."""
    async with Containerd(version) as containerd:
        calls = Pods(containerd.socket, cgroup_parent=f"/{containerd.home.name}", timeout=_HANGS)
        async with calls as cri:
            story.does(f"a real containerd {version} starts, without any pod")
            yield containerd, cri


@asynccontextmanager
async def _pod(story: Story, running: int) -> AsyncIterator[tuple[Containerd, Pods, list[str]]]:
    """A containerd 2.1, and an exporter that has listed a pod of so many running containers."""
    async with _real(story, "2.1") as (containerd, cri), story.watching(containerd.socket):
        _, apps = await begin(cri, "web", containers=running)
        await story.listed(running)
        yield containerd, cri, apps


async def second_subscriber(story: Story) -> None:
    """The exporter comes second, and leaves all to the first."""
    async with _real(story, "1.7") as (containerd, cri), Subscriber(containerd.socket) as first:
        story.goes_wrong("a first subscriber, as a kubelet is one, reads the stream")
        async with story.watching(containerd.socket):
            await story.says()
            _, (app,) = await begin(cri, "web")
            begun = {(app, "CREATED"), (app, "STARTED")}
            await until(lambda: begun <= first.received, "the first subscriber receives its events")
            story.does("a container starts: the first subscriber receives its events")
            await story.still_says()


async def shared_stream(story: Story) -> None:
    """The exporter is made to subscribe beside another one."""
    async with (
        _real(story, "1.7") as (containerd, cri),
        Subscriber(containerd.socket) as other,
        story.watching(containerd.socket, "--event-stream=always"),
    ):
        story.does("another subscriber reads the same stream")
        _, apps = await begin(cri, "web", containers=EXITS)
        await story.listed(EXITS)
        story.goes_wrong(f"{EXITS} containers end: containerd sends each event to one of the two")
        for app in apps:
            await cri.stop(app)
        stopped = {app for app, event in other.received if event == "STOPPED"}
        story.does(f"the other subscriber has received {len(stopped)} of the {EXITS} exits")
        await story.says()


async def frozen_neighbour(story: Story) -> None:
    """Another subscriber does not read, and containers end."""
    async with (
        _pod(story, EXITS) as (containerd, cri, apps),
        Churn(cri, WORKERS).going_on(),
        plain_subscriber(containerd.socket) as neighbour,
    ):
        await first_event(neighbour)
        story.does("other pods come and go; another subscriber reads the stream")
        neighbour.send_signal(signal.SIGSTOP)
        since = time.time()

        async def stands_still() -> bool:
            last = (await story.exporter.metrics()).value("shadow_pleg_stream_last_seen_seconds")
            return time.time() - max(last, since) > _STILL

        await until(stands_still, "the stream stands still", seconds=_HANGS, every=0.2)
        story.does("that subscriber is frozen (SIGSTOP); no event comes any more")
        for app in apps:
            os.kill(containerd.init_of(app), signal.SIGKILL)
        story.goes_wrong(f"the processes of {EXITS} containers end")
        await story.says()


async def last_left(story: Story) -> None:
    """The only subscriber, which is the exporter, loses its connection for a moment."""
    async with (
        _real(story, "2.1") as (containerd, cri),
        linked(containerd.socket) as link,
        story.watching(link.socket),
    ):
        _, apps = await begin(cri, "web", containers=EXITS)
        await story.listed(EXITS)
        link.cut()
        await story.exporter.shows(lambda now: now.stream == "backoff", "it is disconnected")
        story.does("its connections, the only ones, are cut; for a moment it cannot connect")
        for app in apps:
            await cri.stop(app)
        story.goes_wrong(f"{EXITS} containers have ended while there was no subscriber")
        await link.mend()
        await story.exporter.streaming()
        story.does("it has subscribed again, and containerd sends what it has kept")
        await story.says()


async def failed_start(story: Story) -> None:
    """A container cannot start, and stays listed."""
    async with _real(story, "2.1") as (containerd, cri), story.watching(containerd.socket):
        sandbox = await cri.run_pod("web")
        app = await cri.create(sandbox, "app", CANNOT_START)
        story.goes_wrong(f"StartContainer fails: the image has no {CANNOT_START[0]}")
        with suppress(grpc.aio.AioRpcError):
            await cri.start(app)
        await story.says()
        await story.still_says()


async def ghost(story: Story) -> None:
    """A process ends while the shim, which has to report it, is stopped."""
    async with _pod(story, 1) as (containerd, _, (app,)):
        await story.exporter.relisted(time.time() + _LASTS)
        story.does("it runs for longer than a start that fails")
        with frozen(containerd.shim_of(app)):
            os.kill(containerd.init_of(app), signal.SIGKILL)
            story.goes_wrong("its process is killed, and its shim is stopped: it reports no exit")
            await story.says()


async def stray(story: Story) -> None:
    """The shim ends without the process."""
    async with _pod(story, 1) as (containerd, _, (app,)):
        os.kill(containerd.shim_of(app), signal.SIGKILL)
        story.goes_wrong("its shim is killed: containerd lists it as exited, its process runs on")
        await story.says()


async def twins(story: Story) -> None:
    """Each attempt has its own id, so the runtime starts both."""
    async with _real(story, "2.1") as (containerd, cri), story.watching(containerd.socket):
        sandbox, _ = await begin(cri, "web")
        await story.listed(1)
        story.goes_wrong("a second attempt of its container starts while the first one runs")
        await cri.start(await cri.create(sandbox, "app-0", attempt=1))
        await story.says()


async def out_of_order(story: Story) -> None:
    """Short lives, as of `echo HELLO`."""
    async with simulated(CRIO) as server, story.watching(server.socket):
        runtime = server.runtime
        sandbox = runtime.run_pod("web")
        story.goes_wrong(f"{EXITS} short lives: each STOPPED is announced before its STARTED")
        for number in range(EXITS):
            app = runtime.create(sandbox, f"hello-{number}")
            runtime.outbox.hold_next(app, EventType.STARTED)
            runtime.start(app)
            runtime.exit(app)
            runtime.outbox.release()
        await story.says()
        await story.still_says()


async def empty_status(story: Story) -> None:
    """In place of the container's own status, the event has an empty one."""
    async with simulated(CRIO) as server, story.watching(server.socket):
        sandbox, app = running_container(server)
        await story.listed(1)
        server.runtime.outbox.drop_next(app, EventType.STOPPED)
        server.runtime.exit(app)
        empty = pb.ContainerEventResponse(containers_statuses=[pb.ContainerStatus()])
        pod = pb.PodSandboxStatus(id=sandbox, metadata=METADATA)
        stopped = raw_event(app, EventType.STOPPED, sandbox=pod)
        # Of two messages in a row, protobuf makes one.
        server.announce_raw(stopped + empty.SerializeToString())
        story.goes_wrong("it ends; the only container status in its STOPPED is an empty one")
        await story.says()
        await story.still_says()


@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
async def test_the_exporter_says_what_the_track_record_tells(bug: Bug) -> None:
    if bug.why_not:
        unavailable(bug.why_not)
    show = sys.stdout.write
    show(f"{bug.name}: {bug.what}\n  {bug.link or bug.title}, on {bug.part}\n")
    story, log = Story(bug.says, show), io.StringIO()
    happens = globals()[bug.name.replace("-", "_")]
    try:
        # The exporter's whole log, which is written when it ends.
        with redirect_stdout(log):
            await happens(story)
    except BaseException:
        show(log.getvalue())
        raise
    show("\n")
