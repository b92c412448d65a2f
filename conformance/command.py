"""The `conformance` command: plays the parts on a runtime, or reads a recording, and judges."""

import argparse
import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import grpc.aio

from conformance.history import History, of_recording, write
from conformance.parts import Play
from conformance.properties import PROPERTIES, Property, expected
from conformance.stage import NAMESPACE, PartError, Stage, said
from conformance.writing import WRITERS, Output, Result
from exporter.cli import config_of, finish, only, start_log
from exporter.cri.endpoint import Endpoint, require_usable
from exporter.errors import ConfigError, CriError, ShadowPlegError
from exporter.process.signals import until_signalled
from exporter.settings import flags
from exporter.settings.declaring import flag, flags_of, from_text, switch
from exporter.settings.files import open_file
from exporter.settings.parsing import Command
from replay.reader import Recording

_IMAGE: Final = "registry.k8s.io/e2e-test-images/busybox:1.29-4"


def _names(text: str) -> tuple[str, ...]:
    """Names of groups or properties; all if there are none."""
    groups = {each.group for each in PROPERTIES.values()}
    names = [word.strip() for word in text.split(",") if word.strip()]
    for word in names:
        if word not in groups and word not in PROPERTIES:
            choice = ", ".join(sorted(groups))
            raise ConfigError(f"{word!r} is no property and none of the groups {choice}")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked of which runtime; raises ConfigError if that does not go together."""

    GROUPS: ClassVar = {"image": "what is done", "recording": "the answer"}

    image: str = flag(
        "image REF", _IMAGE, str, "image with sh, sleep, dd; pulled if it is not there"
    )
    only: tuple[str, ...] = flag("only NAMES", "", _names, "groups or properties, with commas")
    seconds: float = flag(
        "seconds N", "120", flags.whole(5, 3600), "no part begins later; fewer do less of each"
    )
    restart_command: str = flag(
        "restart-command CMD", "", str, "shell command that restarts the runtime"
    )
    runtime_handler: str = flag("runtime-handler NAME", "", str, "another handler to try, too")
    beside_kubelet: bool = switch(
        "beside-kubelet", "run on a node that is in use: its pods may suffer while it lasts"
    )
    recording: Path | None = flag(
        "recording FILE", "", flags.optional(Path), "judge what `shadow-pleg record` wrote instead"
    )
    expect: str = flag(
        "expect FILE", "", str, "breaches that are known: a file, containerd-1.7 or containerd-2.1"
    )
    output: Output = flag("output", "text", flags.one_of(Output), "format of the answer")
    history: Path | None = flag(
        "history FILE", "", flags.optional(Path), "file to write, for `shadow-pleg replay`"
    )

    def __post_init__(self) -> None:
        if self.recording and (self.restart_command or self.runtime_handler or self.history):
            raise ConfigError("--recording: nothing is done to a runtime, leave other flags out")
        if self.history and self.history.exists():
            raise ConfigError(f"--history: {str(self.history)!r} exists: name a new file")

    def wants(self, row: Property) -> bool:
        """Whether it is asked for."""
        return not self.only or row.name in self.only or row.group in self.only


async def played(path: Path, options: Options) -> History:
    """What was done and said. ConfigError if it cannot be: no runtime, image, or a node in use."""
    require_usable(path)

    async def run(stop: asyncio.Event) -> History:
        how = (options.seconds, options.runtime_handler, options.restart_command)
        async with Play(path, options.image, *how) as stage:
            await _prepare(stage, options)
            parts = {
                part for row in PROPERTIES.values() if options.wants(row) for part in row.parts
            }
            playing = asyncio.create_task(stage.run(parts.__contains__))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({playing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not playing.done():
                playing.cancel()
                await asyncio.gather(playing, return_exceptions=True)
                raise ConfigError("stopped by a signal; the pods that it made are removed")
            await playing
            return stage.history

    try:
        return await until_signalled(run)
    except (CriError, PartError, grpc.aio.AioRpcError) as error:
        why = said(error) if isinstance(error, grpc.aio.AioRpcError) else error
        raise ConfigError(f"--runtime-endpoint: unix://{path}: {why}") from None


async def _prepare(stage: Stage, options: Options) -> None:
    """See that the node is free, and that the image is there."""
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
        if not await stage.cri.has_image(options.image):
            await stage.cri.pull(options.image)
    except grpc.aio.AioRpcError as error:
        raise ConfigError(f"--image: {options.image} cannot be pulled: {said(error)}") from None


def _kubelet_runs() -> bool:
    for name in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if name.read_text(encoding="utf-8").strip() == "kubelet":
                return True
    return False


def _read(path: Path) -> History:
    try:
        with open_file(path) as file:
            recording = Recording(file)
            history = of_recording(recording)
    except (OSError, ValueError, ShadowPlegError) as error:
        raise ConfigError(f"--recording: {str(path)!r} cannot be read: {error}") from None
    if recording.damage:
        raise ConfigError(f"--recording: {str(path)!r} is damaged: {recording.damage}")
    return history


def _conformance(given: argparse.Namespace) -> bool:
    config, options = config_of(given), from_text(Options, vars(given))
    known = expected(options.expect) if options.expect else {}
    if options.recording:
        history = _read(options.recording)
    else:
        start_log(config)
        try:
            path = Endpoint(config.runtime_endpoint).socket()
        except CriError as error:
            raise ConfigError(f"--runtime-endpoint: {error}") from None
        history = finish(played(path, options))
        if options.history:
            write(history, options.history)
    rows = [row for row in PROPERTIES.values() if options.wants(row)]
    strict = bool(options.expect)
    results = [Result(row, row.judged(history), known.get(row.name), strict) for row in rows]
    runtime = f"{history.runtime} {history.version}"
    sys.stdout.write(WRITERS[options.output](runtime, results))
    sys.stdout.flush()
    return not any(each.fails for each in results)


CONFORMANCE: Final = Command(
    _conformance,
    "for maintainers of runtimes: test a runtime's event stream",
    only("runtime_endpoint") + flags_of(Options),
    endings="Exit codes: 0 as expected, 1 an unexpected breach, 2 it could not run.",
)
