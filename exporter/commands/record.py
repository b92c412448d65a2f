"""`record`: watch like `serve`, and write everything learnt to a file or to stdout.

A runtime must answer at the start; later it may be down, which is worth recording.
"""

import asyncio
import contextlib
import sys
import time
from functools import partial

import structlog

from exporter import __version__
from exporter.commands.options import RecordOptions, failures
from exporter.cri.endpoint import Endpoint, require_usable
from exporter.daemon import Daemon
from exporter.errors import ConfigError, CriError, RecordingError, say
from exporter.loops.lease import ANSWER_TIMEOUT
from exporter.node.state import Node
from exporter.process.event_loop import until_signalled
from exporter.recording.recorder import FULL, Recorder
from exporter.recording.rows import Header
from exporter.settings.config import Config

_log = structlog.get_logger()


async def record(config: Config, options: RecordOptions) -> bool:
    """Record until the time is up, the file is full, or a signal comes; True if the gate passes.

    ConfigError if the file cannot be created or the socket not used, CriError if no runtime
    answers, RecordingError if the file ends up incomplete.
    """
    return await until_signalled(partial(_record, config, options))


async def _record(config: Config, options: RecordOptions, stop: asyncio.Event) -> bool:
    header = Header(
        shadow_pleg=__version__,
        grace=config.missed_grace,
        monotonic=time.monotonic(),
        wall_ns=time.time_ns(),
        redacted=options.redact,
        node=config.node_name if options.with_node_name else "",
    )
    path = None if options.to_stdout else options.output
    if path and options.force and path.is_file():
        # Else the earlier recording would be replaced by nothing.
        await _meet_runtime(config)
    ended = partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set)
    recorder = Recorder(path, options.max_bytes, header, ended, replace=options.force)
    begun = partial(_log.info, "recording", file=str(options.output), redacted=options.redact)
    try:
        await _meet_runtime(config)
        async with Daemon.on(config) as watching:
            watching.chronicle.listen(recorder.hear)
            await watching.run(partial(_over, stop, options.duration), begun)
            watching.chronicle.tell_drops()
    except (ConfigError, CriError):
        if path:
            path.unlink()
        raise
    finally:
        # Blocking the loop is fine now: nothing is being watched.
        recorder.end()
    _conclude(recorder, options)
    return _passes(watching.node, options)


async def _over(stop: asyncio.Event, seconds: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _passes(node: Node, options: RecordOptions) -> bool:
    """Whether --fail-on finds nothing; prints the result."""
    runtime = node.runtime
    runtimes = [f"{runtime.name} {runtime.version}"] if runtime else []
    failed = failures(options.fail_on, node.tally.found, runtimes)
    if options.fail_on:
        _say(f"gate: {'FAILED: ' + ', '.join(failed) if failed else 'passed'}", options)
    return not failed


async def _meet_runtime(config: Config) -> None:
    endpoint = Endpoint(config.runtime_endpoint)
    require_usable(endpoint.socket())
    client = endpoint.separate()
    try:
        await client.version(ANSWER_TIMEOUT)
    finally:
        await client.close()


def _conclude(recorder: Recorder, options: RecordOptions) -> None:
    where = "stdout" if options.to_stdout else str(options.output)
    if recorder.failure:
        remedy = "record to a volume with more room or speed"
        if options.to_stdout:
            remedy = "let what reads stdout run until the end, and as fast as events come"
        raise RecordingError(
            f"--output: {where!r} ends early, {recorder.failure}: what it holds until then can be"
            f" replayed; {remedy}"
        )
    full = f" (--max-bytes={options.max_bytes} reached)" if recorder.why == FULL else ""
    _say(f"{where}: {recorder.facts} facts, {recorder.written} bytes{full}", options)


def _say(line: str, options: RecordOptions) -> None:
    (sys.stderr.write if options.to_stdout else say)(f"{line}\n")
