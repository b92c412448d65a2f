"""What the machine is, and whether it was quiet while something was measured.

A figure of a busy machine is worth little: so before and after each part, while nothing of ours
runs, this looks at how much of the machine others use.
"""

import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.processes import PYTHON_OF_USERS

_LOOK_SECONDS: Final = 1.0
# More than this, and a machine is not called quiet.
_OTHERS: Final = 0.05
_IDLE: Final = slice(3, 5)
_GIB: Final = 1024**3
_VERSIONS: Final = """
import platform
from importlib.metadata import version
print(platform.python_version(), version("grpcio"), version("protobuf"))
"""


def look() -> float:
    """The share of all cores that others use, or the host takes, without us: takes a second."""
    before = _ticks()
    # Others are to be seen alone.
    time.sleep(_LOOK_SECONDS)
    took = [later - earlier for earlier, later in zip(before, _ticks(), strict=True)]
    return 1 - sum(took[_IDLE]) / max(1, sum(took))


def in_a_sentence(looks: list[float]) -> str:
    """Whether the machine was quiet, for the top of the page; `looks`: between the parts."""
    used = f"Others used at most {max(looks):.0%} of it between the parts"
    return f"{used}: **it was not quiet**." if max(looks) > _OTHERS else f"{used}."


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


def _ticks() -> list[int]:
    """Of all cores so far, by what they did."""
    line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    # The last two, of guests, are in the first two already.
    return [int(number) for number in line.split()[1:9]]


def _processor() -> str:
    about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^model name\s*: (.*)$", about, re.MULTILINE)
    return found[1] if found else platform.machine()
