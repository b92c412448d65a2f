"""Whether a container's cgroup has processes, by its files.

v2 has one field for it, which includes descendants and ignores zombies. v1 lists the processes of
each cgroup.
"""

import errno
import os
from collections.abc import Callable
from typing import Final

# A file as the runtime's own; a cgroup that is being removed says ENODEV.
GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)
# More of them within one container are not looked at: it then counts as populated.
_MOST_NESTED: Final = 100
_INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux

Populated = Callable[[str], bool | None]


def read_v2(folder: str) -> bool | None:
    """None if the folder does not say; OSError, also when it is gone."""
    events = _read(f"{folder}/cgroup.events")
    if b"populated 1" in events:
        return True
    # One that is being written may be empty.
    return False if b"populated 0" in events else None


class ReadV1:
    """The same for v1's `pids` hierarchy.

    `cgroup.procs` leaves out processes of other PID namespaces, so that containers look empty from
    within one. There `pids.current` is asked, too: it also counts zombies that no parent reaps.
    """

    def __init__(self) -> None:
        self._sees_all = sees_all_processes()

    def __call__(self, folder: str) -> bool | None:
        """Never None; OSError, also when the folder is gone."""
        if _read(f"{folder}/cgroup.procs").strip():
            return True
        return (not self._sees_all and _counts_some(folder)) or _has_nested(folder)


def sees_all_processes() -> bool:
    """Whether this is the node's own PID namespace: a container has it only if it asks for it."""
    try:
        return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _counts_some(folder: str) -> bool:
    try:
        return _read(f"{folder}/pids.current").strip() not in (b"", b"0")
    except OSError as error:
        if error.errno in GONE:
            return False
        raise


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
            if _read(f"{each}/cgroup.procs").strip():
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
