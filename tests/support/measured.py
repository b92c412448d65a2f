"""`serve` in a process that reports, as the last line of its log, what it has cost.

CPU time, not time on a clock: a busy machine makes no callback longer by that.
"""

import asyncio
import sys
import time
from functools import partial
from pathlib import Path

from exporter import daemon
from exporter.__main__ import main
from exporter.node.state import Node

_longest = 0.0
_run = asyncio.Handle._run


def _measured(handle: asyncio.Handle) -> None:
    global _longest  # noqa: PLW0603 - one process, one loop
    began = time.thread_time()
    _run(handle)
    _longest = max(_longest, time.thread_time() - began)


def _begin(_url: str, _node: Node) -> None:
    # What only the start costs is not of interest.
    asyncio.Handle._run = _measured  # type: ignore[method-assign, assignment]


def rss_mib(pid: int | str, line: str = "VmRSS:") -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (kib,) = (each.split()[1] for each in status.splitlines() if each.startswith(line))
    return int(kib) / 1024


def peak_mib(pid: int | str = "self") -> float:
    return rss_mib(pid, "VmHWM:")


if __name__ == "__main__":
    # Each command imports what it calls.
    daemon.serve = partial(daemon.serve, begun=_begin)
    code = main()
    print(_longest, time.process_time(), peak_mib(), file=sys.stderr)  # noqa: T201
    sys.exit(code)
