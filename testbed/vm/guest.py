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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc.aio
from prometheus_client.parser import text_string_to_metric_families

from conformance.cri_client import RUNS, Fields, Sandbox, entries
from exporter.cri import runtime_v1_pb2 as pb
from testbed.containerd import Containerd
from testbed.pods import CANNOT_START, Pods
from testbed.waiting import until

OUT: Final = Path("/out")
CGROUPS: Final = Path("/sys/fs/cgroup")
RESULTS: Final = "/dev/vdb"
SYSTEMD: Final = os.environ["LAYOUT"] == "systemd"
TOP: Final = "/kubepods.slice" if SYSTEMD else "/kubepods"
TIMES: Final = 10 if os.environ.get("VM_OOM") == "full" else 1
# A shim in software emulation announces what others do in milliseconds after up to six seconds.
GRACE: Final = 20
PATIENCE: Final = 240
# Seconds after which a process was no start that failed: a ghost may be one.
LASTS: Final = 3
ADDRESS: Final = "127.0.0.1:9000"
# Of this size no limit here has room.
_TAKE: Final = "dd if=/dev/zero of=/dev/null bs=256M count=1"
# Until its one signal, whenever that comes: so kills happen when they are wanted, many at a time.
# A second one would end the command that takes the memory.
_WAIT: Final = 'trap go=1 USR1; until [ "$go" ]; do sleep 1; done;'
# What was done, and what came of it.
TRUTH: Final[dict[str, Any]] = {
    "kernel": os.uname().release,
    "lives": 0,
    **{name: [] for name in ("kills", "ghosts", "checks", "codes")},
}
patiently: Final = partial(until, seconds=PATIENCE)


class Mode(NamedTuple):
    """One way to run out of memory. `number`: how often; `together`: how many at a time."""

    number: int
    together: int
    script: str = f"{_WAIT} exec {_TAKE}"
    limit: int = 32 << 20
    limit_of_pod: int = 0
    group: bool = False

    @property
    def waits(self) -> bool:
        """Whether its containers wait for the signal."""
        return _WAIT in self.script


MODES: Final = {
    "init": Mode(6, 1),
    "burst": Mode(16, 40),
    "child": Mode(6, 3, f"{_WAIT} {_TAKE}; sleep 9999"),
    "child_then_0": Mode(4, 2, f"{_WAIT} {_TAKE}; exit 0"),
    "at_once": Mode(12, 4, f"exec {_TAKE}"),
    "group": Mode(4, 2, f"sleep 9999 & {_WAIT} exec {_TAKE}", group=True),
    "pod_limit": Mode(4, 1, limit=0, limit_of_pod=40 << 20),
}
# A kill that makes a ghost; and one while no runtime runs.
SINGLE: Final = {"behind_shim": Mode(1, 1), "without_runtime": Mode(1, 1)}


