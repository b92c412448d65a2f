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

# A file as the runtime's own; a cgroup that is being removed says ENODEV.
GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)
# More of them within one container are not looked at: it then counts as populated.
_MOST_NESTED: Final = 100
_INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux


class Processes(Enum):
    """Those of a cgroup. `FROZEN`: all are stopped, alive, until somebody thaws them."""

    NONE = "none"
    RUNNING = "running"
    FROZEN = "frozen"


# Before Python 3.12, a member costs as much as a call.
_NONE: Final = Processes.NONE
_RUNNING: Final = Processes.RUNNING
_FROZEN: Final = Processes.FROZEN


class ReadV2:
    """The unified hierarchy of version 2.

    `monitor`: at most so many of what `number` counts are a container's monitor.
    """

    monitor: Final = 1.0

    def look(self, folder: str, _last: Processes | None) -> Processes | None:
        """None if the folder does not say; OSError, also when it is gone."""
        events = _read(f"{folder}/cgroup.events")
        if b"populated 1" in events:
            return _FROZEN if b"frozen 1" in events else _RUNNING
        # One that is being written may be empty.
        return _NONE if b"populated 0" in events else None

    def number(self, folder: str) -> int:
        """How many processes are right in it, of many not all; OSError as above."""
        # Those of other PID namespaces are listed, as 0.
        return _lines(folder)

    def has_direct(self, folder: str) -> bool:
        """Whether there are processes right in it; OSError as above."""
        return _lines(folder) > 0


class ReadV1:
    """The same for the `pids` and `freezer` hierarchies of version 1, mounted below `root`.

    `cgroup.procs` leaves out processes of other PID namespaces, so that containers look empty from
    within one. There the hierarchy of version 2 is asked that systemd mounts beside them, where
    runc enters each container, too; or else `pids.current`, which counts zombies that no parent
    reaps: a container with one is then not seen to have ended.
    """

    def __init__(self, root: str) -> None:
        self._sees_all = sees_all_processes()
        # Nobody knows how many threads a monitor has.
        self.monitor: Final = 1.0 if self._sees_all else math.inf
        self._root, self._pids = root, f"{root}/pids"
        self._unified = ReadV2() if os.path.exists(f"{root}/unified/cgroup.controllers") else None

    def look(self, folder: str, last: Processes | None) -> Processes | None:
        """Never None; OSError, also when the folder is gone.

        `last`: what running processes are taken to be still; None: see whether they are frozen.
        """
        some = _lines(folder) or (not self._sees_all and self._hides_some(folder))
        if not some and not _has_nested(folder):
            return _NONE
        if last is _RUNNING:
            return last
        return _FROZEN if self._is_frozen(folder) else _RUNNING

    def number(self, folder: str) -> int:
        """How many processes are right in it; threads, if they are of other PID namespaces."""
        return _lines(folder) if self._sees_all else _counted(folder)

    def has_direct(self, folder: str) -> bool:
        """Whether processes right in it show; OSError, also when the folder is gone."""
        if _lines(folder):
            return True
        return self._unified is not None and self._unified.has_direct(self._same(folder, "unified"))

    def _hides_some(self, folder: str) -> bool:
        """Whether there are processes of other PID namespaces."""
        if self._unified is not None:
            with suppress(OSError):
                seen = self._unified.look(self._same(folder, "unified"), None)
                if seen is not None:
                    return seen is not _NONE
        return _counted(folder) > 0

    def _same(self, folder: str, hierarchy: str) -> str:
        """The same cgroup there."""
        return f"{self._root}/{hierarchy}{folder.removeprefix(self._pids)}"

    def _is_frozen(self, folder: str) -> bool:
        try:
            state = _read(f"{self._same(folder, 'freezer')}/freezer.state")
        except OSError:
            # It has no such hierarchy, or not this cgroup any more.
            return False
        return state.startswith(b"FROZEN")


def sees_all_processes() -> bool:
    """Whether this is the node's own PID namespace: a container has it only if it asks for it."""
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
    """Whether a cgroup below has processes."""
    # The kernel counts folders: 2 is none. Other file systems may not count.
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
    # A third of what `open` costs. A pipe in place of the file has nothing to say.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 64)
    finally:
        os.close(descriptor)
