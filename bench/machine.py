"""What the machine was, and what it was doing while something was measured.

A figure of a busy machine is worth little: so before each part, while nothing of ours runs, this
looks at how much of the machine others use, and at how long the same work takes.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench.rows import Section, percentile, spread, table

_LOOK_SECONDS: Final = 1.0
_WORK: Final = 400_000
_PIECES: Final = 7
_MILLI: Final = 1000
# More than this, and a machine is not called quiet.
_OTHERS: Final = 0.05
_STOLEN: Final = 0.02
_IDLE: Final = (3, 4)
_STEAL: Final = 7
_GIB: Final = 1024**3


@dataclass(frozen=True, slots=True)
class _Times:
    """Ticks of the kernel's clock, of all cores: all, those that were used, those stolen."""

    total: int
    used: int
    stolen: int


@dataclass(frozen=True, slots=True)
class Before:
    """One look. `others`: share of all cores that they used; `work`: seconds of the same work."""

    load: float
    others: float
    work: float
    times: _Times
    began: float


@dataclass(frozen=True, slots=True)
class Doing:
    """What was going on before and during one part, which took so many `seconds`."""

    name: str
    before: Before
    stolen: float
    seconds: float

    @property
    def quiet(self) -> bool:
        """Whether what was measured is likely to be ours alone."""
        return self.before.others <= _OTHERS and self.stolen <= _STOLEN


def look() -> Before:
    """What the machine does without us: takes a second and a bit."""
    before = _times()
    # Others are to be seen alone.
    time.sleep(_LOOK_SECONDS)
    after = _times()
    others = (after.used - before.used) / max(1, after.total - before.total)
    return Before(os.getloadavg()[0], others, _work(), _times(), time.monotonic())


def since(name: str, before: Before) -> Doing:
    """That part, once it is over."""
    now = _times()
    stolen = (now.stolen - before.times.stolen) / max(1, now.total - before.times.total)
    return Doing(name, before, stolen, time.monotonic() - before.began)


def in_a_sentence(parts: list[Doing]) -> str:
    """Whether the machine was quiet, for the top of the page."""
    busy = [part.name for part in parts if not part.quiet]
    most = max(part.before.others for part in parts)
    if not busy:
        return f"The machine was quiet: others used at most {most:.0%} of it before any part."
    return (
        f"**The machine was not quiet**: others used up to {most:.0%} of it. Do not trust what was"
        f" measured meanwhile: {', '.join(busy)}."
    )


def section(parts: list[Doing]) -> Section:
    """A row for each part."""
    rows = [
        (
            part.name,
            f"{part.seconds:.0f} s",
            f"{part.before.load:.1f}",
            f"{part.before.others:.1%}",
            f"{part.stolen:.1%}",
            f"{part.before.work * _MILLI:.1f} ms",
        )
        for part in parts
    ]
    works = [part.before.work * _MILLI for part in parts]
    head = ("part", "took", "load before", "used by others", "stolen", "the same work")
    text = (
        "Load is the average over a minute, and has in it what the part before did. Before each"
        " part, for a second in which nothing of ours runs: the share of all cores that others use."
        " During each part: the share that the host gave to other machines. The same work: CPU time"
        f" of one loop in Python, which tells how fast a core is just then: {spread(works, 'ms')}."
        f"\n\n{table(head, rows)}"
    )
    return Section("What the machine was doing", text, ())


def machine() -> str:
    """What it is, in a sentence."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    return (
        f"Measured on {cores} cores of {_processor()} with {memory:.0f} GiB of memory,"
        f" Linux {platform.release().split('-')[0]}, Python {platform.python_version()},"
        f" grpcio {version('grpcio')}, protobuf {version('protobuf')}."
    )


def _work() -> float:
    took = []
    for _ in range(_PIECES):
        began = time.process_time()
        sum(range(_WORK))
        took.append(time.process_time() - began)
    return percentile(took, 0.5)


def _times() -> _Times:
    line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    # The last two, of guests, are in the first two already.
    ticks = [int(number) for number in line.split()[1:9]]
    idle = sum(ticks[number] for number in _IDLE)
    return _Times(sum(ticks), sum(ticks) - idle, ticks[_STEAL])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
