"""Evidence that outlives the process: JSON lines in a directory, limited in bytes.

`evidence.jsonl` grows; at half of the limit it is renamed to `evidence.jsonl.1`, replacing the
previous one. Each line is synced (fsync) before the next one is started, so a crash costs at most
the line being written; the next start truncates a partial line. A disk that is full or missing is
logged once, counted, and retried with the next record.
"""

import os
from pathlib import Path
from typing import Final

import structlog

from exporter.evidence.writer import Behind
from exporter.node.state import Dropped, Node

_log = structlog.get_logger()

NAME: Final = "evidence.jsonl"
_WAITING: Final = 64
_TAIL: Final = 64 * 1024
_NOTHING: Final = b""
# Pod names are private to the owner of the file.
_MODE: Final = 0o600


class Files:
    """The two files. Every method may raise OSError, and leaves only whole lines behind."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._half = max_bytes // 2
        self._file: int | None = None
        self._size = 0

    def open(self) -> int:
        """Open the newest file if needed, truncating a line left partial by a crash."""
        if self._file is None:
            self._file = self._opened()
        return self._file

    def append(self, line: bytes) -> None:
        """Append one line and sync it; older lines are dropped if there is no room."""
        data = line + b"\n"
        file = self.open()
        if self._size and self._size + len(data) > self._half:
            self.close()
            self._path.replace(self._path.with_name(f"{NAME}.1"))
            file = self.open()
        try:
            left = data
            while left:
                left = left[os.write(file, left) :]
            os.fdatasync(file)
        except OSError:
            self._take_back()
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
        try:
            self._size = _cut_torn_line(file)
            _sync_folder(self._folder)
        except OSError:
            os.close(file)
            raise
        return file

    def _take_back(self) -> None:
        """Remove a partial line. Truncating needs no space; if it fails, opening will do it."""
        try:
            if self._file is not None:
                os.ftruncate(self._file, self._size)
        except OSError:
            _log.debug("half a line of evidence stays until the next start")
        finally:
            self.close()


class Store:
    """Stores records in a directory. If that is not writable, only evidence is lost."""

    def __init__(self, folder: Path, max_bytes: int, node: Node) -> None:
        self._folder = folder
        self._node = node
        self._files = Files(folder, max_bytes)
        self._failing = False
        self._behind: Behind[bytes] = Behind("evidence", self._keep, _WAITING)
        # Check and log whether the directory is usable before there is anything to lose.
        self._behind.put(_NOTHING)

    def put(self, line: bytes) -> None:
        """Keep one record; it is dropped and counted if the disk is too slow."""
        if not self._behind.put(line):
            self._node.evidence_dropped[Dropped.QUEUE] += 1

    def end(self) -> None:
        """Write what is queued, as far as that takes no longer than a moment."""
        if self._behind.end():
            self._files.close()

    def _keep(self, line: bytes) -> None:
        # In the thread: no other code counts under this key or logs these lines.
        try:
            if line is _NOTHING:
                self._files.open()
            else:
                self._files.append(line)
        except OSError as error:
            self._node.evidence_dropped[Dropped.DISK] += line is not _NOTHING
            if not self._failing:
                _log.error("evidence not kept", folder=str(self._folder), error=str(error))
            self._failing = True
            return
        if self._failing:
            _log.info("evidence is kept again", folder=str(self._folder))
        self._failing = False


def _cut_torn_line(file: int) -> int:
    """Remove what follows the last whole line; returns the remaining size."""
    size = end = os.fstat(file).st_size
    while end:
        begin = max(0, end - _TAIL)
        last = os.pread(file, end - begin, begin).rfind(b"\n")
        if last >= 0:
            end = begin + last + 1
            break
        end = begin
    if end != size:
        os.ftruncate(file, end)
        os.fsync(file)
    return end


def _sync_folder(folder: Path) -> None:
    """A new name is on disk only after its directory has been synced."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
