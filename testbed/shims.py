"""The processes behind a container of containerd, for signals."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.containerd import Containerd

_TASKS = "state/io.containerd.runtime.v2.task/k8s.io"


def init_of(containerd: Containerd, container: str) -> int:
    """The process id of a container's first process."""
    return int((containerd.home / _TASKS / container / "init.pid").read_text())


def shim_of(containerd: Containerd, container: str) -> int:
    """The process id of its shim, whose child that is."""
    status = Path(f"/proc/{init_of(containerd, container)}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop that process, and let it go on at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
