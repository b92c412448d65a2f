"""Processes that are forked from one that has imported libraries, and nothing of the exporter."""

import contextlib
import importlib
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

AT_ONCE: Final = 2
# They take most of the time of a start.
_LIBRARIES: Final = (
    "aiohttp.web",
    "grpc.aio",
    "hypothesis.strategies",
    "jinja2",
    "msgspec",
    "yaml",
)

# The exit code of a process in which not a test, but this module failed.
_BROKEN: Final = 70


def prepare() -> None:
    """Import what all processes need."""
    for name in _LIBRARIES:
        importlib.import_module(name)


def start(what: Callable[[], int], log: Path | None = None) -> int:
    """Run it in a process of its own."""
    if child := os.fork():
        return child
    code = _BROKEN
    try:
        os.setpgid(0, 0)
        if log is not None:
            output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
        code = what()
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc()
    finally:
        os._exit(code)


def end(child: int) -> int:
    """Wait for it: its exit code, or minus the signal that ended it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # What a test left behind when it was ended.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code == _BROKEN:
        raise ChildProcessError(child)
    return code