@dataclass
class Node:
    """The node. `victims`: by mode, containers that are to be killed."""

    containerd: Containerd
    cri: Pods
    victims: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def pod(self, name: str, limit: int = 0) -> Sandbox:
        """A pod in a cgroup as a kubelet makes it, with that limit in bytes."""
        place = self.folder(name)
        if SYSTEMD:
            wanted = ("MemoryAccounting", "b", "true", "MemoryMax", "t", str(limit or 2**64 - 1))
            bus = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
            call = (*bus, "org.freedesktop.systemd1.Manager", "StartTransientUnit")
            unit = ("ssa(sv)a(sa(sv))", place.name, "replace", "2", *wanted, "0")
            starting = await asyncio.create_subprocess_exec(
                "busctl", "--quiet", "call", *call, *unit
            )
            assert await starting.wait() == 0, f"{place.name} was not started"
            await patiently(place.is_dir, f"{place} is there")
        else:
            for each in (CGROUPS, place.parent, place):
                each.mkdir(exist_ok=True)
                (each / "cgroup.subtree_control").write_text("+memory +pids +cpu")
            if limit:
                (place / "memory.max").write_text(str(limit))
        return await self.cri.run_pod(name)

    def folder(self, pod: str, container: str = "") -> Path:
        """The cgroup of a pod, or of a container of it."""
        scope = f"cri-containerd-{container}.scope" if SYSTEMD and container else container
        return CGROUPS / self.cri.cgroup(pod).strip("/") / scope

    def events(self, pod: str) -> dict[str, int]:
        """What the kernel counts for a pod."""
        lines = (self.folder(pod) / "memory.events").read_text().splitlines()
        return {key: int(number) for key, number in map(str.split, lines)}

    async def container(
        self, sandbox: Sandbox, command: Sequence[str] = RUNS, limits: Fields | None = None
    ) -> str:
        """A new one, not started."""
        name = f"c-{next(self._numbers)}"
        return await self.cri.create(sandbox, name, command, more={15: {1: limits or {}}})

    async def runs(self, sandbox: Sandbox) -> str:
        """A new one that runs until it is stopped."""
        container = await self.container(sandbox)
        await self.cri.start(container)
        return container

    async def end_of(self, container: str) -> tuple[int, str]:
        """Wait for its end, as the runtime knows it; exit code and reason."""
        status = await self.cri.status(container)
        while status.state != pb.CONTAINER_EXITED:
            await asyncio.sleep(0.2)
            status = await self.cri.status(container)
        return status.exit_code, status.reason

    async def ghost(self, name: str) -> str:
        """A container of which init was killed behind a stopped shim."""
        container = await self.runs(await self.pod(name))
        await asyncio.sleep(LASTS)
        os.kill(self.containerd.shim_of(container), signal.SIGSTOP)
        os.kill(self.containerd.init_of(container), signal.SIGKILL)
        return container

    async def wait(self, name: str, mode: Mode, sandbox: Sandbox, number: int) -> list[str]:
        """So many that wait for their signal, or are being killed already."""
        group = {9: entries({"memory.oom.group": "1"})} if mode.group else {}
        limits: Fields = {4: mode.limit, **group}
        command = ("/bin/sh", "-c", mode.script)
        making = (self.container(sandbox, command, limits) for _ in range(number))
        made = await asyncio.gather(*making)
        self.victims[name] += made
        # Dead before StartContainer is through, an init is no failure here.
        await asyncio.gather(*map(self.cri.start, made), return_exceptions=True)
        if mode.waits:
            for pid in map(self.containerd.init_of, made):
                await patiently(partial(_listens, pid), f"{name}: it waits for its signal")
        return made

    async def kill(self, name: str, pids: Sequence[int]) -> None:
        """Let all of that mode be killed that were not yet."""
        for pid in pids:
            os.kill(pid, signal.SIGUSR1)
        number = len(self.victims[name])
        await patiently(lambda: self.events(name)["oom_kill"] >= number, f"{name}: it was killed")

    async def kill_all(self) -> None:
        """In all ways, one after another. A kubelet removes some soon."""
        for name, mode in MODES.items():
            print(f"{time.monotonic():.0f} s: {name}", flush=True)  # noqa: T201
            sandbox = await self.pod(name, mode.limit_of_pod)
            left = mode.number * TIMES
            while left > 0:
                made = await self.wait(name, mode, sandbox, min(left, mode.together))
                pids = [self.containerd.init_of(each) for each in made if mode.waits]
                await self.kill(name, pids)
                left -= len(made)
                # The kill of a child ends no container.
                ended = made if name != "child" else []
                for each in ended:
                    TRUTH["kills"].append((name, each, *await self.end_of(each)))
                for each in ended[::2]:
                    await self.cri.remove(each)

    async def churn(self, over: asyncio.Event) -> None:
        """Pods that live and die, until `over`."""
        chosen = random.Random(1)  # noqa: S311 - no secret
        ends = {"stop": RUNS, "kill": RUNS, "bad": CANNOT_START, "sleep": ("sleep", "1")}
        while not over.is_set():
            sandbox = await self.pod(name := f"churn-{TRUTH['lives']}")
            TRUTH["lives"] += 1
            for kind in chosen.choices(("true", "false", *ends), k=3):
                container = await self.container(sandbox, ends.get(kind, (kind,)))
                with suppress(grpc.aio.AioRpcError):
                    await self.cri.start(container)
                if kind == "kill":
                    os.kill(self.containerd.init_of(container), signal.SIGKILL)
                if kind == "stop":
                    await self.cri.stop(container)
                await self.end_of(container)
                if chosen.random() < 0.7:
                    await self.cri.remove(container)
            await self.cri.stop_pod(sandbox)
            await self.cri.remove_pod(sandbox)
            with suppress(OSError):
                self.folder(name).rmdir()


def _status(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (each.partition(":") for each in lines)}


def _listens(pid: int) -> bool:
    """Whether it has a handler for SIGUSR1."""
    return bool(int(_status(pid)["SigCgt"], 16) & 1 << (signal.SIGUSR1 - 1))


def _node_kills() -> int:
    """How many processes the kernel has killed on this node."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def observer(node: Node, command: str, *flags: str) -> subprocess.Popen[bytes]:
    """One of the exporter's commands, as the user of its pod."""
    endpoint = f"--runtime-endpoint=unix://{node.containerd.socket}"
    words = (sys.executable, "-m", "exporter", command, endpoint, *flags)
    with (OUT / f"{command}.log").open("ab") as log:
        return subprocess.Popen(
            words, stdout=log, stderr=log, user=65532, group=0, extra_groups=[], cwd=OUT
        )


def metrics() -> dict[str, float]:
    """What `serve` exports, by name and labels."""
    with urllib.request.urlopen(f"http://{ADDRESS}/metrics", timeout=60) as page:
        families = text_string_to_metric_families(page.read().decode())
    samples = (sample for family in families for sample in family.samples)
    return {" ".join((each.name, *each.labels.values())): each.value for each in samples}


