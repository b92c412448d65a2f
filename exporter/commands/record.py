"""`record`: watch like `serve`, and write everything learnt to a file."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from functools import partial

import structlog

from exporter import __version__
from exporter.daemon import Daemon, until_signalled
from exporter.errors import RecordingError
from exporter.recording.encode import Header
from exporter.recording.recorder import FULL, Recorder, RecordOptions
from exporter.settings.config import Config

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Span:
    """How many seconds to record (0: until a signal), and whether to name the node."""

    seconds: float
    name_node: bool


async def record(config: Config, wish: RecordOptions, span: Span) -> None:
    """Record until the time is up, the file is full, or a signal arrives.

    ConfigError if the file cannot be created, RecordingError if it ends up incomplete.
    """
    header = Header(
        shadow_pleg=__version__,
        grace=config.missed_grace,
        monotonic=time.monotonic(),
        wall_ns=time.time_ns(),
        redacted=wish.redact,
        node=config.node_name if span.name_node else "",
    )
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def ended() -> None:
        loop.call_soon_threadsafe(over.set)

    recorder = Recorder(wish, header, ended)

    def begin() -> None:
        _log.info("recording", file=str(wish.path), redacted=wish.redact)

    async def watch(stop: asyncio.Event) -> None:
        async with Daemon.on(config) as watching:
            watching.chronicle.listen(recorder)
            await watching.run(partial(_first, stop, over, span.seconds), begin)
            watching.chronicle.tell_drops()

    try:
        await until_signalled(watch)
    finally:
        # Blocking the loop is fine now: nothing is being watched.
        recorder.end()
    _conclude(recorder, wish)


async def _first(stop: asyncio.Event, over: asyncio.Event, seconds: float) -> None:
    waiting = [asyncio.create_task(each.wait()) for each in (stop, over)]
    await asyncio.wait(waiting, timeout=seconds or None, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


def _conclude(recorder: Recorder, wish: RecordOptions) -> None:
    if recorder.failure:
        raise RecordingError(
            f"--output: {str(wish.path)!r} ends early, {recorder.failure}: what it holds until"
            " then can be replayed; record to a volume with more room or speed"
        )
    full = f" (--max-bytes={wish.max_bytes} reached)" if recorder.why == FULL else ""
    sys.stdout.write(f"{wish.path}: {recorder.facts} facts, {recorder.written} bytes{full}\n")
    sys.stdout.flush()
