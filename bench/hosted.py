"""The exporter's daemon in a process that can look at its event loop and hold its interpreter.

SIGUSR1 holds the interpreter's lock for 5 s: threads that need no Python run on, as gRPC's own,
which read the socket. Such is a long garbage collection, or a call into a library that keeps the
lock. On stdin, `ticks` is answered with when (monotonic) a ticker in the same loop woke, how late,
and how much CPU the loop's thread had used meanwhile.
"""

import asyncio
import ctypes
import signal
import time
from typing import Any, Final

from bench.processes import HOLD_SECONDS, obey
from exporter import daemon
from exporter.__main__ import main
from exporter.daemon import serve
from exporter.settings.config import Config

_TICK: Final = 0.001


async def _serve(config: Config) -> None:
    ticks: list[tuple[float, float, float]] = []

    async def tick() -> None:
        """Sleep for a millisecond, again and again, and note by how much longer it took."""
        while True:
            due, cpu = time.monotonic() + _TICK, time.thread_time()
            await asyncio.sleep(_TICK)
            woke = time.monotonic()
            ticks.append((woke, woke - due, time.thread_time() - cpu))

    async def command(_word: str, _numbers: list[float]) -> dict[str, Any]:
        """All ticks since the last such command."""
        answer = {"ticks": ticks.copy()}
        ticks.clear()
        return answer

    # PyDLL, unlike CDLL, keeps the lock during the call.
    sleep = ctypes.PyDLL(None).sleep
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, sleep, HOLD_SECONDS)
    tasks = [asyncio.create_task(obey(command)), asyncio.create_task(tick())]
    await serve(config)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    # Each command imports what it calls.
    daemon.serve = _serve  # type: ignore[assignment] # `serve` calls it with its settings alone
    main()