async def shows(family: str, **wanted: int) -> None:
    """Wait until `serve` exports that, by label."""
    items = {f"shadow_pleg_{family} {label}": float(n) for label, n in wanted.items()}.items()

    def held() -> bool:
        with suppress(OSError):
            return items <= metrics().items()
        return False

    await patiently(held, f"{family} shows {wanted}", every=1)


async def check(node: Node) -> None:
    """Note the exit code of `check`."""
    TRUTH["checks"].append(await asyncio.to_thread(observer(node, "check").wait, PATIENCE))


async def trouble(node: Node, base: Sandbox) -> None:
    """What there is to be found, all at once, and its end."""
    over = asyncio.Event()
    churning = asyncio.create_task(node.churn(over))
    ghosts: list[str] = TRUTH["ghosts"]
    ghosts += [await node.ghost(f"ghost-{number}") for number in range(2)]
    for name in SINGLE:
        await node.wait(name, SINGLE[name], await node.pod(name), 1)
    (by_kill,), (unheard,) = (node.victims[name] for name in SINGLE)
    stray, frozen = await node.runs(await node.pod("stray")), await node.runs(base)
    await asyncio.sleep(LASTS)
    TRUTH.update(strays=[stray], frozen=[frozen])
    left = node.containerd.init_of(stray)
    os.kill(node.containerd.shim_of(stray), signal.SIGKILL)
    freezer = node.folder("base", frozen) / "cgroup.freeze"
    freezer.write_text("1")
    os.kill(node.containerd.shim_of(by_kill), signal.SIGSTOP)
    await node.kill("behind_shim", [node.containerd.init_of(by_kill)])
    ghosts.append(by_kill)
    await node.kill_all()
    await shows("active_contradictions", ghost=len(ghosts), stray=1, frozen=1)
    over.set()
    await churning
    for each in ghosts:
        os.kill(node.containerd.shim_of(each), signal.SIGCONT)
        await node.end_of(each)
    os.kill(left, signal.SIGKILL)
    freezer.write_text("0")
    # The runtime reports OOMKilled of them for the kill of a child, however they end.
    for each in node.victims["child"]:
        os.kill(node.containerd.init_of(each), signal.SIGKILL)
        TRUTH["kills"].append(("child", each, *await node.end_of(each)))
    await shows("active_contradictions", ghost=0, stray=0, frozen=0)
    init = node.containerd.init_of(unheard)
    await node.containerd.kill()
    await node.kill("without_runtime", [init])
    await node.containerd.start()
    for name in SINGLE:
        TRUTH["kills"] += [(name, each, *await node.end_of(each)) for each in node.victims[name]]
    await shows("stream_state", streaming=1)
    # After twice the grace, what is not announced is judged without.
    await asyncio.sleep(2 * GRACE + LASTS)


async def job(node: Node) -> None:
    """Everything, in order."""
    base = await node.pod("base")
    for _ in range(3):
        await node.runs(base)
    await asyncio.sleep(LASTS)
    await check(node)
    TRUTH["ghosts"].append(await node.ghost("ghost-before"))
    await check(node)
    before, file = _node_kills(), OUT / "recording"
    quick = (
        *("--relist-period=1s", f"--missed-grace={GRACE}s", "--relist-max-duty=20%"),
        # All of the machine may wait for a CPU for longer than a process of it may hang.
        "--watchdog-timeout=120s",
    )
    serving = observer(node, "serve", f"--web.listen-address={ADDRESS}", *quick)
    recording = observer(node, "record", f"--output={file}", *quick)
    await shows("stream_state", streaming=1)
    await shows("kernel_witness", watching=1)
    await shows("oom_witness", counting=1)
    await patiently(file.exists, "it is recorded")
    await trouble(node, base)
    TRUTH["pods"] = {name: node.events(name) for name in node.victims}
    TRUTH["node_kills"] = _node_kills() - before
    TRUTH["metrics"], TRUTH["status"] = metrics(), _status(serving.pid)
    for each in (recording, serving):
        each.send_signal(signal.SIGTERM)
        TRUTH["codes"].append(await asyncio.to_thread(each.wait, PATIENCE))


async def main() -> None:
    """Run the job, and bring out what there is, also if it fails."""
    OUT.mkdir()
    OUT.chmod(0o777)
    containerd = Containerd("2.1", systemd=SYSTEMD)
    cri = Pods(containerd.socket, cgroup_parent=TOP, systemd=SYSTEMD, timeout=PATIENCE)
    try:
        await containerd.start()
        async with cri:
            await job(Node(containerd, cri))
    except Exception:  # noqa: BLE001 - the host shows it
        TRUTH["error"] = traceback.format_exc()
    (OUT / "truth.json").write_text(json.dumps(TRUTH, indent=1))
    (OUT / "containerd.log").write_text(containerd.log())
    with tarfile.open(RESULTS, "w") as archive:
        archive.add(OUT, ".")
    os.sync()


if __name__ == "__main__":
    asyncio.run(main())
    # At once: systemd would wait for each container.
    Path("/proc/sysrq-trigger").write_text("o")
    signal.pause()
