"""Reads small files named by an operator, with a size limit and without blocking on a pipe."""

import os
import stat
from pathlib import Path


def read_file(path: Path, largest: int) -> bytes:
    """All of a regular file; OSError or ValueError, without ever blocking on a pipe."""
    # os.fdopen would leave a directory's descriptor open.
    with open(path, "rb", opener=_at_once) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise ValueError("is not a file")
        content = opened.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"is larger than {largest // 1024} KiB")
    return content


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
