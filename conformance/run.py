"""Plays the parts on a runtime, or reads a recording, and judges what was heard."""

import asyncio
import fcntl
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from conformance.history import History, facts_of, read, write
from conformance.options import Options, Output
from conformance.parts import NO_TIME, Play
from conformance.properties import PROPERTIES, as_json, expected, junit, text
from conformance.stage import NAMESPACE, PartError
from exporter.cli import finish, start_log
from exporter.cri.endpoint import Endpoint, require_usable
from exporter.errors import ConfigError, CriError, say
from exporter.process.event_loop import first_of, until_signalled
from exporter.settings.config import Config

_STOPPING: Final = (
    "stopping: it waits for its calls, a minute each at most, and removes its pods;"
    " another signal leaves them, and the runtime may be unable to remove one\n"
)
_WRITERS: Final = {Output.TEXT: text, Output.JUNIT: junit, Output.JSON: as_json}


def conforms(config: Config, options: Options) -> bool:
    """Print the results; True if nothing fails. ConfigError if nothing can be judged."""
    wanted, groups = {*options.only}, {row.group for row in PROPERTIES.values()}
    if unknown := wanted - groups - {*PROPERTIES}:
        what = f"{min(unknown)!r} is neither a property nor one of the groups"
        raise ConfigError(f"--only: {what} {', '.join(sorted(groups))}")
    rows = [r for r in PROPERTIES.values() if not wanted or wanted & {r.name, r.group}]
    known = expected(options.expect) if options.expect else {}
    if options.history:
        # See that the file can be written, before a run that takes minutes.
        write((), options.history)
        options.history.unlink()
    parts, history = {part for row in rows for part in row.parts}, History()
    try:
        if options.recording:
            history = read(options.recording)
        else:
            start_log(config)
            finish(_played(config.runtime_endpoint, options, parts, history))
        strict = bool(options.expect)
        judged = (row.judged(history) for row in rows)
        results = [replace(each, known=known.get(each.of.name), strict=strict) for each in judged]
        say(_WRITERS[options.output](f"{history.runtime} {history.version}", results))
    finally:
        # Also what there is of a run that ended early.
        if options.history and history.runtime:
            write(facts_of(history), options.history)
    if short := [each.of.name for each in results if NO_TIME in each.said]:
        sys.stderr.write(f"not judged in full: {', '.join(short)}: {NO_TIME}\n")
    return not any(each.fails for each in results)


async def _played(
    endpoint: Path | None, options: Options, parts: set[str], history: History
) -> None:
    """Play the parts. ConfigError if there is no runtime or image, or if the node is in use."""
    try:
        path = Endpoint(endpoint).socket()
    except CriError as error:
        raise ConfigError(f"--runtime-endpoint: {error}") from None
    require_usable(path)

    async def run(stop: asyncio.Event) -> None:
        stage = Play(path, options, history)
        playing = asyncio.create_task(_play(stage, options, parts))
        whole = asyncio.create_task(_cleaned(stage, playing))
        for each in (playing, whole):
            await first_of(math.inf, stop.wait(), asyncio.wait({whole}))
            if whole.done():
                break
            if each is playing:
                sys.stderr.write(_STOPPING)
            stop.clear()
            each.cancel()
        await asyncio.wait({whole})
        if whole.cancelled():
            removed = "; the pods that it made are removed" if stage.is_clear else ""
            raise ConfigError(f"stopped by a signal{removed}")
        whole.result()

    try:
        with _alone(path):
            await until_signalled(run)
    except (CriError, PartError) as error:
        raise ConfigError(f"--runtime-endpoint: unix://{path}: {error}") from None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock the socket's folder: another run would remove these pods, and this one its."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another run tests unix://{path}: wait for its end") from None
        yield
    finally:
        os.close(folder)


async def _cleaned(stage: Play, playing: asyncio.Task[None]) -> None:
    async with stage:
        await playing


async def _play(stage: Play, options: Options, parts: set[str]) -> None:
    """Play the parts, unless the node is in use; pull the image if it is missing."""
    if not options.beside_kubelet:
        others = [
            item.pod
            for item in await stage.listed()
            if item.pod and item.pod.namespace != NAMESPACE
        ]
        why = "a kubelet runs here" if _kubelet_runs() else ""
        if others and not why:
            why = f"{len(others)} pods and containers of others are there, like {others[0].name}"
        if why:
            raise ConfigError(f"{why}: take a machine that is free, or give --beside-kubelet")
    await stage.clean()
    try:
        # The answer is empty if the image is not there.
        if not await stage.call("ImageStatus", {1: {1: options.image}}):
            await stage.call("PullImage", {1: {1: options.image}})
    except CriError as error:
        what = f"{options.image} is not there and cannot be pulled, name another"
        raise ConfigError(f"--image: {what}: {error}") from None
    await stage.run(parts)


def _kubelet_runs() -> bool:
    for name in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if name.read_text(encoding="utf-8").strip() == "kubelet":
                return True
    return False
