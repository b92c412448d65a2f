"""The job of the emulated machine: a node with a containerd, what goes wrong on it, two observers.

What was done is in `truth.json`; beside it are the metrics, and a recording of the same time. The
host judges. Nothing here depends on how long something takes, only on that it happens.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
import traceback
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc.aio
from prometheus_client.parser import text_string_to_metric_families

from testbed.containerd import Containerd
from testbed.cri_client import CANNOT_START, EXITED, RUNS, Pods, Sandbox
from testbed.waiting import until
from testbed.wire import entries

OUT: Final = Path("/out")
CGROUPS: Final = Path("/sys/fs/cgroup")
RESULTS: Final = "/dev/vdb"
SYSTEMD: Final = os.environ["LAYOUT"] == "systemd"
TOP: Final = "/kubepods.slice" if SYSTEMD else "/kubepods"
# A shim in software emulation announces what others do in milliseconds after up to six seconds.
GRACE: Final = 15
PATIENCE: Final = 240
# Seconds after which a process was no start that failed: a ghost may be one.
LASTS: Final = 3
ADDRESS: Final = "127.0.0.1:9000"
LIMIT: Final = 32 << 20
# Of this size no limit here has room.
_TAKE: Final = "dd if=/dev/zero of=/dev/null bs=256M count=1"
# A process that waits for its signal: so kills happen when they are wanted, many at a time.
_ON_SIGNAL: Final = "trap : USR1; sleep 9999 & wait; "


@dataclass(frozen=True)
class Mode:
    """One way to run out of memory. `quick`, `full`: how often; `together`: how many at a time."""

    quick: int
    full: int
    together: int
    command: Sequence[str] = ("/bin/sh", "-c", f"{_ON_SIGNAL}exec {_TAKE}")
    limit: int = LIMIT
    group: bool = False
    of_pod: int = 0


INIT: Final = Mode(6, 100, 1)
MODES: Final = {
    "init": INIT,
    "burst": Mode(16, 40, 40),
    "child": Mode(6, 50, 3, ("/bin/sh", "-c", f"{_ON_SIGNAL}{_TAKE}; sleep 9999")),
    "child_then_0": Mode(4, 10, 2, ("/bin/sh", "-c", f"{_ON_SIGNAL}{_TAKE}; exit 0")),
    "at_once": Mode(12, 50, 4, ("/bin/busybox", *_TAKE.split())),
    "group": Mode(4, 16, 2, group=True),
    "pod_limit": Mode(4, 12, 1, limit=0, of_pod=40 << 20),
}


@dataclass
class Node:
    """The node and what was done to it."""

    containerd: Containerd
    cri: Pods
    full: bool
    truth: dict[str, Any] = field(default_factory=dict)
    pods: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def pod(self, name: str, limit: int = 0) -> Sandbox:
        """A pod in a cgroup as a kubelet makes it, with that limit in bytes."""
        place = CGROUPS / self.cri.cgroup(name).strip("/")
        if SYSTEMD:
            wanted = ("MemoryAccounting", "b", "true", "MemoryMax", "t", str(limit or 2**64 - 1))
            unit = (place.name, "replace", str(len(wanted) // 3), *wanted, "0")
            bus = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
            call = (*bus, "org.freedesktop.systemd1.Manager", "StartTransientUnit")
            await _run("busctl", "call", *call, "ssa(sv)a(sa(sv))", *unit)
            await until(place.is_dir, f"{place} is there", seconds=PATIENCE)
        else:
            for each in (CGROUPS, CGROUPS / TOP.strip("/"), place):
                each.mkdir(exist_ok=True)
                (each / "cgroup.subtree_control").write_text("+memory +pids +cpu")
            if limit:
                (place / "memory.max").write_text(str(limit))
        return await self.cri.run_pod(name)

    def events(self, name: str, container: str = "") -> dict[str, int]:
        """What the kernel counts for a pod, or for a container of it."""
        lines = (self.folder(name, container) / "memory.events").read_text().splitlines()
        return {key: int(number) for key, number in (line.split() for line in lines)}

    def folder(self, name: str, container: str = "") -> Path:
        """The cgroup of a pod, or of a container of it."""
        pod = CGROUPS / self.cri.cgroup(name).strip("/")
        return pod / (f"cri-containerd-{container}.scope" if SYSTEMD and container else container)

    async def container(
        self, sandbox: Sandbox, command: Sequence[str] = RUNS, mode: Mode | None = None
    ) -> str:
        """A new one, not started."""
        limits: dict[int, Any] = {4: mode.limit} if mode and mode.limit else {}
        if mode and mode.group:
            limits[9] = entries({"memory.oom.group": "1"})
        name = f"c-{next(self._numbers)}"
        return await self.cri.create(sandbox, name, command, resources=limits)

    async def runs(self, sandbox: Sandbox) -> str:
        """A new one that runs until it is stopped."""
        container = await self.container(sandbox)
        await self.cri.start(container)
        return container

    async def has(self, container: str, state: int) -> bool:
        """Whether it is listed so."""
        return (await self.cri.containers()).get(container) == state

    async def end_of(self, container: str) -> tuple[int, str]:
        """Exit code and reason."""
        status = await self.cri.status(container)
        return status.exit_code, status.reason

    async def until_exited(self, container: str) -> None:
        """Wait for its end, as the runtime lists it."""
        await self.until(lambda: self.has(container, EXITED), f"{container} exits")

    async def until(self, condition: Any, what: str) -> None:  # noqa: ANN401 - as `until` takes
        """Wait as long as a slow machine may take."""
        await until(condition, what, seconds=PATIENCE, every=0.2)

    async def ghost(self, name: str) -> str:
        """A container of which init was killed behind a stopped shim."""
        sandbox = await self.pod(name)
        container = await self.runs(sandbox)
        await asyncio.sleep(LASTS)
        os.kill(self.containerd.shim_of(container), signal.SIGSTOP)
        os.kill(self.containerd.init_of(container), signal.SIGKILL)
        return container

    async def kills(self) -> None:
        """All kinds of kills, one after another; the burst amid them."""
        for name, mode in MODES.items():
            number = mode.full if self.full else mode.quick
            print(f"{time.monotonic():.0f} {name} {number}", flush=True)  # noqa: T201
            self.pods.append(name)
            sandbox = await self.pod(name, mode.of_pod)
            for begun in range(0, number, mode.together):
                some = min(mode.together, number - begun)
                await self._kill(name, mode, sandbox, some)

    async def _kill(self, name: str, mode: Mode, sandbox: Sandbox, number: int) -> None:
        waits = _ON_SIGNAL in mode.command[-1]
        before = self.events(name)["oom_kill"]
        creating = (self.container(sandbox, mode.command, mode) for _ in range(number))
        made = await asyncio.gather(*creating)
        if waits:
            await asyncio.gather(*map(self.cri.start, made))
            inits = [self.containerd.init_of(each) for each in made]
            for pid in inits:
                await self.until(partial(_listens, pid), f"{name}: it waits for its signal")
            for pid in inits:
                os.kill(pid, signal.SIGUSR1)
        else:
            # Dead before StartContainer is through, an init is no failure here.
            await asyncio.gather(*map(self.cri.start, made), return_exceptions=True)
        over = before + number
        await self.until(lambda: self.events(name)["oom_kill"] >= over, f"{name}: all were killed")
        for each in made:
            if name != "child":
                await self.until_exited(each)
            self.truth["kills"].append([name, each, *await self.end_of(each)])
        # A kubelet removes some soon.
        for each in made[::2]:
            if name != "child":
                await self.cri.remove(each)

    async def waiting(self, name: str) -> tuple[str, int]:
        """A container in a pod of that name which waits for its signal, and its init."""
        self.pods.append(name)
        container = await self.container(await self.pod(name), INIT.command, INIT)
        await self.cri.start(container)
        pid = self.containerd.init_of(container)
        await self.until(partial(_listens, pid), "it waits for its signal")
        await asyncio.sleep(LASTS)
        return container, pid

    async def end(self, name: str, pid: int) -> None:
        """Let it be killed."""
        os.kill(pid, signal.SIGUSR1)
        await self.until(lambda: self.events(name)["oom_kill"] == 1, f"{name}: it was killed")

    async def kill_behind_a_stopped_shim(self) -> None:
        """A ghost that an OOM kill made."""
        container, pid = await self.waiting("behind_shim")
        os.kill(self.containerd.shim_of(container), signal.SIGSTOP)
        await self.end("behind_shim", pid)
        self.truth["ghosts"].append(container)
        self.truth["kills"].append(["behind_shim", container, 0, ""])

    async def kill_without_a_runtime(self) -> None:
        """While nobody can take note."""
        container, pid = await self.waiting("without_runtime")
        await self.containerd.kill()
        await self.end("without_runtime", pid)
        await self.containerd.start()
        await self.until_exited(container)
        end = await self.end_of(container)
        self.truth["kills"].append(["without_runtime", container, *end])

    async def churn(self, over: asyncio.Event) -> None:
        """Pods that live and die, until `over`."""
        chosen, lives = random.Random(1), self.truth["lives"]  # noqa: S311 - no secret
        for number in itertools.count():
            sandbox = await self.pod(name := f"churn-{number}")
            lives["pods"] += 1
            for _ in range(3):
                kind = chosen.choice(("true", "false", "sleep", "stop", "kill", "bad"))
                ends = {"stop": RUNS, "kill": RUNS, "bad": CANNOT_START, "sleep": ("sleep", "1")}
                container = await self.container(sandbox, ends.get(kind, (kind,)))
                with suppress(grpc.aio.AioRpcError):
                    await self.cri.start(container)
                if kind == "kill":
                    os.kill(self.containerd.init_of(container), signal.SIGKILL)
                if kind == "stop":
                    await self.cri.stop(container)
                await self.until_exited(container)
                if chosen.random() < 0.7:
                    await self.cri.remove(container)
                lives[kind] = lives.get(kind, 0) + 1
            await self.cri.stop_pod(sandbox)
            await self.cri.remove_pod(sandbox)
            with suppress(OSError):
                self.folder(name).rmdir()
            if over.is_set():
                return


def _status(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (each.partition(":") for each in lines)}


def _listens(pid: int) -> bool:
    """Whether it has a handler for SIGUSR1."""
    return bool(int(_status(pid)["SigCgt"], 16) & 1 << (signal.SIGUSR1 - 1))


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    assert await process.wait() == 0, command


def node_kills() -> int:
    """How many processes the kernel has killed on this node."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def observer(
    command: str, containerd: Containerd, log: str, *flags: str
) -> subprocess.Popen[bytes]:
    """One of the exporter's commands, as the user of its pod."""
    endpoint = f"--runtime-endpoint=unix://{containerd.socket}"
    words = (sys.executable, "-m", "exporter", command, endpoint, *flags)
    with (OUT / log).open("ab") as file:
        return subprocess.Popen(
            words, stdout=file, stderr=file, user=65532, group=0, extra_groups=[], cwd=OUT
        )


