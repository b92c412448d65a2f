"""The event loop: a command runs in it until a signal, and long work shares it.

It observes how late it is, and ends the process when it is stuck: a subscriber that does not read
freezes containerd for all clients.
"""

import asyncio
import faulthandler
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TextIO, TypeVar

import structlog

from exporter.errors import ShadowPlegError

_log = structlog.get_logger()

_T = TypeVar("_T")

# A relist of 4 000 items creates and drops as many objects: that must not start a collection. A
# collection of the young objects of 100 000 items would block the loop for 50 ms. The image sets
# glibc's memory variables (Containerfile).
_GC_THRESHOLDS: Final = (10_000, 5, 200)
_SLICE: Final = 0.001
# How often within the timeout the loop re-arms the watchdog.
_TURNS: Final = 10
_LAG_PERIOD_SECONDS: Final = 1.0


async def until_signalled(
    run: Callable[[asyncio.Event], Awaitable[_T]], *, outlives: bool = False
) -> _T:
    """Call `run` with an event that SIGTERM and SIGINT set; `run` ends once that is set.

    `outlives`: ignore SIGHUP, which a closed terminal or a request to reload sends. An error of
    this package from a task is raised as is, not in a group. Garbage collection is tuned first.
    """
    # Objects from the imports live until exit: to scan them would only block the loop.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    loop.add_signal_handler(signal.SIGHUP, _carry_on if outlives else stop.set)
    try:
        return await run(stop)
    except ExceptionGroup as group:
        ours, others = group.split(ShadowPlegError)
        if ours is None or others is not None:
            raise
        raise ours.exceptions[0] from None


def _carry_on() -> None:
    """Ignore the signal; SIG_IGN would be inherited by child processes."""


async def in_slices(steps: Iterable[_T | None]) -> list[_T]:
    """Run all steps, yielding to other tasks each millisecond; return the results but None.

    While the loop is blocked, gRPC's own thread reads on until 40 MiB wait; then events pile up in
    the runtime.
    """
    done = []
    due = time.monotonic() + _SLICE
    for step in steps:
        if step is not None:
            done.append(step)
        if time.monotonic() >= due:
            await asyncio.sleep(0)
            due = time.monotonic() + _SLICE
    return done


async def first_of(seconds: float, *waiting: Coroutine[Any, Any, object]) -> None:
    """Return as soon as one of `waiting` is done, or after `seconds`; cancel the others."""
    tasks = [asyncio.create_task(each) for each in waiting]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def meanwhile(*work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run these from entry to exit; a fault in one ends the block, and is raised from it."""
    fault = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
            yield
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as faults:
        # What the block itself raises comes in this group, too.
        fault = faults.exceptions[0]
    if fault:
        # Here, not above: its own context stays.
        raise fault


async def watch_lag(observe: Callable[[float], object]) -> None:
    """Until cancelled, sleep and pass on by how many seconds each wake-up was late."""
    while True:
        due = time.monotonic() + _LAG_PERIOD_SECONDS
        await asyncio.sleep(_LAG_PERIOD_SECONDS)
        observe(max(0.0, time.monotonic() - due))


async def guard(timeout: float) -> None:  # noqa: ASYNC109 - the watchdog's, not this call's
    """Re-arm the watchdog while the loop runs, until cancelled; 0 seconds disables it.

    `faulthandler` waits in a C thread, without the interpreter lock; it dumps every stack and calls
    `_exit(1)`, and the supervisor restarts the process. Blind spot: if the whole process is
    stopped, so is its watchdog; the lease covers that case.
    """
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
