"""The image in a pod of a real containerd, as a kubelet runs the pods of the DaemonSet.

Its user, capabilities, seccomp filter, mounts and memory are the manifest's, by way of the CRI; a
volume is made as a kubelet makes it. Blind spot: the network is the node's, so that the tests reach
the port.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp.test_utils import unused_port

from conformance.cri_client import Fields, Sandbox
from testbed.containerd import Containerd
from testbed.fixtures import unavailable
from testbed.observer_image import ARCHIVE, IMAGE, ROOTFS, build
from testbed.pods import Pods
from testbed.servers import LOOPBACK
from tests.support.commands import Served, answered
from tests.support.rendering import Object, Variant, bytes_of, environ_of

_PROPAGATION: Final = {"None": 0, "HostToContainer": 1}
# What a kubelet asks for where `procMount` is Default.
_MASKED: Final = (
    *("asound", "acpi", "kcore", "keys", "latency_stats", "timer_list", "timer_stats"),
    *("sched_debug", "scsi"),
)
_READ_ONLY: Final = ("bus", "fs", "irq", "sys", "sysrq-trigger")


def built() -> Path:
    """The image's root file system, of this checkout."""
    if os.geteuid() != 0:
        unavailable("building and running the image needs root")
    build()
    return ROOTFS


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(Served):
    """A container of the image, and the addresses at which it serves, if it does."""

    cri: Pods
    id: str
    pid: int
    url: str
    probes: str
    grace: float = 1.0

    async def watches(self) -> None:
        ready = f"http://{self.probes}/readyz"
        await answered(ready, lambda it: it.status == 200, "a first list", self.patience)
        await self.streaming()

    async def saw_an_end(self) -> None:
        """Wait until it has seen one sandbox go; it missed nothing."""
        of = {"event": "ContainerRemoved", "object": "sandbox"}
        name = "shadow_pleg_lifecycle_events_total"
        seen = await self.shows(lambda now: now.value(name, **of) == 1, "its end is seen")
        assert seen.missed == {}

    async def run(self, *command: str) -> tuple[int, str]:
        """As `kubectl exec`: the exit code, and what was written."""
        return await self.cri.execute(self.id, *command)

    async def stop(self) -> int:
        await self.cri.stop(self.id, grace=10)
        return (await self.cri.status(self.id)).exit_code


