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
from typing import Any, Final

from aiohttp.test_utils import unused_port

from testbed import debian
from testbed.fixtures import unavailable
from testbed.observer_image import CONFIG, ROOTFS, build
from testbed.servers import LOOPBACK
from testbed.waiting import until
from tests.support.commands import fetch
from tests.support.observer import Metrics
from tests.support.rendering import Object, Variant, variant

_MASKED: Final = ("/proc/kcore", "/proc/keys", "/proc/sched_debug", "/sys/firmware")


def built() -> Path:
    """The image's root file system, of this checkout."""
    if os.geteuid() != 0:
        unavailable("building and running the image needs root")
    build()
    return ROOTFS


def image_config() -> Object:
    """How the image says it is to be run: OCI's `config`."""
    config: Object = json.loads(CONFIG.read_text())
    return config


@dataclass(frozen=True, slots=True)
class Container:
    """A container that was started, and the address at which it serves."""

    runc: tuple[str, ...]
    name: str
    address: str
    process: asyncio.subprocess.Process

    async def state(self) -> Object:
        """What runc says of it."""
        state: Object = json.loads(await self.run("state", self.name) or "{}")
        return state

    async def run(self, *argv: str) -> str:
        """What runc answers to a command; nothing if it fails."""
        piped = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self.runc, *argv, stdout=piped)
        out, _ = await process.communicate()
        return out.decode() if process.returncode == 0 else ""

    async def output(self, *argv: str) -> str:
        """Run a command inside; what it prints."""
        return await self.run("exec", self.name, *argv)

    async def exec(self, *argv: str) -> int:
        """Run a command inside, as the health check is; its exit code."""
        process = await asyncio.create_subprocess_exec(*self.runc, "exec", self.name, *argv)
        return await process.wait()

    async def stop(self) -> int:
        """SIGTERM, as a kubelet does; the exit code."""
        await self.run("kill", self.name, "TERM")
        async with asyncio.timeout(10):
            return await self.process.wait()

    async def is_running(self) -> bool:
        """Whether it has begun; fails if it has ended."""
        assert self.process.returncode is None
        return (await self.state()).get("status") == "running"

    async def is_ready(self) -> bool:
        """Whether it answers so."""
        try:
            return (await fetch(f"http://{self.address}/readyz")).status == 200
        except OSError:
            return False

    async def page(self, path: str) -> str:
        """The text of a page."""
        answer = await fetch(f"http://{self.address}/{path}")
        assert answer.status == 200, answer.text
        return answer.text

    async def metrics(self) -> Metrics:
        """Scrape it: a page is cached for a moment; a new query is rendered again."""
        text = await self.page(f"metrics?{time.monotonic_ns()}")
        return Metrics.read(text)

    async def streams(self) -> bool:
        """Whether it is subscribed."""
        return (await self.metrics()).stream == "streaming"

    async def saw_an_end(self) -> bool:
        """Whether it has seen one sandbox go, and missed nothing."""
        metrics = await self.metrics()
        seen = metrics.counts("shadow_pleg_lifecycle_events_total")
        assert metrics.missed == {}
        return seen.get(("ContainerRemoved", "sandbox"), 0) == 1


@contextlib.contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Let mounts below a folder propagate, as systemd does for all of a node."""
    for options in (("--bind", folder, folder), ("--make-shared", folder)):
        subprocess.run(["mount", *options], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def volume_at(place: str, source: Path, *, writable: bool = False) -> Object:
    """A volume that is mounted there, as OCI has it."""
    options = ["bind", "rw" if writable else "ro", "nosuid", "nodev", "noexec"]
    return {"destination": place, "type": "bind", "source": str(source), "options": options}


def folder_at(mount: Object, source: Path) -> Object:
    """A folder of the node as a pod's mount has it, with what is mounted below it."""
    assert (mount["readOnly"], mount["mountPropagation"]) == (True, "HostToContainer")
    return {
        "destination": mount["mountPath"],
        "type": "bind",
        "source": str(source),
        "options": ["rbind", "ro", "rslave"],
    }