def metrics() -> dict[str, float]:
    """What `serve` exports that is not 0, by name and labels."""
    with urllib.request.urlopen(f"http://{ADDRESS}/metrics", timeout=60) as page:
        families = text_string_to_metric_families(page.read().decode())
    samples = (sample for family in families for sample in family.samples)
    return {
        " ".join((each.name, *each.labels.values())): each.value for each in samples if each.value
    }


async def shows(wanted: dict[str, float]) -> None:
    """Wait until `serve` exports that."""
    seen: dict[str, float] = {}

    async def held() -> bool:
        with suppress(OSError):
            seen.update(dict.fromkeys(seen, 0.0) | await asyncio.to_thread(metrics))
        return all(seen.get(key, 0.0) == value for key, value in wanted.items())

    try:
        await until(held, f"serve shows {wanted}", seconds=PATIENCE, every=1)
    except TimeoutError as error:
        now = {key: seen.get(key) for key in wanted}
        raise TimeoutError(f"{error}, but {now}") from None


async def check(node: Node) -> None:
    """Note the exit code of `check`."""
    checking = observer("check", node.containerd, "check.log")
    node.truth["checks"].append(await asyncio.to_thread(checking.wait, PATIENCE))


async def begin(node: Node) -> Sandbox:
    """A quiet node, and one with a ghost, as `check` sees them; its pod."""
    base = await node.pod("base")
    for _ in range(3):
        await node.runs(base)
    await asyncio.sleep(LASTS)
    await check(node)
    node.truth["ghosts"].append(await node.ghost("ghost-before"))
    await check(node)
    return base


