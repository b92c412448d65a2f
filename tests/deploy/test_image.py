"""The image itself: what is in it, and that it runs as the DaemonSet runs it."""

import json
import re
import stat
import subprocess
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

import pytest
from packaging.utils import canonicalize_name

from exporter import __version__
from testbed.containerd import Containerd, why_not
from testbed.fixtures import unavailable
from testbed.observer_image import CONFIG, PYTHON
from tests.deploy.test_release import lock
from tests.support.in_a_pod import Running, built, node, pod_of
from tests.support.real_lives import live
from tests.support.rendering import variant
from tests.support.web import BUFFERED, TLS, WebFiles

_NOBODY: Final = 65532
_QUICKLY: Final = ("--missed-grace=1s", "--relist-period=100ms", "--relist-max-duty=100%")


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return built()


def _files(rootfs: Path) -> Iterator[Path]:
    return (path for path in rootfs.rglob("*") if path.is_file() and not path.is_symlink())


def test_nothing_can_be_started_but_python_and_our_command(rootfs: Path) -> None:
    commands = {
        str(path.relative_to(rootfs))
        for folder in ("bin", "sbin", "usr/bin", "usr/sbin", "opt/shadow-pleg/bin")
        for path in (rootfs / folder).glob("*")
    }
    assert commands == {
        "bin/python3.15",
        "usr/bin/python3.15",
        "opt/shadow-pleg/bin/python",
        "opt/shadow-pleg/bin/python3.15",
        "opt/shadow-pleg/bin/python3",
        "opt/shadow-pleg/bin/shadow-pleg",
    }
    unwanted = re.compile(r"/(pip|setuptools|ensurepip|distutils|alerts|apt|gcc|perl[0-9.]*)(/|$)")
    assert not [path for path in _files(rootfs) if unwanted.search(str(path.relative_to(rootfs)))]


def test_nothing_is_setuid_or_writable_for_us(rootfs: Path) -> None:
    """All belongs to root, and group 0 may not write either: that is our group. But for /tmp."""
    folders = (path for path in rootfs.rglob("*") if path.is_dir() and not path.is_symlink())
    writable = [path for path in folders if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)]
    assert writable == [rootfs / "tmp"]
    for path in _files(rootfs):
        status = path.stat()
        assert (status.st_uid, status.st_gid) == (0, 0), path
        assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWGRP | stat.S_IWOTH), (
            path
        )


def test_the_image_says_how_it_is_to_be_run(rootfs: Path) -> None:
    assert rootfs.is_dir()
    config = json.loads(CONFIG.read_text())
    assert config["User"] == f"{_NOBODY}:0"
    assert (config["Entrypoint"], config["Cmd"]) == (["shadow-pleg"], ["serve"])
    assert config["Healthcheck"]["Test"] == ["CMD", "shadow-pleg", "health"]
    assert {"PYTHONOPTIMIZE=2", "PYTHON_LAZY_IMPORTS=all"} < set(config["Env"])
    assert set(config["ExposedPorts"]) == {"13386/tcp"}
    labels = config["Labels"]
    assert labels["org.opencontainers.image.version"] == __version__
    assert re.fullmatch(r"[0-9a-f]{40}", labels["org.opencontainers.image.revision"])
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert labels["org.opencontainers.image.base.name"] == "localhost/debian"


def test_scanners_find_all_that_is_inside(rootfs: Path) -> None:
    (site,) = rootfs.glob("opt/shadow-pleg/lib/python3.*/site-packages")
    found = {
        canonicalize_name(each.metadata["Name"]): each.version
        for each in distributions(path=[str(site)])
    }
    locked = {name: version for name, (version, _) in lock().items()}
    assert found == locked | {"shadow-pleg": __version__}
    for entry in (rootfs / "var/lib/dpkg/status.d").iterdir():
        assert f"Package: {entry.name}\n" in entry.read_text()
    packages = {entry.name for entry in (rootfs / "var/lib/dpkg/status.d").iterdir()}
    assert packages >= {"libc6", "libssl3t64", "python3.15-minimal"}
    licensed = {path.parent.name for path in rootfs.glob("usr/share/doc/*/copyright")}
    assert {"libc6", "libssl3t64"} <= licensed


# The names that these libraries are imported by.
_IMPORTED: Final = "aiohttp bcrypt durationpy google.protobuf grpc jinja2 msgspec structlog yaml"


