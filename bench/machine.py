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
from itertools import pairwise
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


def look() -> Look:
    """What the machine does without us: takes a second."""
    began, idle, _ = _ticks()
    # Others are to be seen alone.
    time.sleep(_LOOK_SECONDS)
    ended, still_idle, stolen = _ticks()
    took = ended - began
    return Look((took - (still_idle - idle)) / max(1, took), ended, stolen)


def in_a_sentence(parts: list[str], looks: list[Look]) -> str:
    """Whether the machine was quiet, for the top of the page; `looks`: before and after each."""
    around = zip(parts, pairwise(looks), strict=True)
    busy = [part for part, (before, after) in around if not _quiet(before, after)]
    most = max(look.others for look in looks)
    if not busy:
        return f"Others used at most {most:.0%} of it between the parts."
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


def _quiet(before: Look, after: Look) -> bool:
    """Whether what was measured is likely to be ours alone, judging by the host, too."""
    stolen = (after.stolen - before.stolen) / max(1, after.ticks - before.ticks)
    return max(before.others, after.others) <= _OTHERS and stolen <= _STOLEN


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
