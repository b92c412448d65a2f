"""What a process in the place of each of the pod's containers can change: by trying everywhere."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from testbed.containerd import Containerd
from tests.support.in_a_pod import Running, built, node, pod_of
from tests.support.real_lives import begin, finish
from tests.support.rendering import SAME, Object, Variant, variant

_WAITS: Final = ("python", "-c", "import signal; signal.pause()")
# ruff: noqa: E501, S108 - a program, and the places of a container
# Prints, by the mount that it is on, one example of what could be changed in each way. Nothing is:
# a mode is set to what it was, a file is opened for writing and closed, what is made is removed.
_TRY_ALL: Final = r"""
import collections, json, os, re, stat, sys
home, *same = sys.argv[1:]
# Processes, and cgroups of other tests.
others = re.compile(rf"/proc/(\d+|self|thread-self)$|/dev/fd$|.*/(sp-(?!{home[3:]}$)[^/]*|k8s\.io)$")
mounts = {line.split()[4].encode().decode("unicode_escape") for line in open("/proc/self/mountinfo")}
found = collections.defaultdict(dict)
# What another container of this user has tried: the image, and the kernel's 100,000 files.
known = {os.stat(each).st_dev for each in same}
def mount_of(path):
    while path not in mounts:
        path = os.path.dirname(path)
    return path
def attempt(how, path, act, undo=lambda _: None):
    try:
        undo(act())
    except OSError:
        return
    found[mount_of(path)].setdefault(how, path)
for folder, folders, files in os.walk("/"):
    folders[:] = [each for each in folders if not others.match(os.path.join(folder, each))]
    try:
        if os.stat(folder).st_dev in known:
            continue
    except FileNotFoundError:
        # A cgroup that has gone meanwhile.
        continue
    new = os.path.join(folder, ".tried")
    making = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    attempt("create", folder, lambda: os.open(new, making), lambda fd: (os.close(fd), os.unlink(new)))
    attempt("mkdir", folder, lambda: os.mkdir(new), lambda _: os.rmdir(new))
    for path in [folder, *(os.path.join(folder, name) for name in files)]:
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            continue
        attempt("chmod", path, lambda: os.chmod(path, stat.S_IMODE(mode)))
        if stat.S_ISREG(mode):
            attempt("write", path, lambda: os.open(path, os.O_WRONLY | os.O_APPEND), os.close)
print(json.dumps({"mounts": sorted(mounts), "found": found}))
"""


def _containers(*names: str) -> Iterator[tuple[Variant, Object]]:
    """Each container of these overlays and components, or of all; once for its user and mounts."""
    known = []
    for name in names or SAME:
        it = variant(f"kustomize/{name}")
        volumes = {each["name"]: each for each in it.pod["volumes"]}
        for container in it.pod["containers"]:
            security = it.pod["securityContext"] | container["securityContext"]
            mounts = container["volumeMounts"]
            identity = (security, [each | volumes[each["name"]] for each in mounts])
            if identity not in known:
                known.append(identity)
                yield it, container


# The pod's own, on any Kubernetes: memory that counts as the pod's, two files that the kubelet makes
# for each container, and settings of the opener itself.
_OWN: Final = frozenset(
    ("/dev", "/dev/mqueue", "/dev/pts", "/dev/shm", "/dev/termination-log", "/etc/hosts", "/proc")
)
# What all containers of a user have alike: those that have tried.
_SAME: Final = ("/", "/sys")
_TRIED: Final = set[str]()
# What uid 0 may chmod and nothing else: pieces of the pod's own /proc and /sys.
_MODES: Final = re.compile(r"/proc/.*|/sys(/.*)?")


async def _changeable(
    home: str, container: Running, *known: str
) -> tuple[set[str], dict[str, dict[str, str]]]:
    """Its mounts, and an example for each way to change what is not its own, by mount."""
    code, out = await container.run("python", "-c", _TRY_ALL, home, *known)
    assert code == 0, out
    answer = json.loads(out)
    found = {
        mount: ways
        for mount, ways in answer["found"].items()
        if mount not in _OWN and not (_MODES.fullmatch(mount) and set(ways) == {"chmod"})
    }
    return set(answer["mounts"]), found


@pytest.fixture
def runtime(containerd: Containerd) -> Containerd:
    """With the folders where the manifests of CRI-O look, and the kubelet's."""
    built()
    (containerd.home / "run/crio").symlink_to("containerd")
    (containerd.home / "var/lib/kubelet/pods-api").mkdir(parents=True)
    return containerd


