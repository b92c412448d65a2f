"""The two files of an evidence directory: whole lines, bounded in bytes, and nothing outside it.

`evidence.jsonl` grows; at half of the limit it is renamed to `evidence.jsonl.1`, replacing the
previous one. Each line is synced (fsync) before the next one is started, so a crash costs at most
the line being written; the next start truncates a partial line.

Law: only a regular file of our own with evidence in it is ever written or truncated, in a directory
that nobody else can write to. Links are not followed. Blind spot: the directory's own parents,
which may be links.
"""

import os
import stat
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

_log = structlog.get_logger()

NAME: Final = "evidence.jsonl"
_OLDER: Final = f"{NAME}.1"
# What every record begins with (case.written).
_HEAD: Final = b'{"schema":'
_TAIL: Final = 64 * 1024
# Pod names are private to the owner of the files.
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait.
_FILE_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)


@dataclass(slots=True)
class _Open:
    """Descriptors of the directory and its newest file; `records` were written by this process."""

    folder: int
    file: int
    size: int
    closing: ExitStack
    records: int = 0

    def is_in_place(self, folder: Path) -> bool:
        """Whether the names still lead to what is open, and nothing of it was truncated."""
        try:
            named = os.stat(NAME, dir_fd=self.folder, follow_symlinks=False)
            return (
                os.path.samestat(folder.lstat(), os.fstat(self.folder))
                and os.path.samestat(named, os.fstat(self.file))
                and named.st_size >= self.size
            )
        except OSError:
            return False


class Files:
    """Every method but `lost` may raise OSError, and leaves only whole lines behind."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._half = max_bytes // 2
        self._open: _Open | None = None

    def open(self) -> _Open:
        """Open the newest file if needed, truncating a line left partial by a crash."""
        if self._open is None:
            self._open = _opened(self._folder)
        return self._open

    def lost(self) -> int | None:
        """None if the file is where it was; else the number of our records that it took along.

        It is closed then, and the next line makes a new one.
        """
        now = self._open
        if now is None or now.is_in_place(self._folder):
            return None
        self.close()
        return now.records

    def append(self, line: bytes) -> None:
        """Append one line and sync it; older lines are dropped if there is no room."""
        data = line + b"\n"
        now = self.open()
        if now.size and now.size + len(data) > self._half:
            os.replace(NAME, _OLDER, src_dir_fd=now.folder, dst_dir_fd=now.folder)
            self.close()
            now = self.open()
        try:
            left = data
            while left:
                left = left[os.write(now.file, left) :]
            os.fdatasync(now.file)
        except OSError:
            self._take_back(now)
            raise
        now.size += len(data)
        now.records += 1

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._open is not None:
            self._open.closing.close()
            self._open = None

    def _take_back(self, now: _Open) -> None:
        """Remove a partial line. Truncating needs no space; if it fails, opening will do it."""
        try:
            os.ftruncate(now.file, now.size)
        except OSError:
            _log.debug("half a line of evidence stays until the next start")
        finally:
            self.close()


def _opened(path: Path) -> _Open:
    closing = ExitStack()
    try:
        folder = _open_folder(path)
        closing.callback(os.close, folder)
        file = _open_file(folder)
        closing.callback(os.close, file)
        _check_file(os.fstat(file))
        size = _cut_torn_line(file)
        os.fchmod(file, _FILE_MODE)
        # A new name is on disk only after its directory has been synced.
        os.fsync(folder)
    except OSError:
        closing.close()
        raise
    return _Open(folder, file, size, closing)


def _open_folder(path: Path) -> int:
    if path.is_symlink():
        raise OSError("it is a symbolic link: name the folder that it leads to")
    path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    _check_folder(path.lstat())
    folder = os.open(path, _FOLDER_FLAGS)
    try:
        _check_folder(os.fstat(folder))
    except OSError:
        os.close(folder)
        raise
    return folder


def _check_folder(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise OSError(f"it belongs to uid {status.st_uid}: name a folder inside it")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise OSError("others can write to it: chmod 0700")


def _open_file(folder: int) -> int:
    # Checked before it is opened, for the message and because opening a device may do something;
    # checked again afterwards, because it may have been replaced meanwhile.
    with suppress(FileNotFoundError):
        _check_file(os.stat(NAME, dir_fd=folder, follow_symlinks=False))
    return os.open(NAME, _FILE_FLAGS, _FILE_MODE, dir_fd=folder)


def _check_file(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(f"{NAME} is a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{NAME} is not a regular file")
    if status.st_uid != os.geteuid():
        raise OSError(f"{NAME} belongs to uid {status.st_uid}")
    if status.st_nlink > 1:
        raise OSError(f"{NAME} is a hard link: it has another name elsewhere")


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
    head = os.pread(file, len(_HEAD), 0)
    # A crash may leave less than one line, and zeros in the place of the rest.
    only_torn = not end and _HEAD.startswith(head.rstrip(b"\0"))
    if head != _HEAD and not only_torn:
        raise OSError(f"{NAME} does not hold evidence: move it away")
    if end != size:
        os.ftruncate(file, end)
        os.fsync(file)
    return end
