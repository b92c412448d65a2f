"""Opens and reads files named by an operator, without ever blocking on a pipe."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; OSError, or ValueError if it is anything else."""
    # os.fdopen would leave a directory's descriptor open.
    opened = open(path, "rb", opener=_at_once)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise ValueError("is not a file")
    return opened


def read_file(path: Path, largest: int) -> bytes:
    """All of a regular file with a size limit; ValueError says why it is not to be had."""
    try:
        with open_file(path) as opened:
            content = opened.read(largest + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {os.strerror(error.errno or 0)}") from None
    if len(content) > largest:
        raise ValueError(f"is larger than {largest // 1024} KiB")
    return content


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
