"""What being watched costs containerd's clients: the latency of CRI calls, with us and without.

Here: real pods on real containerd under each condition, and the ratios with their confidence
intervals. Not here: the exporter's own use of CPU and memory; what a frozen one does (`freeze`).
Blind spot: the storm's own clients run on the same machine, and their work counts against us.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import freeze
from bench.freeze import Stopwatch
from bench.rows import Row, Section, percentile
from tests.support.harness import Exporter
from tests.support.real.containerd import Containerd, why_not
from tests.support.real.cri_client import Pods
from tests.support.real.leftovers import sweep_abandoned

# The p99 of a machine with noisy neighbours: half of this was too short to tell.
SECONDS: Final = 420.0
QUICK_SECONDS: Final = 24.0
PODS: Final = 10
WARM_UP: Final = 2
BUSY_PROCESSES: Final = 2
# What `serve` does unless told otherwise, where the tests' harness tells it otherwise; but it
# relists ten times as often.
FLAGS: Final = ("--relist-period=1s", "--relist-timeout=30s")
GRACE: Final = 5.0

CONNECTIONS: Final = 4
SCRAPES_PER_SECOND: Final = 50

RESAMPLES: Final = 1000
LIMIT: Final = 1.05
ALL: Final = "all calls"
CALLS: Final = ("RunPodSandbox", "CreateContainer", "StartContainer", ALL)
SHARES: Final = {"p50": 0.5, "p99": 0.99}

TITLE: Final = "Harm: what the node's CRI calls cost with us and without"
TEXT: Final = f"""
Latency of CRI calls on containerd 2.1 ({{pods}} pods, one at a time, each with one container: run,
create, start, stop, remove). Conditions take turns in blocks of {PODS} pods, in rotating order,
for {{rounds}} rounds; the first {WARM_UP} pods of a block do not count. containerd's folders lie in
memory: what others do to a disk would drown what is measured here. "Watched" is `serve` with
`--relist-period=1s`, ten times more often than its default, and defaults otherwise. "Storm" adds
{CONNECTIONS} connections that scrape /metrics, {SCRAPES_PER_SECOND} times a second together, their
own work on the same cores included. "Loaded" is {BUSY_PROCESSES} processes that never sleep, on
{{cores}} cores. In parentheses: the 95 % interval of {RESAMPLES} resamplings of the rounds. "Nobody
again" differs from "nobody" in nothing: ratios within that distance of 1 are noise. "{ALL}" are
all seven calls of a life together; the bar is on their p99, as that of one call alone rests on a
handful of values. It was one and the same containerd throughout, and no pod was left.
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """What else goes on while pods live."""

    name: str
    watched: bool = False
    storm: bool = False
    load: bool = False


NOBODY: Final = Condition("nobody")
NOBODY_AGAIN: Final = Condition("nobody again")
WATCHED: Final = Condition("watched", watched=True)
STORM: Final = Condition("storm", watched=True, storm=True)
LOADED: Final = Condition("loaded", load=True)
LOADED_WATCHED: Final = Condition("loaded, watched", watched=True, load=True)
CONDITIONS: Final = (NOBODY, WATCHED, LOADED, NOBODY_AGAIN, STORM, LOADED_WATCHED)
PAIRS: Final = (
    (WATCHED, NOBODY),
    (STORM, NOBODY),
    (LOADED_WATCHED, LOADED),
    (NOBODY_AGAIN, NOBODY),
)

Round = dict[Condition, dict[str, list[float]]]


def measure(quick: bool) -> Section:  # noqa: FBT001 -- how every measurement is called
    """Both tables: the healthy exporter's, and the frozen one's."""
    if reason := why_not("2.1"):
        return Section(TITLE, f"Not measured: {reason}.", ())
    sweep_abandoned()
    # The harness shows the exporter's log, for tests that fail.
    with redirect_stdout(io.StringIO()):
        rounds = asyncio.run(_rounds(QUICK_SECONDS if quick else SECONDS))
        frozen = asyncio.run(freeze.rows(quick=quick))
    pods = len(rounds) * len(CONDITIONS) * PODS
    text = TEXT.format(pods=pods, rounds=len(rounds), cores=os.cpu_count())
    return Section(TITLE, text + freeze.TEXT, (*_rows(rounds), *frozen))


async def _rounds(seconds: float) -> list[Round]:
    """Whole rounds for about so long."""
    rounds: list[Round] = []
    end = time.monotonic() + seconds
    async with in_memory() as containerd, containerd.pods() as cri:
        before = _identity(containerd)
        while time.monotonic() < end:
            first = len(rounds) % len(CONDITIONS)
            # Backwards every other time, so that none always follows the same one.
            order = (CONDITIONS[first:] + CONDITIONS[:first])[:: -1 if len(rounds) % 2 else 1]
            rounds.append({each: await _block(containerd, cri, each) for each in order})
        if _identity(containerd) != before:
            raise RuntimeError("containerd was not the same process throughout")
    return rounds


@asynccontextmanager
async def in_memory(more: str = "") -> AsyncIterator[Containerd]:
    """A containerd 2.1 that writes to no disk; `more`: of its configuration, {home} filled in."""
    containerd = Containerd("2.1")
    try:
        for name in ("root", "state"):
            folder = containerd.home / name
            folder.mkdir()
            # Unmounted with all else that it leaves, when it is closed.
            command = ("mount", "-t", "tmpfs", "tmpfs", folder)
            subprocess.run(command, check=True)  # noqa: S603, ASYNC221 -- ours, and short
        with (containerd.home / "config.toml").open("a") as config:
            config.write(more.format(home=containerd.home))
        await containerd.start()
        yield containerd
    finally:
        await containerd.close()


