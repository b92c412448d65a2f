"""Fixtures of the tests of evidence."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real.fixtures import unavailable


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system with room for 64 KiB."""
    if os.geteuid():
        unavailable("a small file system needs root")
    with tempfile.TemporaryDirectory(prefix="sp-full-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            unavailable(f"no small file system: {done.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
