"""The parts of a run: what is made to happen. Those in `ALONE` have a single subscriber.

Each part is as long as --seconds allows, and no part begins after that time.
"""

import asyncio
import gc
import socket
import struct
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Final

import msgspec

from conformance.cri_client import RUNS, Fields, Sandbox, decoded
from conformance.history import LATER, MAIN, Act, Case, History
from conformance.judges import CONTROL, CONTROLS
from conformance.options import Options
from conformance.stage import TICK, Listener, PartError, Stage
from exporter.errors import ConfigError, CriError
from exporter.model.labels import EOF
from exporter.settings.files import parsed_yaml

# Seconds of a full run.
_FULL: Final = 120.0
# A network namespace of the pod's own.
_OWN_NETWORK: Final[Fields] = {8: {2: {1: {1: 0}}}}
# gRPC reads 4 MiB ahead: with this note, some 80 events before a frozen subscriber blocks.
_NOTE: Final[Fields] = {7: {1: "note", 2: "x" * 50_000}}
_WORKERS: Final = 6
# How many times to ask a restarted runtime for its lists.
_BACK: Final = 600
_SUBSCRIBERS: Final = 10
NO_TIME: Final = "no time was left: give more --seconds"
# Files that the runtime may meanwhile have opened for itself.
_SPARE: Final = 20
# How many answers to wait for the runtime to close them.
_CLOSING: Final = 50
# Fields of LinuxContainerResources, and of PodSandboxStatusResponse.
_CPU_SHARES, _MEMORY_LIMIT = 3, 4
_STATUSES, _TIMESTAMP = 3, 4


@dataclass(frozen=True, slots=True)
class Lot:
    """Containers of a part: a row of parts.yaml."""

    number: int
    command: tuple[str, ...] = RUNS
    stops: int | None = None
    code: int | None = None
    reason: str = "Error"
    start: bool = True
    name: str = ""
    image: str = ""
    fails: bool = False
    meanwhile: str = ""
    least: int = 2
    memory: int = 0
    note: int = 0


_TABLE: Final = parsed_yaml(Path(__file__).with_suffix(".yaml").read_bytes())
LOTS: Final = msgspec.convert(_TABLE, dict[str, list[Lot]])


