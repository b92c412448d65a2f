"""What the machine is, and whether it was quiet while something was measured.

A figure of a busy machine is worth little: so before and after each part, while nothing of ours
runs, this looks at how much of the machine others use.
"""

import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.processes import PYTHON_OF_USERS

_LOOK_SECONDS: Final = 1.0
# More than this, and a machine is not called quiet.
_OTHERS: Final = 0.05
_STOLEN: Final = 0.02
_IDLE: Final = (3, 4)
_STEAL: Final = 7
_GIB: Final = 1024**3
_VERSIONS: Final = """
import platform
from importlib.metadata import version
print(platform.python_version(), version("grpcio"), version("protobuf"))
"""


@dataclass(frozen=True, slots=True)
class Look:
    """The share of all cores that `others` used; all ticks of these so far, and those stolen."""

    others: float
    ticks: int
    stolen: int


@dataclass(frozen=True, slots=True)
class Doing:
    """What was going on before and after one part."""

    name: str
    before: Look
    after: Look

    @property
    def others(self) -> float:
        """The share of all cores that others used, before or after."""
        return max(self.before.others, self.after.others)

    @property
    def quiet(self) -> bool:
        """Whether what was measured is likely to be ours alone, judging by the host, too."""
        stolen = self.after.stolen - self.before.stolen
        share = stolen / max(1, self.after.ticks - self.before.ticks)
        return self.others <= _OTHERS and share <= _STOLEN


def look() -> Look:
    """What the machine does without us: takes a second."""
    began, idle, _ = _ticks()
    # Others are to be seen alone.
    time.sleep(_LOOK_SECONDS)
    ended, still_idle, stolen = _ticks()
    took = ended - began
    return Look((took - (still_idle - idle)) / max(1, took), ended, stolen)


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


def machine() -> str:
    """What it is, in a sentence."""
    cores = len(os.sched_getaffinity(0))
    python = os.environ.get(PYTHON_OF_USERS, sys.executable)
    versions = subprocess.check_output([python, "-c", _VERSIONS], text=True).split()  # noqa: S603
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    return (
        f"Measured on {cores} cores of {_processor()} with {memory:.0f} GiB of memory,"
        f" Linux {platform.release().split('-')[0]}, Python {versions[0]},"
        f" grpcio {versions[1]}, protobuf {versions[2]}."
    )


def _ticks() -> tuple[int, int, int]:
    """Of all cores so far: all, those that were idle, and those stolen."""
    line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    # The last two, of guests, are in the first two already.
    ticks = [int(number) for number in line.split()[1:9]]
    return sum(ticks), sum(ticks[number] for number in _IDLE), ticks[_STEAL]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
