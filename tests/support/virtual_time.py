"""An event loop whose clock is a number: it jumps to the next timer instead of waiting for it.

Threads' work is done at once; unix sockets work. Blind spot: child processes and TCP need real
time.
"""

import asyncio
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

# An arbitrary moment: 2026-01-01, and a machine that has been up for some hours.
_BEGAN_WALL_NS: Final = 1_767_225_600 * 10**9
_BEGAN: Final = 10_000.0
_TURN_SECONDS: Final = 1e-5


class _Selector(selectors.PollSelector):
    """Advances the clock by the time for which the loop would have slept."""

    now = _BEGAN

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError(
                "no timer is set and nothing is ready: every task waits for another one"
            )
        # A turn takes time, too: else what never rests would stop the clock for all others.
        self.now += _TURN_SECONDS if ready or not timeout else timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Made where nothing else makes the loop: pytest-asyncio's loop factory, `asyncio.Runner`."""

    # By so many seconds is the wall clock ahead of the truth.
    ahead = 0.0

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(self, _executor: object, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """At once and in this thread: the clock would not wait for another one."""
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller that awaits it gets it
            future.set_exception(error)
        return future


@contextmanager
def clocks_of(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Meanwhile the clocks of `time` are the loop's."""

    def wall_ns() -> int:
        ahead = loop.ahead if isinstance(loop, VirtualLoop) else 0.0
        return _BEGAN_WALL_NS + round((loop.time() - _BEGAN + ahead) * 1e9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", loop.time)
        patch.setattr(time, "time_ns", wall_ns)
        patch.setattr(time, "time", lambda: wall_ns() / 1e9)
        yield


def set_clock(seconds: float) -> None:
    """Set the wall clock forward by so many seconds, back if it is negative."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.ahead += seconds


def work(seconds: float) -> None:
    """Let the code that runs now take that long, as a calculation or a blocking call would."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop._virtual.now += seconds
