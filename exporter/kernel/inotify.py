"""The kernel's notifications, by three functions of libc.

Libraries for inotify call the same three through ctypes, and add threads, paths and recursion that
nothing here needs.
"""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

# <sys/inotify.h>
MODIFY: Final = 0x2
IGNORED: Final = 0x8000
IS_FOLDER: Final = 0x40000000
APPEARED: Final = 0x100 | 0x80  # IN_CREATE, IN_MOVED_TO
VANISHED: Final = 0x200 | 0x40  # IN_DELETE, IN_MOVED_FROM
ONLY_FOLDERS: Final = 0x01000000

_HEADER: Final = struct.Struct("iIII")
# Bytes, some hundred notifications at most: a turn of the event loop stays short.
_AT_ONCE: Final = 4096

# Watches of one uid on this node; and the least that any kernel allows.
LIMIT: Final = Path("/proc/sys/fs/inotify/max_user_watches")
_LEAST: Final = 8192


def limit() -> int:
    """How many watches all processes of a uid may have."""
    with suppress(OSError, ValueError):
        return int(LIMIT.read_text())
    return _LEAST


class Notification(NamedTuple):
    """`watch`: the number that `add` returned. `name`: what changed within the folder, or ""."""

    watch: int
    mask: int
    name: str


class Inotify:
    """One inotify instance; OSError if the kernel gives none. Poll `fileno` for notifications."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fileno: Final[int] = self._checked(
            self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        )

    def add(self, path: str, mask: int) -> int:
        """Watch a file or folder; returns a number. OSError if it is gone, or no watch is left."""
        return self._checked(self._libc.inotify_add_watch(self.fileno, os.fsencode(path), mask))

    def remove(self, watch: int) -> None:
        """End a watch, if it has not ended by itself: else it keeps the file of a dead cgroup."""
        self._libc.inotify_rm_watch(self.fileno, watch)

    def read(self) -> Iterator[Notification]:
        """Yield some of the waiting notifications, in order; nothing if none waits."""
        try:
            data = os.read(self.fileno, _AT_ONCE)
        except BlockingIOError:
            return
        begin = 0
        while begin < len(data):
            watch, mask, _cookie, length = _HEADER.unpack_from(data, begin)
            begin += _HEADER.size + length
            name = data[begin - length : begin].rstrip(b"\0")
            yield Notification(watch, mask, os.fsdecode(name))

    def close(self) -> None:
        """End all watches."""
        os.close(self.fileno)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
