"""A real containerd with its own root, state and socket, and an image made here. Needs root.

Blind spot: the shims' sockets lie in /run/containerd/s, which cannot be moved.
"""

import asyncio
import hashlib
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Self

import grpc.aio

from testbed import debian
from testbed.leftovers import new_home, sweep
from testbed.pods import IMAGE, Pods
from testbed.waiting import until

VERSIONS = ("2.1", "1.7", "1.6")
# Of the image of all pods and containers: static busybox alone.
APPLETS = ("sh", "sleep", "true", "false")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

CONFIG = """
# Everything that would touch the machine outside our folder, or only costs time at start, is off.
version = {format}
root = "{home}/root"
state = "{state}"
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
address = "{socket}"

[plugins."{runtime}"]
restrict_oom_score_adj = true
disable_apparmor = true
{sandbox_image_1x}
[plugins."{runtime}".cni]
conf_dir = "{home}/cni"
[plugins."{runtime}".containerd]
default_runtime_name = "runc"
{snapshotter_1x}
{handlers}
{images_2x}
"""
HANDLER = """
[plugins."{runtime}".containerd.runtimes.{name}]
runtime_type = "io.containerd.runc.v2"
[plugins."{runtime}".containerd.runtimes.{name}.options]
BinaryName = "{binary}"
Root = "{home}/{name}"
SystemdCgroup = {systemd}
"""
IMAGES_2X = """
[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{image}"
"""


# Where a machine with cgroup v1 has the other version, without any controller.
UNIFIED = Path("/sys/fs/cgroup/unified")
IN_UNIFIED = (
    *("unshare", "--mount", "--propagation", "slave", "sh", "-c"),
    *(f'mount --bind {UNIFIED} /sys/fs/cgroup && exec "$0" "$@"',),
)
# What runs a pod's containers, by the name of the handler, and the options that it needs here.
HANDLERS: Mapping[str, tuple[str, ...]] = {
    "runc": (),
    "crun": (),
    "runsc": ("--platform=systrap", "--network=host"),
}
# bookworm's crun knows no later version, and refuses it by its number alone.
OLDER = {"ociVersion": "1.0.2"}
# The shim calls it instead of the runtime: it changes the bundle's configuration first, and cleans
# nothing up while a file exists.
RUNTIME = """#!{python} -SE
import json, os, sys, time
while "delete" in sys.argv and os.path.exists("{held}"):
    time.sleep(0.01)
if "--bundle" in sys.argv:
    file = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    config = json.load(open(file))
    config |= {change}
    if {unlimited}:
        config["linux"].pop("resources", None)
    json.dump(config, open(file, "w"))
if {quiet} and "start" in sys.argv:
    for each in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), each)
os.execve("{binary}", ["{binary}", *{options}, *sys.argv[1:]], os.environ | {environment})
"""


class ContainerdError(Exception):
    """The runtime did not do what it was asked; the message ends with its log."""


def why_not(version: str) -> str:
    """Return the reason why this containerd cannot run here, or "" when it can."""
    missing = [
        part for part in (f"containerd-{version}", *HANDLERS, "busybox") if not debian.find(part)
    ]
    if missing:
        return f"not fetched: {', '.join(missing)} (python -m testbed.debian fetch)"
    if os.geteuid() != 0:
        return "a real containerd needs root"
    return ""


async def prepare_root(version: str, target: Path) -> None:
    """Write the root folder of a containerd that has the image, unpacked, and no pod."""
    async with Containerd(version) as containerd:
        async with containerd.pods() as cri:
            sandbox = await cri.run_pod("first")
            await cri.stop_pod(sandbox)
            await cri.remove_pod(sandbox)
        await containerd.stop()
        await asyncio.to_thread(shutil.copytree, containerd.home / "root", target, symlinks=True)


