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
class Look:
    """One look. `others`: share of all cores that they used; `work`: seconds of the same work.

    `times` and `at` (monotonic) are of its end.
    """

    load: float
    others: float
    work: float
    times: _Times
    at: float


@dataclass(frozen=True, slots=True)
class Doing:
    """What was going on before and after one part."""

    name: str
    before: Look
    after: Look

    @property
    def seconds(self) -> float:
        """What it took."""
        return self.after.at - _LOOK_SECONDS - self.before.at

    @property
    def others(self) -> float:
        """The share of all cores that others used, before or after."""
        return max(self.before.others, self.after.others)

    @property
    def stolen(self) -> float:
        """The share of all cores that the host gave to others meanwhile."""
        now, then = self.after.times, self.before.times
        return (now.stolen - then.stolen) / max(1, now.total - then.total)

    @property
    def quiet(self) -> bool:
        """Whether what was measured is likely to be ours alone."""
        return self.others <= _OTHERS and self.stolen <= _STOLEN


def look() -> Look:
    """What the machine does without us: takes a second and a bit."""
    before = _times()
    # Others are to be seen alone.
    time.sleep(_LOOK_SECONDS)
    after = _times()
    others = (after.used - before.used) / max(1, after.total - before.total)
    return Look(os.getloadavg()[0], others, _work(), _times(), time.monotonic())


def in_a_sentence(parts: list[Doing]) -> str:
    """Whether the machine was quiet, for the top of the page."""
    busy = [part.name for part in parts if not part.quiet]
    most = max(part.others for part in parts)
    if not busy:
        return f"The machine was quiet: others used at most {most:.0%} of it between the parts."
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
            f"{part.before.others:.1%}, {part.after.others:.1%}",
            f"{part.stolen:.1%}",
            f"{part.before.work * _MILLI:.1f} ms",
        )
        for part in parts
    ]
    works = [part.before.work * _MILLI for part in parts]
    head = (
        "part",
        "took",
        "load before",
        "used by others before, after",
        "stolen",
        "the same work",
    )
    text = (
        "Load is the average over a minute, and has in it what the part before did. Before and"
        " after each part, for a second in which nothing of ours runs: the share of all cores that"
        " others use."
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
