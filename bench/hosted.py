"""The exporter's daemon in a process that can look at its event loop and hold its interpreter.

Flags: `serve`'s own, by the names of their settings (`relist_period=100ms`).
SIGUSR1 holds the interpreter's lock for `--hold` seconds. On stdin, `ticks` is
answered with when (monotonic) a ticker in the same loop woke, how late, and how
much CPU the loop's thread had used meanwhile. With `--undecoded`, lists are fetched and left so.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any, Final

from bench.control import obey
from bench.standstill import hold_on_signal
from exporter.cri.lists import ListDecoder
from exporter.daemon import serve
from exporter.process.log import set_up_log
from exporter.settings.config import Config
from exporter.settings.declaring import from_text

_TICK: Final = 0.001


class Ticker:
    """Sleeps for a millisecond, again and again, and notes by how much longer it took."""

    def __init__(self) -> None:
        self._ticks: list[tuple[float, float, float]] = []

    async def run(self) -> None:
        """For ever."""
        while True:
            due, cpu = time.monotonic() + _TICK, time.thread_time()
            await asyncio.sleep(_TICK)
            woke = time.monotonic()
            self._ticks.append((woke, woke - due, time.thread_time() - cpu))

    async def command(self, _word: str, _numbers: list[float]) -> dict[str, Any]:
        """All ticks since the last such command."""
        ticks, self._ticks = self._ticks, []
        return {"ticks": ticks}


async def _main(given: argparse.Namespace) -> None:
    hold_on_signal(given.hold)
    config = from_text(Config, dict(setting.split("=", 1) for setting in given.setting))
    set_up_log(config.log_level, config.log_format)
    if given.undecoded:
        ListDecoder.items = lambda *_: []  # type: ignore[method-assign] # what is left is gRPC's
    ticker = Ticker()
    tasks = [asyncio.create_task(obey(ticker.command))]
    if given.tick:
        tasks.append(asyncio.create_task(ticker.run()))
    await serve(config)
    for task in tasks:
        task.cancel()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.hosted")
    parser.add_argument("setting", nargs="*", metavar="NAME=TEXT")
    parser.add_argument("--hold", type=int, default=4, metavar="SECONDS")
    parser.add_argument("--tick", action="store_true")
    parser.add_argument("--undecoded", action="store_true")
    return parser.parse_intermixed_args()


if __name__ == "__main__":
    asyncio.run(_main(_arguments()))