@contextlib.contextmanager
def _shared(folder: Path) -> Iterator[None]:
    """Let mounts below a folder propagate, as systemd does for all of a node."""
    for options in (("--bind", folder, folder), ("--make-shared", folder)):
        subprocess.run(["mount", *options], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.asynccontextmanager
async def node(containerd: Containerd) -> AsyncIterator[Pods]:
    """That containerd with the image, below a root whose mounts propagate, as systemd has it."""
    with _shared(containerd.home):
        await containerd.bring(ARCHIVE, IMAGE)
        async with containerd.pods() as cri:
            yield cri


@dataclass(frozen=True, slots=True)
class PodOfImage:
    """A pod of the DaemonSet on that node, without a container yet."""

    it: Variant
    containerd: Containerd
    cri: Pods
    sandbox: Sandbox
    volumes: Mapping[str, Path]
    own: Path

    async def start(self, container: Object, *flags: str, instead: tuple[str, ...] = ()) -> Running:
        name, serves = container["name"], container["args"][0] == "serve"
        address, probes = (f"{LOOPBACK}:{unused_port()}" for _ in range(2))
        listen = (f"--web.listen-address={address}", f"--web.probe-address={probes}")
        security = _security(self.it.pod["securityContext"], container["securityContext"])
        more: Fields = {
            2: {1: IMAGE},
            4: () if instead else (*container["args"], *flags, *(listen if serves else ())),
            6: [{1: key, 2: text} for key, text in environ_of(container).items()],
            7: [*self._mounts(container), *self._own_mounts(name)],
            15: {1: {4: bytes_of(container["resources"]["limits"]["memory"])}, 2: security},
        }
        started = await self.cri.create(self.sandbox, name, instead, more=more)
        await self.cri.start(started)
        pid = self.containerd.init_of(started)
        return Running(cri=self.cri, id=started, pid=pid, url=f"http://{address}", probes=probes)

    def _mounts(self, container: Object) -> list[Fields]:
        return [
            {
                1: each["mountPath"],
                2: str(self.volumes[each["name"]]),
                3: each.get("readOnly", False),
                5: _PROPAGATION[each.get("mountPropagation", "None")],
                # A runtime that cannot does not know the field: as IfPossible.
                8: "recursiveReadOnly" in each,
            }
            for each in container["volumeMounts"]
        ]

    def _own_mounts(self, name: str) -> list[Fields]:
        """What the kubelet adds to each container: two files of the pod's own."""
        files = {"/etc/hosts": ("etc-hosts", 0o644), "/dev/termination-log": (name, 0o666)}
        for file, mode in files.values():
            (self.own / file).touch()
            (self.own / file).chmod(mode)
        return [{1: place, 2: str(self.own / file)} for place, (file, _) in files.items()]


@contextlib.asynccontextmanager
async def pod_of(
    it: Variant, containerd: Containerd, cri: Pods, root: Path | None = None
) -> AsyncIterator[PodOfImage]:
    """A pod of that variant; its containers end with it. `root`: what stands for the node's."""
    with tempfile.TemporaryDirectory(prefix="sp-pod-") as folder:
        own = Path(folder)
        own.chmod(0o755)  # noqa: ASYNC240 - short
        with _volumes(it, root or containerd.home, own) as volumes:
            sandbox = await cri.run_pod(f"shadow-pleg-{it.name.replace('/', '-')}")
            try:
                yield PodOfImage(it, containerd, cri, sandbox, volumes, own)
            finally:
                await cri.stop_pod(sandbox)
                await cri.remove_pod(sandbox)


@contextlib.contextmanager
def _volumes(it: Variant, root: Path, own: Path) -> Iterator[dict[str, Path]]:
    """The pod's volumes by name; `root`: what stands for the node's."""
    made, mounted = {}, []
    group = it.pod["securityContext"].get("fsGroup")
    try:
        for volume in it.pod["volumes"]:
            name = volume["name"]
            if "hostPath" in volume:
                # A kubelet makes none, but for DirectoryOrCreate.
                assert volume["hostPath"]["type"] == "Directory"
                made[name] = _on_node(root, volume["hostPath"]["path"])
                assert made[name].is_dir(), made[name]
                continue
            made[name] = folder = own / f"volume-{name}"
            folder.mkdir()
            if volume.get("emptyDir", {}).get("medium") == "Memory":
                size = bytes_of(volume["emptyDir"]["sizeLimit"])
                command = ("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
                subprocess.run(command, check=True)
                mounted.append(folder)
            if group is not None:
                os.chown(folder, 0, group)
            folder.chmod(0o777 if group is None else 0o2777)
        yield made
    finally:
        for folder in mounted:
            subprocess.run(["umount", folder], check=True)


def _on_node(root: Path, path: str) -> Path:
    """The machine's own cgroups; all else below that root."""
    return Path(path) if path.startswith("/sys/") else root / path.lstrip("/")


def _security(of_pod: Object, of_container: Object) -> Fields:
    """The container's own settings before the pod's, as the kubelet hands them on."""
    both = of_pod | of_container
    assert both["capabilities"] == {"drop": ["ALL"]}
    assert both["seccompProfile"] == {"type": "RuntimeDefault"}
    groups = {8: both["fsGroup"]} if "fsGroup" in both else {}
    return {
        1: {2: ["ALL"]},
        5: {1: both["runAsUser"]},
        7: both["readOnlyRootFilesystem"],
        **groups,
        11: not both["allowPrivilegeEscalation"],
        12: {1: both["runAsGroup"]},
        13: [f"/proc/{name}" for name in _MASKED] + ["/sys/firmware"],
        14: [f"/proc/{name}" for name in _READ_ONLY],
        15: {1: 0},
    }