def _identity(containerd: Containerd) -> tuple[int, str]:
    """Its process id, and when that process started."""
    stat = Path(f"/proc/{containerd.pid}/stat").read_text()
    return containerd.pid, stat.rpartition(")")[2].split()[19]


async def _block(containerd: Containerd, cri: Pods, condition: Condition) -> dict[str, list[float]]:
    """Some pods under that condition: seconds of each call that counts, by its name."""
    clock = Stopwatch()
    async with _going_on(containerd, condition):
        for number in range(PODS + WARM_UP):
            await _live(cri, f"pod-{number}", clock if number >= WARM_UP else Stopwatch())
    if left := await cri.sandboxes():
        raise RuntimeError(f"{len(left)} pods were left")
    together = [each for seconds in clock.seconds.values() for each in seconds]
    return clock.seconds | {ALL: together}


async def _live(cri: Pods, name: str, clock: Stopwatch) -> None:
    sandbox = await clock.of("RunPodSandbox", cri.run_pod(name))
    container = await clock.of("CreateContainer", cri.create(sandbox, "app"))
    await clock.of("StartContainer", cri.start(container))
    await clock.of("StopContainer", cri.stop(container))
    await clock.of("StopPodSandbox", cri.stop_pod(sandbox))
    await clock.of("RemoveContainer", cri.remove(container))
    await clock.of("RemovePodSandbox", cri.remove_pod(sandbox))


@asynccontextmanager
async def _going_on(containerd: Containerd, condition: Condition) -> AsyncIterator[None]:
    """The exporter first, which takes longer to start than what else there is."""
    async with AsyncExitStack() as stack:
        if condition.watched:
            exporter = Exporter(containerd.socket, *FLAGS, grace=GRACE)
            await stack.enter_async_context(exporter)
            await exporter.streaming()
            if condition.storm:
                await stack.enter_async_context(_storm(exporter.url))
        if condition.load:
            stack.enter_context(_load())
        yield


@contextmanager
def _load() -> Iterator[None]:
    """Processes of normal priority that want a core each."""
    command = ["/bin/sh", "-c", "while :; do :; done"]
    busy = [subprocess.Popen(command) for _ in range(BUSY_PROCESSES)]  # noqa: S603 -- ours
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@asynccontextmanager
async def _storm(url: str) -> AsyncIterator[None]:
    """Scrapes from a process of its own: they must not get in the way of who measures."""
    command = (sys.executable, "-m", "bench.harm", url)
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        if process.stdout is None or not await process.stdout.readline():
            raise RuntimeError("the storm did not begin")
        yield
        if process.returncode is not None:
            raise RuntimeError("the storm ended by itself")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _scrape_for_ever(url: str) -> None:
    """Every connection scrapes as soon as it may; who started us is told when all have begun."""
    host, port = url.removeprefix("http://").split(":")
    opening = [asyncio.open_connection(host, int(port)) for _ in range(CONNECTIONS)]
    connections = await asyncio.gather(*opening)
    for connection in connections:
        await _scrape(*connection)
    print("scraping", flush=True)
    await asyncio.gather(*(_again_and_again(*connection) for connection in connections))


async def _again_and_again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        due = time.monotonic() + CONNECTIONS / SCRAPES_PER_SECOND
        await _scrape(reader, writer)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _scrape(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))


def _rows(rounds: list[Round]) -> list[Row]:
    kinds = itertools.product(PAIRS, CALLS, SHARES)
    return [_row(rounds, us, without, call, name) for (us, without), call, name in kinds]


def _row(rounds: list[Round], us: Condition, without: Condition, call: str, name: str) -> Row:
    """The ratio of one percentile of one call."""

    def ratio(some: list[Round]) -> float:
        return _pooled(some, us, call, name) / _pooled(some, without, call, name)

    figure, (low, high) = ratio(rounds), _interval(rounds, ratio)
    with_us, alone = (_pooled(rounds, each, call, name) * 1000 for each in (us, without))
    measured = f"{figure:.3f} ({low:.3f} to {high:.3f}): {with_us:.1f} ms / {alone:.1f} ms"
    what = f"{us.name} / {without.name}: {call}, {name}"
    if us.watched and call == ALL and name == "p99":
        return Row(what, measured, f"at most {LIMIT:g}", figure <= LIMIT)
    return Row(what, measured)


def _pooled(rounds: list[Round], condition: Condition, call: str, name: str) -> float:
    values = [seconds for each in rounds for seconds in each[condition][call]]
    return percentile(values, SHARES[name])


def _interval(rounds: list[Round], figure: Callable[[list[Round]], float]) -> tuple[float, float]:
    """Where 95 % of the figures lie that as many rounds, drawn with replacement, come to."""
    draw = random.Random(0)  # noqa: S311 -- no secret; the same rounds give the same interval
    figures = [figure(draw.choices(rounds, k=len(rounds))) for _ in range(RESAMPLES)]
    return percentile(figures, 0.025), percentile(figures, 0.975)


if __name__ == "__main__":
    asyncio.run(_scrape_for_ever(sys.argv[1]))
