"""The parts of a run: what is made to happen. The first ones have one subscriber, which listens.

Each is as long as the time given allows, and none begins when that is over.
"""

import asyncio
import gc
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc.aio

from conformance.circumstances import BLOCKED, GRACE, LATER, SPARE
from conformance.cri_client import CANNOT_START, Sandbox
from conformance.history import MAIN, Connected, Heard
from conformance.stage import Listener, PartError, Stage
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import SERVICE, CriClient, target_of
from exporter.cri.decode import Decoder
from exporter.errors import CriError

# What a full run has, and its seconds.
_FULL: Final = 120.0
_LEAST: Final = 0.1
_OOM: Final = ("/bin/sh", "-c", "sleep 1; exec dd if=/dev/zero of=/dev/null bs=256M count=1")
_MEMORY: Final = {4: 48 << 20}
_NO_IMAGE: Final = "shadow-pleg.invalid/none:1"
_OWN_NETWORK: Final = {1: 0, 2: 1}
_LARGE: Final = {"note": "x" * 250_000}
_NOTE: Final = {"note": "x" * 10_000}
_WORKERS: Final = 6
_SUBSCRIBERS: Final = 10
_KILLED: Final = 137
# Fields of PodSandboxStatusResponse.
_STATUSES, _TIMESTAMP = 3, 4
# gRPC reads no more ahead than this: a subscriber that does not read soon stands still.
_FROZEN: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 65_536),
    ("grpc.max_receive_message_length", 64 << 20),
)