class Containerd:
    """A containerd that runs from entry to exit, and leaves nothing behind.

    `root`: a folder to begin with a copy of. `unified`: its containers live in cgroup v2
    (`UNIFIED`), without limits, because v1 has the controllers; they are not cleaned up while the
    file `held` exists. `place`: of its socket below `home`, which stands for the node's root.
    `systemd`: that makes the cgroups; else the runtime does.
    """

    def __init__(
        self,
        version: str,
        root: Path | None = None,
        *,
        unified: bool = False,
        systemd: bool = False,
        place: str = "run/containerd/containerd.sock",
    ) -> None:
        if reason := why_not(version):
            raise ContainerdError(reason)
        self.version = version
        self._unified, self._systemd = unified, systemd
        self.cgroups = UNIFIED if unified else Path("/sys/fs/cgroup")
        self._binary = debian.part(f"containerd-{version}")
        self.home, self._lock = new_home()
        self.socket = self.home / place
        self.state = self.socket.parent
        # As containerd would create it, with its parents.
        self.home.chmod(0o711)
        self.state.mkdir(parents=True)
        self.held = self.home / "held"
        self._log = self.home / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._config = self.home / "config.toml"
        self._config.write_text(self._configuration())
        if root is not None:
            shutil.copytree(root, self.home / "root", symlinks=True)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    @property
    def pid(self) -> int:
        """The daemon's process id, for signals such as SIGSTOP."""
        if self._process is None:
            raise ContainerdError("containerd is not running")
        return self._process.pid

    def pods(self, *, systemd: bool = False) -> Pods:
        """A new CRI client."""
        return Pods(self.socket, cgroup_parent=f"/{self.home.name}", systemd=systemd)

    def hierarchies(self) -> list[Path]:
        """The cgroup folders of its containers, one for each hierarchy."""
        found = [] if self._unified else [*self.cgroups.glob("*/cgroup.procs")]
        return [each.parent for each in found] or [self.cgroups]

    async def start(self) -> None:
        """Start the daemon and wait until its CRI answers; the first start imports the image."""
        self._process = self._spawn()
        await self._settled(self._answers, "its CRI answers")
        if not await self._has_image():
            archive = self.home / "image.tar"
            _write_image(debian.part("busybox"), archive)
            await self.bring(archive)
            archive.unlink()

    async def bring(self, archive: Path, image: str = IMAGE) -> None:
        """Import an archive with that image."""
        # ctr would unpack for the default snapshotter; CRI unpacks for ours when it runs a pod.
        ctr = (self._binary.with_name("ctr"), "-a", self.socket, "-n", "k8s.io")
        await asyncio.to_thread(debian.run, *ctr, "images", "import", "--no-unpack", archive)
        await self._settled(partial(self._has_image, image), f"it knows {image}")

    async def stop(self) -> None:
        """Stop the daemon in good order; pods live on."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """Kill the daemon with SIGKILL; pods live on."""
        await self._end(signal.SIGKILL)

    async def restart(self) -> None:
        """Stop and start again, on the same socket path and state."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """End the daemon, its pods and shims, and remove everything it made."""
        await self.kill()
        await asyncio.to_thread(sweep, self.home)
        self._lock.close()

    def log(self) -> str:
        """Return what the daemon has logged."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def init_of(self, container: str) -> int:
        """The process id of a container's first process."""
        return int((self.bundle_of(container) / "init.pid").read_text())

    def bundle_of(self, container: str) -> Path:
        """The folder of a container's task."""
        return self.state / "io.containerd.runtime.v2.task/k8s.io" / container

    def shim_of(self, container: str) -> int:
        """The process id of a container's shim."""
        status = Path(f"/proc/{self.init_of(container)}/stat").read_text()
        return int(status.rpartition(")")[2].split()[1])

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*(IN_UNIFIED if self._unified else ()), self._binary, "--config", self._config],
                stdout=log,
                stderr=log,
                env=os.environ | {"PATH": f"{self._binary.parent}:{os.environ['PATH']}"},
                # Ctrl-C must reach only the test, which then cleans up.
                start_new_session=True,
            )

    async def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        process.send_signal(number)
        what = f"containerd {self.version} ends by {number.name}"
        await until(lambda: process.poll() is not None, what)
        self._process = None

    async def _settled(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for `condition`; ContainerdError if the process ends."""
        process = self._process

        async def settled() -> bool:
            if process is None or process.poll() is not None:
                raise ContainerdError(f"containerd {self.version} ended:\n{self.log()[-2000:]}")
            return await condition()

        try:
            await until(settled, f"containerd {self.version}: {what}", seconds=90)
        except TimeoutError as error:
            raise ContainerdError(f"{error}\n{self.log()[-2000:]}") from None

    async def _answers(self) -> bool:
        async with self.pods() as pods:
            try:
                # Version answers before the CRI service has recovered its state; the lists do not.
                await pods.sandboxes()
            except grpc.aio.AioRpcError:
                return False
        return True

    async def _has_image(self, image: str = IMAGE) -> bool:
        async with self.pods() as pods:
            return await pods.has_image(image)

    def _handler(self, name: str) -> Path:
        """What the shim calls: that runtime, or a script that prepares the call."""
        binary, options = debian.part(name), HANDLERS[name]
        sandboxed = name == "runsc"
        environment = debian.environment(name)
        if not (self._unified or options or environment):
            return binary
        script = self.home / f"call-{name}"
        script.write_text(
            RUNTIME.format(
                python=sys.executable,
                held=self.held,
                change=OLDER if name == "crun" else {},
                unlimited=self._unified,
                binary=binary,
                options=options,
                # Processes that it leaves would keep the shim's pipes open.
                quiet=sandboxed,
                environment=environment,
            )
        )
        script.chmod(0o755)
        return script

    def _configuration(self) -> str:
        is_1x = self.version.startswith("1.")
        runtime = "io.containerd.grpc.v1.cri" if is_1x else "io.containerd.cri.v1.runtime"
        same = {"runtime": runtime, "home": self.home, "systemd": str(self._systemd).lower()}
        handlers = "".join(
            HANDLER.format(name=name, binary=self._handler(name), **same) for name in HANDLERS
        )
        # As nodes have it, but no overlay lies above another one: there, copies. In the emulated
        # machine `stat` is busybox's, which knows short options only.
        layered = debian.run("stat", "-f", "-c", "%T", self.home) == "overlayfs"
        snapshotter = "native" if layered else "overlayfs"
        return CONFIG.format(
            format=2 if is_1x else 3,
            home=self.home,
            state=self.state,
            socket=self.socket,
            runtime=runtime,
            handlers=handlers,
            sandbox_image_1x=f'sandbox_image = "{IMAGE}"' if is_1x else "",
            snapshotter_1x=f'snapshotter = "{snapshotter}"' if is_1x else "",
            images_2x="" if is_1x else IMAGES_2X.format(snapshotter=snapshotter, image=IMAGE),
        )


def _write_image(busybox: Path, target: Path) -> None:
    """Write `IMAGE` as a docker archive, which every `ctr images import` reads."""
    layer = _layer(busybox.read_bytes())
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "infinity"]},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        _add(archive, "config.json", json.dumps(config).encode())
        _add(archive, "layer.tar", layer)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        _add(layer, "bin/busybox", busybox)
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(entry)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o755
    archive.addfile(entry, io.BytesIO(data))
