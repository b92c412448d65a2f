"""Whether a container's cgroup has processes, and whether they are frozen, by its files.

v2 has one field for each; the first includes descendants and ignores zombies. v1 lists the
processes of each cgroup.
"""

import errno
import math
import os
from contextlib import suppress
from enum import Enum
from typing import Final

# Errors of a cgroup that is gone: ENODEV while it is being removed; ENOTDIR if a file is there now.
GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)
# A container with more nested cgroups counts as populated, and the rest are not read.
_MOST_NESTED: Final = 100
_INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux


class Processes(Enum):
    """Whether a cgroup has processes. `FROZEN`: all are alive, and stopped until thawed."""

    NONE = "none"
    RUNNING = "running"
    FROZEN = "frozen"


# Before Python 3.12, a member costs as much as a call.
_NONE: Final = Processes.NONE
_RUNNING: Final = Processes.RUNNING
_FROZEN: Final = Processes.FROZEN


class ReadV2:
    """The unified hierarchy of version 2.

    `monitor`: how many of what `number` counts may be a container's monitor.
    """

    monitor: Final = 1.0

    def look(self, folder: str, _last: Processes | None) -> Processes | None:
        """The processes in and below `folder`; None if unknown. OSError, also when it is gone."""
        events = _read(f"{folder}/cgroup.events")
        if b"populated 1" in events:
            return _FROZEN if b"frozen 1" in events else _RUNNING
        # A file that is being written may be empty.
        return _NONE if b"populated 0" in events else None

    def number(self, folder: str) -> int:
        """How many processes are in the folder itself; of many, not all. OSError as above."""
        # Processes of other PID namespaces are listed as 0.
        return _lines(folder)

    def has_direct(self, folder: str) -> bool:
        """Whether there are processes in the folder itself; OSError as above."""
        return _lines(folder) > 0


class ReadV1:
    """The same for the `pids` and `freezer` hierarchies of version 1, mounted below `root`.

    `cgroup.procs` leaves out processes of other PID namespaces, so from within a namespace
    containers look empty. Then the hierarchy of version 2 answers that systemd mounts beside these:
    runc enters each container there, too. Without it `pids.current` does, which counts zombies that
    no parent reaps: a container with a zombie then never seems to end.
    """

    def __init__(self, root: str) -> None:
        self._sees_all = sees_all_processes()
        # Nobody knows how many threads a monitor has.
        self.monitor: Final = 1.0 if self._sees_all else math.inf
        self._root, self._pids = root, f"{root}/pids"
        self._unified = ReadV2() if os.path.exists(f"{root}/unified/cgroup.controllers") else None

    def look(self, folder: str, last: Processes | None) -> Processes | None:
        """The processes in and below `folder`, never None; OSError, also when it is gone.

        `last`: the last answer; RUNNING is not checked for frozen ones. None: check for them.
        """
        some = _lines(folder) or (not self._sees_all and self._hides_some(folder))
        if not some and not _has_nested(folder):
            return _NONE
        if last is _RUNNING:
            return last
        return _FROZEN if self._is_frozen(folder) else _RUNNING

    def number(self, folder: str) -> int:
        """How many processes are in the folder itself; threads, if seen from a PID namespace."""
        return _lines(folder) if self._sees_all else _counted(folder)

    def has_direct(self, folder: str) -> bool:
        """Whether processes in the folder itself are seen; OSError, also when it is gone."""
        if _lines(folder):
            return True
        return self._unified is not None and self._unified.has_direct(self._same(folder, "unified"))

    def _hides_some(self, folder: str) -> bool:
        """Whether there are processes that `cgroup.procs` leaves out."""
        if self._unified is not None:
            with suppress(OSError):
                seen = self._unified.look(self._same(folder, "unified"), None)
                if seen is not None:
                    return seen is not _NONE
        return _counted(folder) > 0

    def _same(self, folder: str, hierarchy: str) -> str:
        """The path of the same cgroup in another hierarchy."""
        return f"{self._root}/{hierarchy}{folder.removeprefix(self._pids)}"

    def _is_frozen(self, folder: str) -> bool:
        try:
            state = _read(f"{self._same(folder, 'freezer')}/freezer.state")
        except OSError:
            # There is no such hierarchy, or it has no such cgroup any more.
            return False
        return state.startswith(b"FROZEN")


def sees_all_processes() -> bool:
    """Whether this process is in the node's PID namespace; a container must ask for that."""
    try:
        return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _lines(folder: str) -> int:
    return _read(f"{folder}/cgroup.procs").count(b"\n")


def _counted(folder: str) -> int:
    try:
        count = _read(f"{folder}/pids.current").strip()
    except OSError as error:
        if error.errno in GONE:
            return 0
        raise
    return int(count) if count.isdigit() else 0


def _has_nested(folder: str) -> bool:
    """Whether a cgroup below this one has processes."""
    # In cgroups a folder without folders has 2 links. Other file systems may not count.
    if os.stat(folder).st_nlink == 2:  # noqa: PLR2004 - as above
        return False
    waiting = _below(folder)
    for _ in range(_MOST_NESTED):
        if not waiting:
            return False
        each = waiting.pop()
        try:
            if _lines(each):
                return True
            waiting += _below(each)
        except OSError as error:
            if error.errno not in GONE:
                raise
    return bool(waiting)


def _below(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _read(path: str) -> bytes:
    # A third of what `open` costs. Non-blocking: a pipe in place of the file must not block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 64)
    finally:
        os.close(descriptor)