@pytest.mark.usefixtures("rootfs")
def test_every_library_can_be_loaded() -> None:
    """By the image's Python, which loads each only when it is used; and there is TLS."""
    code = f"import importlib as i; [i.import_module(n) for n in '{_IMPORTED} ssl'.split()]"
    subprocess.run([PYTHON, "-c", code], check=True)


@pytest.mark.usefixtures("rootfs")
def test_a_connection_of_tls_has_a_small_buffer(web_files: WebFiles) -> None:
    """Also in the image's Python, and this says when a later one knows our size no more."""
    web_files.write(TLS)
    taken = subprocess.check_output([PYTHON, "-c", BUFFERED, web_files.config])
    assert int(taken) < 64 * 1024


@pytest.mark.usefixtures("rootfs")
async def test_the_image_watches_a_real_containerd_without_privileges(
    containerd_21: Containerd,
) -> None:
    it = variant("kustomize/containerd")
    async with node(containerd_21) as cri, pod_of(it, containerd_21, cri) as pod:
        container = await pod.start(it.container, *_QUICKLY)
        await container.watches()
        page = await container.page("")
        assert "shadow-pleg" in page
        for part in re.findall(r'(?:src|href)="\./(static/[^"]+)"', page):
            await container.page(part)
        _assert_powerless(container, group=0)
        await live(cri, "web-1")
        await container.saw_an_end()
        await container.shows(
            lambda seen: seen.state("shadow_pleg_kernel_witness") == "watching", "its processes"
        )
        health = ("shadow-pleg", "health", "--web.probe-address")
        assert await container.run(*health, container.probes) == (0, "ok\n")
        code, _ = await container.run(*health, "127.0.0.1:1")
        assert code == 1
        assert await container.stop() == 0


# Prints which of these sockets refuses this user.
_REFUSED: Final = """
import socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except PermissionError:
            print(path)
"""


@pytest.mark.usefixtures("rootfs")
async def test_the_exporter_cannot_open_the_runtimes_socket_but_the_filters(
    containerd_21: Containerd,
) -> None:
    """Not even if it sees it: it has neither user nor group; and yet it watches all."""
    it = variant("kustomize/cri-filter")
    (host,) = (each for each in it.pod["volumes"] if each["name"] == "runtime")
    (seen,) = (each for each in it.filter["volumeMounts"] if each["name"] == "runtime")
    below = "/run/containerd/containerd.sock".removeprefix(host["hostPath"]["path"])
    socket = f"{seen['mountPath']}{below}"
    sees_all = it.container | {"volumeMounts": [*it.container["volumeMounts"], seen]}
    async with node(containerd_21) as cri, pod_of(it, containerd_21, cri) as pod:
        filtering = await pod.start(it.filter)
        exporter = await pod.start(sees_all, *_QUICKLY)
        await exporter.watches()
        _assert_powerless(exporter, group=65532)
        _assert_powerless(filtering, uid=65533, group=0)
        connect = ("python", "-c", _REFUSED, socket, str(it.config.runtime_endpoint))
        assert await exporter.run(*connect) == (0, f"{socket}\n")
        assert await filtering.run(*connect) == (0, "")
        await live(cri, "web-1")
        await exporter.saw_an_end()
        assert await exporter.stop() == await filtering.stop() == 0


@pytest.mark.usefixtures("rootfs")
async def test_the_chart_watches_a_node_wherever_its_containerd_is() -> None:
    """One install without a value of the runtime; nothing is made on the node."""
    if reason := why_not("2.1"):
        unavailable(reason)
    it, place = variant("helm/auto"), "node/run/k3s/containerd/containerd.sock"
    async with Containerd("2.1", place=place) as containerd, node(containerd) as cri:
        root = containerd.home / "node"
        before = sorted((root / "run").iterdir())
        async with pod_of(it, containerd, cri, root) as pod:
            container = await pod.start(it.container, *_QUICKLY)
            await container.watches()
            _, said = await container.run("shadow-pleg", "check")
            assert "this node can be watched\n" in said
            await live(cri, "web-1")
            await container.saw_an_end()
            assert await container.stop() == 0
        assert sorted((root / "run").iterdir()) == before


def _assert_powerless(container: Running, *, uid: int = _NOBODY, group: int) -> None:
    lines = Path(f"/proc/{container.pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    assert status["Uid"].split() == [str(uid)] * 4
    assert status["Gid"].split() == [str(group)] * 4
    assert group == 0 or "0" not in status["Groups"].split()
    assert status["NoNewPrivs"] == "1"
    for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[each], 16) == 0, each
