"""Ends this process when its event loop stands still.

A subscriber that does not read freezes containerd for everybody, and it cannot
be trusted to notice. `faulthandler` waits in a thread of C that needs neither
the interpreter lock nor the loop; it dumps every stack and calls `_exit(1)`.
Whoever runs us starts us again. Blind spot: a process that is stopped as a
whole stops with its watchdog; that is what the lease is for.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

import structlog

_log = structlog.get_logger()

# So often within the timeout does the loop say that it turns.
_TURNS: Final = 10


async def guard(timeout: float) -> None:  # noqa: ASYNC109 - the watchdog's, not this call's
    """Re-arm the watchdog as long as the loop turns, for ever; 0 seconds is no watchdog."""
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
    """Stderr as a file of our own: with nobody reading the pipe, a dump must not wait either."""
    try:
        again = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    except OSError as error:
        # A socket cannot be opened again: it has to do as it is.
        _log.debug("the watchdog writes to stderr itself", error=str(error))
        yield sys.stderr
        return
    with os.fdopen(again, "w") as dump:
        yield dump
