"""Clean up after a runtime that was killed: shims, containers, mounts, sockets, cgroups, folder.

Only processes are touched that have the folder in their command line or cgroup.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

# Not $TMPDIR, which may be long: a Unix socket's path has at most 107 bytes.
TMP = Path("/tmp")  # noqa: S108 -- mkdtemp below makes the name unique and the folder private
PREFIX = "sp-"
DEADLINE_SECONDS = 10


def new_home() -> tuple[Path, TextIO]:
    """A folder for one runtime, and the lock that marks it as in use by this process."""
    home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=TMP))
    lock = (home / "owner.new").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Only now sweep_abandoned() of another process sees it.
    (home / "owner.new").rename(home / "owner")
    return home, lock


def sweep_abandoned() -> None:
    """Sweep the folders of test processes that were killed."""
    for owner in TMP.glob(f"{PREFIX}*/owner"):
        try:
            with owner.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                sweep(owner.parent)
        except (BlockingIOError, FileNotFoundError, PermissionError):
            continue


def sweep(home: Path) -> None:
    """End, unmount and remove everything that belongs to `home`."""
    sockets, own = shim_sockets(home), cgroup_names(home)
    deadline = time.monotonic() + DEADLINE_SECONDS
    # Processes may have forked meanwhile.
    while pids := processes(home, own):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still alive and belonging to {home}: {sorted(pids)}")
        for pid in pids:
            _kill(pid)
    for mount in reversed(mounts_in(f"{home}/")):
        umount = ("umount", "--lazy", mount)
        subprocess.run(umount, check=False, capture_output=True)
    for socket in sockets:
        socket.unlink(missing_ok=True)
    for cgroup in cgroups(own):
        # The kernel removes the files with their folder, once it has seen off what was in it.
        while cgroup.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"still in use: {cgroup}")
            for folder, _, _ in os.walk(cgroup, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
    shutil.rmtree(home, ignore_errors=not home.exists())


def processes(home: Path, own: list[str]) -> set[int]:
    """The living processes that belong to `home`, or are in one of these cgroups or below it."""
    parents: dict[int, int] = {}
    ours: set[int] = set()
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (proc / "stat").read_text().rpartition(")")[2].split()[:2]
            command, cgroup = (proc / "cmdline").read_text(), (proc / "cgroup").read_text()
        except OSError:
            continue
        if state in "ZX":
            continue
        pid = int(proc.name)
        parents[pid] = int(parent)
        if _is_daemon_of(home, command) or any(f"/{name}" in cgroup for name in own):
            ours.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return ours


def _is_daemon_of(home: Path, command: str) -> bool:
    """Whether it is a containerd or a shim, and not an editor that shows one of our files."""
    program, *arguments = command.split("\0")
    return Path(program).name.startswith("containerd") and any(
        argument.startswith(f"{home}/") for argument in arguments
    )


def cgroup_names(home: Path) -> list[str]:
    """The names of the cgroups of `home`: of pods with a parent, and of those without one."""
    return [home.name, *(f"k8s.io/{task.name}" for task in _tasks(home))]


def cgroups(names: list[str]) -> list[Path]:
    """The cgroups of these names, for each hierarchy of cgroup v1."""
    root = Path("/sys/fs/cgroup")
    return [each for name in names for at in ("", "*/") for each in root.glob(f"{at}{name}")]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        watch = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(watch, signal.SIGKILL)
            select.select([watch], [], [], DEADLINE_SECONDS)
        finally:
            os.close(watch)


def mounts_in(folder: str) -> list[str]:
    """The mounts whose paths begin with `folder`."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = (line.split()[4] for line in lines)
    return [point for point in points if point.startswith(folder)]


def _tasks(home: Path) -> list[Path]:
    # Below the folder with the daemon's socket, one level lower or two.
    return [*home.glob("run/*/*.v2.task/*/*"), *home.glob("run/*/*/*.v2.task/*/*")]


def shim_sockets(home: Path) -> list[Path]:
    """The sockets of the shims, which lie in one folder for all runtimes of a machine."""
    tasks = _tasks(home)
    addresses = [path.read_text() for task in tasks for path in task.glob("address")]
    bootstraps = [path for task in tasks for path in task.glob("bootstrap.json")]
    addresses += [json.loads(path.read_text())["address"] for path in bootstraps]
    return [Path(address.strip().removeprefix("unix://")) for address in addresses]
