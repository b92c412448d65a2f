"""Reading small files that an operator names, which may be anything.

Here: bounds, and never a wait for a pipe. Not here: what a file means.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_file(path: Path, largest: int) -> bytes:
    """All of a regular file; OSError or ValueError, never a wait for a pipe."""
    # os.fdopen would leave the descriptor of a folder open.
    with open(path, "rb", opener=_at_once) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise ValueError("is not a file")
        content = opened.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"is larger than {largest // 1024} KiB")
    return content


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