async def watch(node: Node) -> list[subprocess.Popen[bytes]]:
    """Both observers; once they do."""
    quick = ("--relist-period=1s", f"--missed-grace={GRACE}s", "--relist-max-duty=20%")
    address, file = f"--web.listen-address={ADDRESS}", OUT / "recording"
    observers = [
        observer("serve", node.containerd, "serve.log", address, *quick),
        observer("record", node.containerd, "record.log", f"--output={file}", *quick),
    ]
    wanted = ("stream_state streaming", "kernel_witness watching", "oom_witness counting")
    await shows({f"shadow_pleg_{each}": 1 for each in wanted})
    await node.until(file.exists, "it is recorded")
    return observers


async def trouble(node: Node, base: Sandbox) -> None:
    """What there is to be found, all at once, and its end."""
    truth, over = node.truth, asyncio.Event()
    churning = asyncio.create_task(node.churn(over))
    truth["ghosts"] += [await node.ghost(f"ghost-{number}") for number in range(2)]
    await node.kill_behind_a_stopped_shim()
    stray, frozen = await node.runs(await node.pod("stray")), await node.runs(base)
    truth["strays"], truth["frozen"] = [stray], [frozen]
    await asyncio.sleep(LASTS)
    left = node.containerd.init_of(stray)
    os.kill(node.containerd.shim_of(stray), signal.SIGKILL)
    freezer = node.folder("base", frozen) / "cgroup.freeze"
    freezer.write_text("1")
    await node.kills()
    await shows(_contradictions(ghost=len(truth["ghosts"]), stray=1, frozen=1))
    over.set()
    await churning
    for each in truth["ghosts"]:
        os.kill(node.containerd.shim_of(each), signal.SIGCONT)
        await node.until_exited(each)
    os.kill(left, signal.SIGKILL)
    freezer.write_text("0")
    # The word of a child's kill sticks to its container.
    for row in (each for each in truth["kills"] if each[0] == "child"):
        os.kill(node.containerd.init_of(row[1]), signal.SIGKILL)
        await node.until_exited(row[1])
        row[2:] = await node.end_of(row[1])
    await shows(_contradictions(ghost=0, stray=0, frozen=0))
    await node.kill_without_a_runtime()
    await shows({"shadow_pleg_stream_state streaming": 1})
    # What is not announced by then is judged without.
    await asyncio.sleep(3 * GRACE)