class Play:
    """The parts, for a stage. `scale`: 1 for a full run."""

    def __init__(self, stage: Stage, seconds: float, handler: str, restart: str) -> None:
        self.stage = stage
        self.history = stage.history
        self.scale = max(_LEAST, min(1.0, seconds / _FULL))
        self._until = time.monotonic() + seconds
        self._handler = handler
        self._restart = restart
        self._main: Listener | None = None
        self._needs = {"half-open": "a network: a unix socket is closed with its process"}
        if not handler:
            self._needs["handler"] = "--runtime-handler"
        if not restart:
            self._needs["restart"] = "--restart-command"

    async def run(self, wanted: Callable[[str], bool]) -> None:
        """Play what is wanted; PartError if not even a plain life is possible."""
        self._main = await self.stage.listen(MAIN)
        await self.stage.served(self._main)
        if self._main.why is not None:
            self.history.figures["refused"] = [float(self._main.why == "eof")]
            self._skip(PARTS, f"the runtime announces nothing: {self._main.why}")
            return
        self.stage.looking = True
        self.stage.background(self.stage.relist())
        await self.plain()
        await asyncio.gather(*(self._play(name, wanted) for name in ALONE if name != "plain"))
        await self.stage.settled(*ALONE)
        self.stage.looking = False
        for name in TOGETHER:
            await self._play(name, wanted)
        await self.stage.listed()

    async def _play(self, name: str, wanted: Callable[[str], bool]) -> None:
        if not wanted(name):
            self._skip((name,), "not asked for")
        elif name in self._needs:
            self._skip((name,), f"needs {self._needs[name]}")
        elif time.monotonic() > self._until:
            self._skip((name,), "no time was left: give more --seconds")
        else:
            try:
                await PARTS[name](self)
            except PartError as error:
                self._skip((name,), str(error))

    def _skip(self, names: Any, why: str) -> None:  # noqa: ANN401 - any iterable
        self.history.skipped.update(dict.fromkeys(names, why))

    def _many(self, full: int) -> int:
        return max(2, round(full * self.scale))

    async def plain(self) -> None:
        """Three pods, one after the other, of two containers that are started and stopped."""
        stage = self.stage
        for _ in range(3):
            pod = await stage.pod("plain")
            one, two = [await stage.container(pod, "plain") for _ in range(2)]
            answer = await stage.cri.pod_status(pod)
            figure = self.history.figures.setdefault("timestamp without statuses", [])
            figure.append(float(_TIMESTAMP in answer and _STATUSES not in answer))
            await stage.stop(one)
            await stage.stop(two)
            await stage.end(pod, one, two)

    async def exit(self) -> None:
        """Containers that end by themselves with 0, 1 and 3, and by a handled SIGTERM with 7."""
        stage = self.stage
        pod = await stage.pod("exit")
        keys = []
        for code in (0, 1, 3):
            ends = code, "Error" if code else "Completed"
            command = ("/bin/sh", "-c", f"sleep 1; exit {code}")
            keys.append(await stage.container(pod, "exit", command, ends=ends))
        traps = ("/bin/sh", "-c", 'trap "exit 7" TERM; echo; while :; do sleep 1; done')
        keys.append(await stage.container(pod, "exit", traps, ends=(7, "Error")))
        for key in keys[:-1]:
            await stage.ended(key)
        await stage.stop(keys[-1], 10)
        await stage.end(pod, *keys)

    async def killed(self) -> None:
        """Containers killed by SIGKILL: StopContainer without grace."""
        await self._stopped("killed", self._many(20), 0)

    async def grace(self) -> None:
        """StopContainer with a grace of a second of a container that ignores SIGTERM."""
        await self._stopped(
            "grace", 2, GRACE, "/bin/sh", "-c", 'trap "" TERM; while :; do sleep 1; done'
        )

    async def burst(self) -> None:
        """Many containers that are killed at the same time."""
        pods = self._many(10)
        await asyncio.gather(*(self._stopped("burst", 10, 0, together=True) for _ in range(pods)))

    async def _stopped(
        self, part: str, number: int, grace: int, *command: str, together: bool = False
    ) -> None:
        stage = self.stage
        pod = await stage.pod(part)
        how: dict[str, Any] = {"command": command} if command else {}
        ends = _KILLED, "Error"
        keys = [await stage.container(pod, part, ends=ends, **how) for _ in range(number)]
        if together:
            await asyncio.gather(*(stage.stop(key, grace) for key in keys))
        else:
            for key in keys:
                await stage.stop(key, grace)
        await stage.end(pod, *keys)

    async def oom(self) -> None:
        """Containers whose process takes more memory than it may, a second after its start."""
        stage = self.stage
        pod = await stage.pod("oom")
        for _ in range(self._many(30)):
            ends = _KILLED, "OOMKilled"
            key = await stage.container(pod, "oom", _OOM, ends=ends, resources=_MEMORY)
            if not (await stage.ended(key)).exit_code:
                await stage.end(pod, key)
                raise PartError("this machine's cgroups do not limit memory")
            await stage.remove(key)
        await stage.end(pod)

    async def at_once(self) -> None:
        """Containers whose process ends at once, with 0 or 1."""
        stage = self.stage
        pod = await stage.pod("at-once")
        for number in range(self._many(60)):
            code = number % 2
            command = ("/bin/false",) if code else ("/bin/true",)
            ends = code, "Error" if code else "Completed"
            key = await stage.container(pod, "at-once", command, ends=ends)
            await stage.ended(key)
            await stage.remove(key)
        await stage.end(pod)

    async def never_started(self) -> None:
        """Containers that are created and removed."""
        await self._churned("never-started", 3)

    async def failed_start(self) -> None:
        """Containers whose command does not exist."""
        stage = self.stage
        pod = await stage.pod("failed-start")
        for _ in range(3):
            key = await stage.container(pod, "failed-start", CANNOT_START, start=False)
            await stage.do(stage.cri.start(key), "StartContainer", key, may_fail=True)
            await stage.listed()
            await stage.remove(key)
        await stage.end(pod)

    async def failed_create(self) -> None:
        """A container whose image does not exist."""
        stage = self.stage
        pod = await stage.pod("failed-create")
        call = stage.cri.create(pod, "app", image=_NO_IMAGE)
        if await stage.do(call, "CreateContainer", pod.id, may_fail=True):
            raise PartError("CreateContainer succeeds without an image")
        await stage.end(pod)

    async def failed_network(self) -> None:
        """A pod with a network of its own, where no network plugin is."""
        stage = self.stage
        call = stage.cri.run_pod("failed-network", namespaces=_OWN_NETWORK)
        pod = await stage.do(call, "RunPodSandbox", "failed-network", may_fail=True)
        if pod is not None:
            await stage.end(pod)
            raise PartError("needs a runtime without a network plugin")

    async def forced_removal(self) -> None:
        """RemoveContainer of running containers."""
        stage = self.stage
        pod = await stage.pod("forced-removal")
        for _ in range(3):
            await stage.remove(await stage.container(pod, "forced-removal"))
        await stage.end(pod)

    async def pod_removal(self) -> None:
        """RemovePodSandbox of a pod with a running, an exited and a created container."""
        stage = self.stage
        for stops in (True, False):
            pod = await stage.pod("pod-removal")
            await stage.container(pod, "pod-removal")
            await stage.stop(await stage.container(pod, "pod-removal"))
            await stage.container(pod, "pod-removal", start=False)
            if stops:
                await stage.do(stage.cri.stop_pod(pod), "StopPodSandbox", pod.id)
            await stage.do(stage.cri.remove_pod(pod), "RemovePodSandbox", pod.id)

    async def attempts(self) -> None:
        """Three containers of one name and pod, one after the other, the old ones still there."""
        stage = self.stage
        pod = await stage.pod("attempts")
        keys = []
        for _ in range(3):
            keys.append(await stage.container(pod, "attempts", name="app"))
            await stage.stop(keys[-1])
        await stage.end(pod, *keys)

    async def exec(self) -> None:
        """Commands run in a container, and an image that cannot be pulled."""
        stage = self.stage
        pod = await stage.pod("exec")
        key = await stage.container(pod, "exec")
        for command in ("/bin/true", "/bin/false") * 3:
            await stage.do(stage.cri.execute(key, command), "ExecSync", key)
        await stage.do(stage.cri.pull(_NO_IMAGE), "PullImage", key, may_fail=True)
        await stage.stop(key)
        await stage.end(pod, key)

    async def update(self) -> None:
        """UpdateContainerResources of a running container."""
        stage = self.stage
        pod = await stage.pod("update")
        key = await stage.container(pod, "update")
        await stage.do(stage.cri.update(key, {3: 512}), "UpdateContainerResources", key)
        await asyncio.sleep(0.5)
        await stage.stop(key)
        await stage.end(pod, key)

    async def large(self) -> None:
        """A pod of twenty containers with 250 KB of annotations each: events of up to 5 MB."""
        stage = self.stage
        pod = await stage.pod("large")
        keys = [
            await stage.container(pod, "large", start=False, annotations=_LARGE) for _ in range(20)
        ]
        await stage.end(pod, *keys)

    async def handler(self) -> None:
        """A pod of the runtime handler that --runtime-handler names."""
        stage = self.stage
        pod = await stage.pod("handler", handler=self._handler)
        key = await stage.container(pod, "handler")
        await stage.stop(key)
        await stage.end(pod, key)

    async def streamed(self) -> None:
        """A streamed list beside the unary one, while nothing changes."""
        stage = self.stage
        pod = await stage.pod("streamed")
        keys = [await stage.container(pod, "streamed") for _ in range(2)]
        try:
            messages = await stage.cri.streamed("StreamContainers")
        except grpc.aio.AioRpcError as error:
            await stage.end(pod, *keys)
            raise PartError(f"needs streamed lists: {error.code().name}") from None
        items = [
            c for raw in messages for c in pb.ListContainersResponse.FromString(raw).containers
        ]
        shown = sorted((item.id, item.state) for item in items if item.id in keys)
        unary = await stage.cri.containers()
        wrong = shown != sorted((key, unary[key]) for key in keys)
        self.history.figures["streamed"] = [float(wrong)]
        await stage.end(pod, *keys)

    async def shared(self) -> None:
        """Ten subscribers beside the first one, and one more that comes later."""
        stage = self.stage
        others = [await stage.listen(f"shared-{number}") for number in range(_SUBSCRIBERS)]
        await stage.served(*others)
        await self._lives("shared", self._many(10))
        late = await stage.listen(LATER)
        await stage.served(late)
        await stage.settled("shared")
        for each in (*others, late):
            await self._leave(each)

    async def frozen(self) -> None:
        """A subscriber that does not read, while containers are made, until it blocks them."""
        stage = self.stage
        channel: Any = grpc.aio.insecure_channel(target_of(stage.socket), options=_FROZEN)
        try:
            call = channel.unary_stream(f"{SERVICE}GetContainerEvents")(b"")
            await channel.unary_unary(f"{SERVICE}Version")(b"", timeout=BLOCKED)
            self.stage.rows.append(Connected(time.monotonic(), "frozen", up=True))
            thawed = asyncio.Event()
            reading = asyncio.create_task(self._thaw(call, thawed))
            churn = asyncio.create_task(self._churned("frozen", self._many(700), _NOTE))
            self.history.figures["frozen"] = [await self._stood(churn)]
            thawed.set()
            await churn
            await stage.settled("frozen")
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        finally:
            await channel.close(None)

    async def _thaw(self, call: Any, thawed: asyncio.Event) -> None:  # noqa: ANN401 - grpc.aio's own
        await thawed.wait()
        decoder = Decoder()
        why = "eof"
        try:
            async for raw in call:
                now = time.monotonic()
                decoded = decoder.event(raw, now, time.time_ns(), 0)
                if isinstance(decoded, tuple):
                    self.stage.rows.append(Heard(now, "frozen", decoded[0]))
        except grpc.aio.AioRpcError as error:
            why = error.code().name.lower()
        self.stage.rows.append(Connected(time.monotonic(), "frozen", up=False, why=why))

    async def _stood(self, work: asyncio.Task[None]) -> float:
        """Wait for it; the longest time without a call that returned, at most `BLOCKED` seconds."""
        longest = 0.0
        while not work.done() and longest < BLOCKED:
            await asyncio.wait({work}, timeout=_LEAST)
            ends = [row.at for row in self.stage.rows[-200:] if hasattr(row, "took")]
            longest = max(longest, time.monotonic() - max(ends, default=time.monotonic()))
        return longest

    async def leavers(self) -> None:
        """Subscribers that come and leave at once, by the hundred, and then some lives."""
        stage = self.stage
        before = _files(stage.socket)
        for _ in range(self._many(1000) // _SUBSCRIBERS):
            await asyncio.gather(*(self._come_and_leave() for _ in range(_SUBSCRIBERS)))
        await self._lives("leavers", 3)
        await stage.settled("leavers")
        # gRPC closes a connection once what refers to it is collected.
        gc.collect()
        until = time.monotonic() + BLOCKED
        while (after := _files(stage.socket)) and before and after > before + SPARE:
            if time.monotonic() > until:
                break
            await asyncio.sleep(_LEAST)
        if before is not None and after is not None:
            self.history.figures["descriptors"] = [before, after]

    async def _come_and_leave(self) -> None:
        client = CriClient(self.stage.socket)
        with suppress(CriError):
            subscription = client.subscribe(0, None)
            await client.version(BLOCKED)
            subscription.cancel()
        await client.close()

    async def nobody(self) -> None:
        """Containers that are made while nobody is subscribed."""
        # Its own events would be the first ones that nobody hears.
        pod = await self.stage.pod("nobody")
        if self._main is not None:
            await self._leave(self._main)
        churn = asyncio.create_task(self._churn(pod, "nobody", self._many(1000)))
        self.history.figures["nobody"] = [await self._stood(churn)]
        self._main = await self.stage.listen(MAIN)
        await churn
        await self.stage.served(self._main)
        await self.stage.settled("nobody")
        await self.stage.end(pod)

    async def restart(self) -> None:
        """--restart-command, while containers end one after the other."""
        stage, figures = self.stage, self.history.figures
        pod = await stage.pod("restart")
        ends = (1, 2, 3, 4, 6, 8)
        keys = [
            await stage.container(pod, "restart", ("/bin/sh", "-c", f"sleep {seconds}"))
            for seconds in ends
        ]
        down = time.time()
        process = await asyncio.create_subprocess_shell(self._restart)
        if await process.wait():
            raise PartError(f"the command of --restart-command failed ({process.returncode})")
        await self._back()
        self._main = await stage.listen(MAIN)
        await stage.served(self._main)
        figures["down"] = [down, time.time()]
        figures["finished"] = [(await stage.ended(key)).finished_at / 1e9 for key in keys]
        await stage.end(pod, *keys)
        await stage.settled("restart")

    async def _back(self) -> None:
        """Wait until the runtime lists again."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(CriError):
                await self.stage.listed()
                return
            await asyncio.sleep(_LEAST)
        raise PartError("the runtime does not answer after --restart-command")

    async def half_open(self) -> None:
        """Nothing: see `_needs`."""

    async def _leave(self, listener: Listener) -> None:
        self.stage.listeners.remove(listener)
        await listener.leave()

    async def _lives(self, part: str, number: int) -> None:
        """So many whole lives."""
        stage = self.stage
        pod = await stage.pod(part)
        for _ in range(number):
            key = await stage.container(pod, part)
            await stage.stop(key)
            await stage.remove(key)
        await stage.end(pod)

    async def _churned(
        self, part: str, number: int, annotations: Mapping[str, str] | None = None
    ) -> None:
        """So many containers are created and removed, several at a time."""
        pod = await self.stage.pod(part, annotations=annotations)
        await self._churn(pod, part, number)
        await self.stage.end(pod)

    async def _churn(self, pod: Sandbox, part: str, number: int) -> None:
        numbers = iter(range(number))
        await asyncio.gather(*(self._work(pod, part, numbers) for _ in range(_WORKERS)))

    async def _work(self, pod: Sandbox, part: str, numbers: Any) -> None:  # noqa: ANN401 - an iterator
        for _ in numbers:
            await self.stage.remove(await self.stage.container(pod, part, start=False))


def _files(path: Path) -> float | None:
    """How many files the process behind a socket has open; None if that cannot be seen."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.connect(str(path))
        size = struct.calcsize("3i")
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return float(len([*Path(f"/proc/{struct.unpack('3i', peer)[0]}/fd").iterdir()]))
    return None


Part = Callable[[Play], Awaitable[None]]
PARTS: Final[dict[str, Part]] = {
    name.replace("_", "-"): method
    for name, method in vars(Play).items()
    if not name.startswith("_") and name != "run"
}
# One after the other; of `ALONE` all at the same time.
TOGETHER: Final = ("shared", "frozen", "restart", "leavers", "nobody", "half-open")
ALONE: Final = tuple(name for name in PARTS if name not in TOGETHER)