class Play(Stage):
    """Plays the parts on its own stage."""

    def __init__(self, socket: Path, options: Options, history: History) -> None:
        super().__init__(socket, options.image, history)
        self._options = options
        self._scale = min(1.0, options.seconds / _FULL)
        self._until: float
        self._main: Listener

    async def run(self, wanted: set[str]) -> None:
        """Play the wanted parts. PartError if the part `plain` fails; ConfigError for its flags."""
        skipped = self.history.skipped
        self._until = time.monotonic() + self._options.seconds
        if not self._options.runtime_handler:
            skipped["handler"] = "needs --runtime-handler"
        if not self._options.restart_command:
            skipped["restart"] = "needs --restart-command"
        skipped |= dict.fromkeys({*ALONE, *TOGETHER} - wanted, "not asked for")
        self._main = await self.listen(MAIN)
        await self.served(self._main)
        if self._main.why is not None:
            self.show("refused", "the stream ends cleanly at once", self._main.why == EOF)
            why = f"the runtime announces nothing: {self._main.why}"
            skipped |= dict.fromkeys((*LOTS, *ALONE, *TOGETHER), why)
            return
        self.looking = True
        self.beside(self.relist())
        # Played whatever is wanted: if this part fails, so do all.
        await self._lots("plain")
        await asyncio.gather(*map(self._play, ALONE))
        await self.settled(*LOTS, *ALONE)
        self.looking = False
        self._require_subscribed()
        for name in TOGETHER:
            await self._play(name)
            self._require_subscribed()
        await self.listed()

    def _require_subscribed(self) -> None:
        if self._main.why is not None:
            what = "the subscription ended in the middle, what came then was not heard"
            raise PartError(f"{what}: {self._main.why}")

    async def _play(self, name: str) -> None:
        skipped = self.history.skipped
        if name not in skipped and time.monotonic() > self._until:
            skipped[name] = NO_TIME
        if name in skipped:
            return
        # Show progress: a run takes minutes.
        sys.stderr.write(f"playing {name}\n")
        try:
            special = getattr(self, f"_{name.replace('-', '_')}", None)
            await (special() if special else self._lots(name))
        except (PartError, CriError) as error:
            skipped[name] = str(error)
        finally:
            await self.leave(*(each for each in self.listeners if each is not self._main))

    def _many(self, full: int, least: int = 2) -> int:
        return max(least, round(full * self._scale))

    async def _lots(self, part: str) -> None:
        handler = self._options.runtime_handler if part == "handler" else ""
        pod = await self.pod(part, handler=handler)
        for lot in chain(*([lot] * self._many(lot.number, lot.least) for lot in LOTS[part])):
            with suppress(CriError) if lot.fails else nullcontext():
                await self._live(pod, lot)
        if part == "plain":
            answer = decoded(await self.call("PodSandboxStatus", {1: pod.id}))
            wrong = _TIMESTAMP in answer and _STATUSES not in answer
            self.show("pod_status", "PodSandboxStatus has a timestamp, and no statuses", wrong)
        cases = self.history.cases.items()
        await self.end(pod, *[key for key, case in cases if key != case.pod == pod.id])

    async def _live(self, pod: Sandbox, lot: Lot) -> None:
        more: list[Fields] = [{10: {1: "note", 2: "x" * lot.note}}]
        if lot.memory:
            more.append({15: {1: {_MEMORY_LIMIT: lot.memory}}})
        if lot.image:
            more.append({2: {1: lot.image, 18: lot.image}})
        key = await self.container(pod, lot.command, start=lot.start, name=lot.name, more=more)
        if lot.code is not None:
            self.note(key, exit_code=lot.code, reason=lot.reason)
        if lot.meanwhile:
            await getattr(self, f"_meanwhile_{lot.meanwhile}")(key)
            # Long enough for an event to come, if there is one.
            await asyncio.sleep(5 * TICK)
        if lot.stops is not None:
            await self.stop(key, lot.stops)
        elif lot.code is not None:
            status = await self.ended(key)
            if lot.memory and not status.exit_code:
                raise PartError("needs cgroups that limit memory")

    async def _meanwhile_exec(self, key: str) -> None:
        """Run commands in the container, change its limits, pull an image that does not exist."""
        for command in ("/bin/true", "/bin/false") * 3:
            await self.call("ExecSync", {1: key, 2: [command]})
        await self.call("UpdateContainerResources", {1: key, 2: {_CPU_SHARES: 512}})
        with suppress(CriError):
            await self.call("PullImage", {1: {1: LOTS["failed-create"][0].image}})

    async def _meanwhile_trap(self, key: str) -> None:
        """Wait until the trap is set: until then, a first process does not notice a SIGTERM."""
        command = ("/bin/sh", "-c", "until [ -e /ready ]; do sleep 1; done")
        await self.call("ExecSync", {1: key, 2: command})

    async def _burst(self) -> None:
        """Stop many containers at the same time."""
        pods = [await self.pod("burst") for _ in range(self._many(10))]
        keys = [await self.container(pod) for pod in pods * 10]
        await asyncio.gather(*map(self.stop, keys))
        await asyncio.gather(*map(self.remove, keys))
        await asyncio.gather(*map(self.end, pods))

    async def _failed_network(self) -> None:
        """Run a pod that has its own network, on a runtime without a network plugin."""
        name = "failed-network"
        self.history.cases[name] = Case(name, "")
        with suppress(CriError):
            await self.end(await self.pod(name, _OWN_NETWORK, name=name))
            raise PartError("needs a runtime without a network plugin")

    async def _pod_removal(self) -> None:
        """Call RemovePodSandbox with a running, an exited and a created container in the pod."""
        for stop in (True, False):
            pod = await self.pod("pod-removal")
            await self.container(pod)
            await self.stop(await self.container(pod))
            await self.container(pod, start=False)
            await self.end(pod, stop=stop)

    async def _shared(self) -> None:
        """Subscribe ten times beside the main subscriber, and once more later."""
        others = [await self.listen(f"shared-{number}") for number in range(_SUBSCRIBERS)]
        await self.served(*others)
        pod = await self.pod("shared")
        await self._churn(pod, self._many(50))
        await self.settled("shared")
        await self.served(await self.listen(LATER))
        await self.end(pod)

    async def _frozen(self) -> None:
        """Make containers beside a subscriber that does not read, until it blocks the calls."""
        frozen = await self.listen("frozen", frozen=True)
        pod = await self.pod("frozen", _NOTE)
        control = await self._control(pod)
        churn = self.beside(self._churn(pod, self._many(700, 150)))
        await self._until_blocked(churn, control)
        frozen.thaw()
        await churn
        await self.settled("frozen")
        await self.end(pod, control)

    async def _control(self, pod: Sandbox) -> str:
        """A container of which calls announce nothing."""
        key = await self.container(pod, start=False)
        self.note(key, part=CONTROL)
        return key

    async def _until_blocked(self, work: asyncio.Task[None], control: str) -> None:
        """Wait for the work to end, or until `CONTROLS` calls in a row were of the control."""
        while not work.done():
            await self.call("UpdateContainerResources", {1: control, 2: {_CPU_SHARES: 512}})
            await asyncio.wait({work}, timeout=2 * TICK)
            acts = (row.id == control for row in reversed(self.rows) if isinstance(row, Act))
            if sum(takewhile(bool, acts)) > CONTROLS:
                break

    async def _leavers(self) -> None:
        """Subscribe and leave at once, hundreds of times; then make some containers."""
        before = _files(self.socket)
        for _ in range(self._many(1000) // _SUBSCRIBERS):
            names = ["leaver"] * _SUBSCRIBERS
            await self.leave(*await asyncio.gather(*map(self.listen, names)))
        pod = await self.pod("leavers")
        await self._churn(pod, 10)
        await self.end(pod)
        await self.settled("leavers")
        # gRPC closes a connection once the objects that refer to it are collected.
        gc.collect()
        for _ in range(_CLOSING):
            if (more := (_files(self.socket) or 0) - (before or 0)) <= _SPARE:
                break
            # While the runtime stalls, it closes none.
            await self.call("ListPodSandbox", {})
            await asyncio.sleep(TICK)
        if before is not None:
            self.show("files", f"{more} more files are open", more > _SPARE)

    async def _unsubscribed(self) -> None:
        """Make containers while no client is subscribed."""
        # Run the pod before: else its events would be the first that no client receives.
        pod = await self.pod("unsubscribed")
        control = await self._control(pod)
        await self.leave(self._main)
        churn = self.beside(self._churn(pod, self._many(1000)))
        await self._until_blocked(churn, control)
        self._main = await self.listen(MAIN)
        await churn
        await self.served(self._main)
        await self.settled("unsubscribed")
        await self.end(pod, control)

    async def _restart(self) -> None:
        """Run --restart-command while containers end one after the other."""
        before, pod = self._main, await self.pod("restart")
        ends = (1, 2, 3, 4, 6, 8)
        keys = [await self.container(pod, ("/bin/sleep", f"{each}")) for each in ends]
        down = time.time()
        # stdout is for the results alone.
        process = await asyncio.create_subprocess_shell(
            self._options.restart_command, stdout=sys.stderr
        )
        if await self.to_end(process.wait()):
            raise ConfigError(f"--restart-command: fails with exit code {process.returncode}")
        for _ in range(_BACK):
            with suppress(CriError):
                await self.listed()
                break
            await asyncio.sleep(TICK)
        self._main = await self.listen(MAIN)
        await self.served(self._main)
        if before.why is None:
            raise ConfigError("--restart-command: restarts nothing: a subscription outlived it")
        up = time.time()
        for key in keys:
            at = (await self.ended(key)).finished_at / 1e9
            part = "restart-before" if at < down else "restart" if at < up else "restart-later"
            self.note(key, part=part)
        await self.end(pod, *keys)
        await self.settled("restart", "restart-later")

    async def _churn(self, pod: Sandbox, number: int) -> None:
        """Create and remove `number` containers in a pod, several at a time."""
        numbers = iter(range(number))

        async def work() -> None:
            for _ in numbers:
                await self.remove(await self.container(pod, start=False))

        await asyncio.gather(*(work() for _ in range(_WORKERS)))


def _files(path: Path) -> int | None:
    """How many more files the process that serves a socket has open than this; None if unknown."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.connect(str(path))
        # The process id, user id and group id.
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pids = (struct.unpack("3i", peer)[0], "self")
        theirs, ours = (len([*Path(f"/proc/{pid}/fd").iterdir()]) for pid in pids)
        return theirs - ours
    return None


# Parts that are played all at the same time, after `plain`; and then one after the other.
ALONE: Final = (*tuple(LOTS)[1:], "burst", "failed-network", "pod-removal")
TOGETHER: Final = ("shared", "frozen", "restart", "leavers", "unsubscribed")