def user(it: Variant, container: Object) -> Object:
    """Who a container of that pod runs as: the pod's settings, and its own before them."""
    security = it.pod["securityContext"] | container["securityContext"]
    groups = [security["fsGroup"]] if "fsGroup" in security else []
    return {"uid": security["runAsUser"], "gid": security["runAsGroup"], "additionalGids": groups}


@contextlib.asynccontextmanager
async def run_image(
    folder: Path,
    *arguments: str,
    runtime: Path | None = None,
    mounts: Sequence[Object] = (),
    who: Object | None = None,
    environ: dict[str, str] | None = None,
) -> AsyncIterator[Container]:
    """Run the image with these arguments.

    `runtime`: the folder of a runtime's socket; `mounts`: volumes beside it; `who`: another `user`
    than the exporter's without a filter; `environ`: variables besides the image's.
    """
    runc = debian.part("runc")
    address, bundle = f"{LOOPBACK}:{unused_port()}", folder / "bundle"
    bundle.mkdir()
    listen = () if arguments[0] == "filter" else (f"--web.listen-address={address}",)
    name = f"shadow-pleg-{os.getpid()}-{folder.name}"
    spec = _spec(name, (*arguments, *listen), runtime)
    spec["mounts"] += mounts
    spec["process"]["user"] = who or spec["process"]["user"]
    spec["process"]["env"] += [f"{name}={text}" for name, text in (environ or {}).items()]
    (bundle / "config.json").write_text(json.dumps(spec, indent=1))
    command = (str(runc), "--root", str(folder / "runc"))
    process = await asyncio.create_subprocess_exec(
        *(*command, "run", "--bundle", str(bundle), name), stdin=asyncio.subprocess.DEVNULL
    )
    container = Container(command, name, address, process)
    try:
        await until(container.is_running, "the container runs")
        yield container
    finally:
        if process.returncode is None:
            await container.run("delete", "--force", name)
            await process.wait()


def _spec(name: str, arguments: Sequence[str], runtime: Path | None) -> Object:
    """OCI's runtime configuration, from what the DaemonSet and the image ask for."""
    it = variant("kustomize/containerd")
    of_container = it.container["securityContext"]
    assert of_container["capabilities"] == {"drop": ["ALL"]}
    image = image_config()
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        _tmpfs("/dev", "nosuid", "strictatime", "mode=755"),
    ]
    if runtime:
        of_runtime, of_cgroups = it.container["volumeMounts"]
        (cgroups,) = (each for each in it.pod["volumes"] if each["name"] == "cgroups")
        for mount, source, place in (
            (of_runtime, str(runtime), str(runtime)),
            (of_cgroups, cgroups["hostPath"]["path"], of_cgroups["mountPath"]),
        ):
            mounts.append(folder_at({**mount, "mountPath": place}, Path(source)))
    else:
        # The demo's own socket needs a place; `serve` writes nowhere.
        mounts.append(_tmpfs("/tmp", "nosuid", "nodev", "noexec", "mode=1777"))  # noqa: S108 - of the container
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": user(it, it.container),
            "args": [*image["Entrypoint"], *arguments],
            "env": image["Env"],
            "cwd": "/",
            "capabilities": {},
            "noNewPrivileges": not of_container["allowPrivilegeEscalation"],
        },
        "root": {"path": str(ROOTFS), "readonly": of_container["readOnlyRootFilesystem"]},
        "mounts": mounts,
        "linux": {
            "rootfsPropagation": "rslave",
            "cgroupsPath": f"/{name}",
            "resources": {"memory": {"limit": 256 * 1024 * 1024}},
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "maskedPaths": list(_MASKED),
            "readonlyPaths": ["/proc/sys"],
        },
    }


def _tmpfs(place: str, *options: str) -> dict[str, Any]:
    return {"destination": place, "type": "tmpfs", "source": "tmpfs", "options": list(options)}