@pytest.mark.parametrize(
    ("containerd", "names"),
    [
        (("2.1", False), ()),
        # Each user once.
        (("2.1", True), ("auto", "containerd", "cri-filter", "kubelet-pods")),
    ],
    ids=["v1", "v2"],
    indirect=["containerd"],
)
async def test_no_container_of_the_pod_can_change_a_byte_of_the_node(
    runtime: Containerd, names: tuple[str, ...]
) -> None:
    async with node(runtime) as cri:
        before = await begin(cri, "before")
        for it, container in _containers(*names):
            async with pod_of(it, runtime, cri) as pod:
                running = await pod.start(container, instead=_WAITS)
                after = await begin(cri, "after")
                user = str(it.pod["securityContext"] | container["securityContext"])
                known = _SAME if user in _TRIED else ()
                mounts, found = await _changeable(runtime.home.name, running, *known)
                _TRIED.add(user)
                writable = {each["mountPath"] for each in container["volumeMounts"]}
                writable -= {
                    each["mountPath"] for each in container["volumeMounts"] if each.get("readOnly")
                }
                assert set(found) <= writable, (it.name, container["name"], found)
                assert writable <= _of_memory(it, container)
                if any(each["name"] == "runtime" for each in container["volumeMounts"]):
                    assert any(before[1][0] in mount for mount in mounts)
                    assert not any(after[1][0] in mount for mount in mounts)
                if it.name == "kustomize/containerd":
                    assert "ok   mounts   " in (await running.run("shadow-pleg", "check"))[1]
                await finish(cri, *after)
        await finish(cri, *before)


def _of_memory(it: Variant, container: Object) -> set[str]:
    """Where that container has volumes of memory with a limit."""
    volumes = {each["name"]: each for each in it.pod["volumes"]}
    limited = {"medium": "Memory", "sizeLimit": "1Mi"}
    return {
        each["mountPath"]
        for each in container["volumeMounts"]
        if volumes[each["name"]].get("emptyDir") == limited
    }


@pytest.mark.parametrize("containerd", [("1.7", False)], indirect=True)
async def test_where_mounts_are_not_read_only_recursively_modes_alone_protect_the_node(
    runtime: Containerd,
) -> None:
    """Containerd 1.7: uid 65532 can change nothing, uid 0 has nothing of the node mounted below."""
    async with node(runtime) as cri:
        before = await begin(cri, "before")
        for it, container in _containers("auto", "containerd", "kubelet-pods"):
            async with pod_of(it, runtime, cri) as pod:
                running = await pod.start(container, instead=_WAITS)
                _, found = await _changeable(runtime.home.name, running)
                if it.name == "kustomize/containerd":
                    assert "note mounts   " in (await running.run("shadow-pleg", "check"))[1]
                assert set(found) <= _of_memory(it, container), (it.name, container["name"], found)
        await finish(cri, *before)


async def test_what_ended_before_the_exporter_did_is_gone_from_its_mounts(
    containerd_21: Containerd,
) -> None:
    """Copies of mounts would keep a container's files, and memory, until the exporter ends."""
    built()
    it = variant("kustomize/containerd")
    async with node(containerd_21) as cri:
        sandbox, (app,) = await begin(cri, "before")
        async with pod_of(it, containerd_21, cri) as pod:
            running = await pod.start(it.container, instead=_WAITS)
            seen = Path("/proc", str(running.pid), "mountinfo").read_text
            assert app in seen()
            assert sandbox.id in seen()
            await finish(cri, sandbox, [app])
            assert app not in seen()
            assert sandbox.id not in seen()