def _contradictions(**kinds: int) -> dict[str, float]:
    return {f"shadow_pleg_active_contradictions {kind}": n for kind, n in kinds.items()}


async def job(node: Node) -> None:
    """Everything, in order."""
    truth = node.truth
    base = await begin(node)
    before = node_kills()
    observers = await watch(node)
    await trouble(node, base)
    truth["pods"] = {name: node.events(name) for name in node.pods}
    truth["node_kills"] = node_kills() - before
    truth["metrics"] = await asyncio.to_thread(metrics)
    truth["status"] = _status(observers[0].pid)
    for each in observers:
        each.send_signal(signal.SIGTERM)
        truth["codes"].append(await asyncio.to_thread(each.wait, PATIENCE))


async def main() -> None:
    """Run the job, and bring out what there is, also if it fails."""
    OUT.mkdir()
    OUT.chmod(0o777)
    truth: dict[str, Any] = {"layout": os.environ["LAYOUT"], "kernel": os.uname().release}
    truth |= {"kills": [], "ghosts": [], "checks": [], "codes": [], "lives": {"pods": 0}}
    containerd = Containerd("2.1", systemd=SYSTEMD)
    try:
        await containerd.start()
        async with Pods(
            containerd.socket, cgroup_parent=TOP, systemd=SYSTEMD, timeout=PATIENCE
        ) as cri:
            await job(Node(containerd, cri, os.environ.get("VM_OOM") == "full", truth))
    except Exception:  # noqa: BLE001 - the host shows it
        truth["error"] = traceback.format_exc()
        print(truth["error"], flush=True)  # noqa: T201
    truth["seconds"] = time.monotonic()
    (OUT / "truth.json").write_text(json.dumps(truth, indent=1))
    (OUT / "containerd.log").write_text(containerd.log())
    with tarfile.open(RESULTS, "w") as archive:
        archive.add(OUT, ".")
    os.sync()


if __name__ == "__main__":
    asyncio.run(main())
    # At once: systemd would wait for each container.
    Path("/proc/sysrq-trigger").write_text("o")
    signal.pause()
