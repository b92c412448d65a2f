"""The image as a container without a cluster: runc, configured as the DaemonSet says.

Blind spots: the network is the node's, so that the tests reach the port; the runtime's default
seccomp filter is not applied.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp.test_utils import unused_port

from testbed import debian
from testbed.fixtures import unavailable
from testbed.observer_image import CONFIG, ROOTFS, build
from testbed.servers import LOOPBACK
from testbed.waiting import until
from tests.support.commands import fetch
from tests.support.observer import DEADLINE, Metrics, Watcher
from tests.support.rendering import Object, Variant, environ_of

_MASKED: Final = ("/proc/kcore", "/proc/keys", "/proc/sched_debug", "/sys/firmware")


def built() -> Path:
    if os.geteuid() != 0:
        unavailable("building and running the image needs root")
    build()
    return ROOTFS


def image_config() -> Object:
    config: Object = json.loads(CONFIG.read_text())
    return config


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(Watcher):
    """The addresses at which a container of the image serves, if it does."""

    address: str
    probes: str
    grace: float = 1.0

    async def is_ready(self) -> bool:
        try:
            return (await fetch(f"http://{self.probes}/readyz")).status == 200
        except OSError:
            return False

    async def page(self, path: str) -> str:
        answer = await fetch(f"http://{self.address}/{path}")
        assert answer.status == 200, answer.text
        return answer.text

    async def metrics(self) -> Metrics:
        """Scrape it: a page is cached for a moment; a new query is rendered again."""
        text = await self.page(f"metrics?{time.monotonic_ns()}")
        return Metrics.read(text)

    async def watches(self) -> None:
        await until(self.is_ready, "a first list", seconds=DEADLINE)
        await self.streaming()

    async def saw_an_end(self) -> None:
        """Wait until it has seen one sandbox go; it missed nothing."""
        of = {"event": "ContainerRemoved", "object": "sandbox"}
        name = "shadow_pleg_lifecycle_events_total"
        seen = await self.shows(lambda now: now.value(name, **of) == 1, "its end is seen")
        assert seen.missed == {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Container(Served):
    """A container that was started."""

    runc: tuple[str, ...]
    name: str
    process: asyncio.subprocess.Process

    async def state(self) -> Object:
        state: Object = json.loads((await self.run("state"))[1] or "{}")
        return state

    async def run(self, command: str, *argv: str) -> tuple[int, str]:
        piped = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(*self.runc, command, self.name, *argv), stdout=piped
        )
        out, _ = await process.communicate()
        return await process.wait(), out.decode()

    async def stop(self) -> int:
        await self.run("kill", "TERM")
        async with asyncio.timeout(10):
            return await self.process.wait()

    async def is_running(self) -> bool:
        """Whether it has begun; fails if it has ended."""
        assert self.process.returncode is None
        return (await self.state()).get("status") == "running"


@contextlib.contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Let mounts below a folder propagate, as systemd does for all of a node."""
    for options in (("--bind", folder, folder), ("--make-shared", folder)):
        subprocess.run(["mount", *options], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def mount(place: str, source: Path | str, *options: str, kind: str = "bind") -> Object:
    return {"destination": place, "type": kind, "source": str(source), "options": [*options]}


def of_node(it: Variant, name: str, source: Path | None = None, place: str = "") -> Object:
    """That folder of the node, or another one, as the pod has it: with what is mounted below it."""
    (volume,) = (each for each in it.pod["volumes"] if each["name"] == name)
    (of_pod,) = (each for each in it.container["volumeMounts"] if each["name"] == name)
    source = source or Path(volume["hostPath"]["path"])
    # There before the pod is: a kubelet makes none.
    assert volume["hostPath"]["type"] == "Directory"
    assert source.is_dir()
    assert (of_pod["readOnly"], of_pod["recursiveReadOnly"]) == (True, "IfPossible")
    return mount(place or of_pod["mountPath"], source, "rbind", "rro", "rprivate")


def _user(it: Variant, container: Object) -> Object:
    security = it.pod["securityContext"] | container["securityContext"]
    groups = [security["fsGroup"]] if "fsGroup" in security else []
    return {"uid": security["runAsUser"], "gid": security["runAsGroup"], "additionalGids": groups}


@contextlib.asynccontextmanager
async def run_image(
    folder: Path, pod: Variant, container: Object, *flags: str, mounts: Sequence[Object]
) -> AsyncIterator[Container]:
    runc = (str(debian.part("runc")), "--root", str(folder / "runc"))
    address, probes = (f"{LOOPBACK}:{unused_port()}" for _ in range(2))
    bundle = folder / "bundle"
    bundle.mkdir(parents=True)
    command, *own = container["args"]
    listen = (f"--web.listen-address={address}", f"--web.probe-address={probes}")
    name = f"shadow-pleg-{os.getpid()}-{folder.name}"
    spec = _spec(name, container, (command, *own, *flags, *(() if command == "filter" else listen)))
    spec["mounts"] += mounts
    spec["process"]["user"] = _user(pod, container)
    (bundle / "config.json").write_text(json.dumps(spec, indent=1))
    process = await asyncio.create_subprocess_exec(
        *(*runc, "run", "--bundle", str(bundle), name), stdin=asyncio.subprocess.DEVNULL
    )
    started = Container(runc=runc, name=name, address=address, probes=probes, process=process)
    try:
        await until(started.is_running, "the container runs")
        yield started
    finally:
        if process.returncode is None:
            await started.run("delete", "--force")
            await process.wait()


def _spec(name: str, container: Object, arguments: Sequence[str]) -> Object:
    security, image = container["securityContext"], image_config()
    assert security["capabilities"] == {"drop": ["ALL"]}
    environ = [f"{name}={text}" for name, text in environ_of(container).items()]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "args": [*image["Entrypoint"], *arguments],
            "env": image["Env"] + environ,
            "cwd": "/",
            "capabilities": {},
            "noNewPrivileges": not security["allowPrivilegeEscalation"],
        },
        "root": {"path": str(ROOTFS), "readonly": security["readOnlyRootFilesystem"]},
        "mounts": [
            mount("/proc", "proc", kind="proc"),
            mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", kind="tmpfs"),
        ],
        "linux": {
            "rootfsPropagation": "rslave",
            "cgroupsPath": f"/{name}",
            "resources": {"memory": {"limit": 256 * 1024 * 1024}},
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "maskedPaths": list(_MASKED),
            "readonlyPaths": ["/proc/sys"],
        },
    }
