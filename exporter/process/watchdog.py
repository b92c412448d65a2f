"""Observes how late this process's event loop runs, and ends the process when the loop is stuck.

A subscriber that does not read freezes containerd for all clients. `faulthandler` waits in a C
thread, without the interpreter lock; it dumps every stack and calls `_exit(1)`, and the supervisor
restarts the process. Blind spot: if the whole process is stopped, so is its watchdog; the lease
covers that case.
"""

import asyncio
import faulthandler
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

import structlog

_log = structlog.get_logger()

# How often within the timeout the loop re-arms the watchdog.
_TURNS: Final = 10
_LAG_PERIOD_SECONDS: Final = 1.0


async def watch_lag(observe: Callable[[float], object]) -> None:
    """Until cancelled, sleep and pass on by how many seconds each wake-up was late."""
    while True:
        due = time.monotonic() + _LAG_PERIOD_SECONDS
        await asyncio.sleep(_LAG_PERIOD_SECONDS)
        observe(max(0.0, time.monotonic() - due))


async def guard(timeout: float) -> None:  # noqa: ASYNC109 - the watchdog's, not this call's
    """Re-arm the watchdog while the loop runs, until cancelled; 0 seconds disables it."""
    if not timeout:
        return
    with _unblocking_stderr() as dump:
        try:
            while True:
                faulthandler.dump_traceback_later(timeout, exit=True, file=dump)
                await asyncio.sleep(timeout / _TURNS)
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def _unblocking_stderr() -> Iterator[TextIO]:
    """Open stderr again as non-blocking: a dump must not block on an unread pipe."""
    try:
        again = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    except OSError as error:
        # A socket cannot be reopened; use it as it is.
        _log.debug("the watchdog writes to stderr directly", error=str(error))
        yield sys.stderr
        return
    with os.fdopen(again, "w") as dump:
        yield dump
