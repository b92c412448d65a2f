"""The simulated runtime as commands: alone (`simulate`), or watched (`demo`).

`demo` prints what the simulator dropped on purpose next to what the daemon counted. Blind spot: a
dropped announcement that no relist and no later announcement reveals is never counted.
"""

import argparse
import asyncio
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from exporter.cli import config_of, finish, only, start_log, without
from exporter.daemon import serve
from exporter.errors import ConfigError, say
from exporter.model.events import Lifecycle, ObjectKind
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import Flaw, StreamState
from exporter.node.state import Node, Tally
from exporter.process.event_loop import meanwhile, until_signalled
from exporter.settings.config import Config
from exporter.settings.declaring import Command, flags_of, from_text
from exporter.settings.flags import socket_path
from simulator.churn import simulated_node
from simulator.options import DEMO_DEFAULTS, Options, SimulateOptions
from simulator.runtime import CgroupFiles, Losses, SimulatedRuntime, Wrong

_PRINT_SECONDS: Final = 15.0
_EXPLAINED: Final = """\
Below: what the runtime gets wrong on purpose, and what shadow-pleg counted so
far, which takes a few seconds: it lists every {period:g} s, with a grace of {grace:g} s.
make demo DEMO_FLAGS=--log.level=warn logs each loss; Ctrl-C ends it.
"""
# In these states there is no subscriber, so nothing is lost.
_UNSUBSCRIBED: Final = (StreamState.REFUSED, StreamState.DISABLED, StreamState.UNSUPPORTED)
_WRONG: Final = {
    each: f"{each.value} container"
    for each in (Verdict.GHOST, Verdict.STRAY, Verdict.TWIN, Verdict.STALE)
} | {Verdict.DISAGREES: "wrong exit code in the kubelet"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One row of the table."""

    label: str
    injected: int
    counted: int


async def simulate(socket: Path, options: Options) -> None:
    """Run the simulated runtime on `socket` until SIGTERM or SIGINT."""

    async def run(stop: asyncio.Event) -> tuple[Losses, Wrong]:
        async with simulated_node(options, socket) as server:
            say(f"{options.runtime.value} on {server.endpoint}\n")
            await stop.wait()
            return server.runtime.losses.copy(), server.runtime.wrong.copy()

    try:
        losses, wrong = await until_signalled(run)
    except OSError as error:
        raise ConfigError(f"--socket: cannot serve on unix://{socket}: {error}") from None
    for row in compare(losses, wrong, Tally()):
        say(f"dropped: {row.label} {row.injected}\n")


async def demo(config: Config, options: Options) -> None:
    """Serve against the simulated runtime until SIGTERM or SIGINT."""
    with tempfile.TemporaryDirectory(prefix="shadow-pleg-") as folder:
        try:
            socket = socket_path(f"{folder}/cri.sock")
        except ConfigError as error:
            raise ConfigError(f"TMPDIR: {error}") from None
        cgroup_root = Path(folder, "cgroup")
        pods = socket.with_name("pods.sock")
        async with simulated_node(options, socket, CgroupFiles(cgroup_root), pods) as server:
            watched: asyncio.Future[Node] = asyncio.get_running_loop().create_future()

            def begun(url: str, node: Node) -> None:
                say(f"shadow-pleg demo: {url}\n")
                say(_EXPLAINED.format(period=config.relist_period, grace=config.missed_grace))
                watched.set_result(node)

            own = replace(config, cgroup_root=cgroup_root, kubelet_pods_endpoint=pods)
            async with meanwhile(_print_tables(server.runtime, watched)):
                await serve(replace(own, runtime_endpoint=socket), begun, outlives=False)


async def _print_tables(runtime: SimulatedRuntime, watched: asyncio.Future[Node]) -> None:
    node = await watched
    try:
        while True:
            await asyncio.sleep(_PRINT_SECONDS)
            _print_table(runtime, node)
    finally:
        _print_table(runtime, node)


def _print_table(runtime: SimulatedRuntime, node: Node) -> None:
    say(f"\n{'injected':>8} {'counted':>8}\n")
    unsubscribed = node.stream.state in _UNSUBSCRIBED
    for row in compare(Counter() if unsubscribed else runtime.losses, runtime.wrong, node.tally):
        say(f"{row.injected:8} {row.counted:8}  {row.label}\n")
    if unsubscribed:
        say("No subscriber: lost events are not listed. The status page says why.\n")


def compare(losses: Losses, wrong: Wrong, tally: Tally) -> tuple[Compared, ...]:
    """The rows that are not 0 on both sides, and their sum."""
    rows = [
        Compared(
            f"{event.label} of a {kind.value}", losses[event, kind], _counted(tally, event, kind)
        )
        for event, kind in product(Lifecycle, ObjectKind)
    ]
    rows += [Compared(what, wrong[each], tally.total(each)) for each, what in _WRONG.items()]
    rows += [
        Compared(f"{each.value} event", wrong[each], tally.total(Verdict.FLAWED, each))
        for each in Flaw
    ]
    total = Compared("all", sum(r.injected for r in rows), sum(r.counted for r in rows))
    return (*(row for row in rows if row.injected or row.counted), total)


def _counted(tally: Tally, event: Lifecycle, kind: ObjectKind) -> int:
    """Events found to be lost for good, but for those that are never sent by design."""
    counts, lost = tally.counts, (Verdict.MISSED, Verdict.GAP, Verdict.UNDECIDED)
    causes = (None, *(cause for cause in Cause if cause is not Cause.BY_DESIGN))
    missed = sum(counts[verdict, event, kind, cause] for verdict, cause in product(lost, causes))
    return missed - sum(counts[Verdict.LATE, event, kind, cause] for cause in causes)


# The demo has its own runtime, kubelet and cgroups.
_NOT_IN_DEMO: Final = only("runtime_endpoint", "web_config_file", "kubelet_", "cgroup_")


def _settings(given: argparse.Namespace) -> Config:
    ignored = {flag.env for flag in _NOT_IN_DEMO}
    environ = {name: text for name, text in os.environ.items() if name not in ignored}
    return config_of(given, DEMO_DEFAULTS, environ)


def _demo(given: argparse.Namespace) -> bool:
    config = _settings(given)
    options = from_text(Options, vars(given), defaults=DEMO_DEFAULTS)
    start_log(config)
    finish(demo(config, options))
    return True


def _simulate(given: argparse.Namespace) -> bool:
    options = from_text(Options, vars(given))
    socket = from_text(SimulateOptions, vars(given)).socket
    start_log(_settings(given))
    finish(simulate(socket, options))
    return True


DEMO: Final = Command(
    _demo,
    "to try it out: watch a simulated runtime that loses events",
    flags_of(Options, DEMO_DEFAULTS) + without(_NOT_IN_DEMO, DEMO_DEFAULTS),
)
SIMULATE: Final = Command(
    _simulate,
    "to test other clients: run the simulated runtime on a socket",
    flags_of(SimulateOptions) + flags_of(Options),
)
