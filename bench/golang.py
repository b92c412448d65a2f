"""The plain Go client of `bench/client`: built from Debian's packages, and started.

Here: the compiler's ways. Where it was not fetched (`make bench` fetches it), there is no client.
"""

import os
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.processes import ROOT, Process
from bench.rows import Row, Verdict, at_most
from testbed import debian
from testbed.parts import PARTS

NAME: Final = "Go client"
_SOURCE: Final = ROOT / "bench" / "client"
_BUILT: Final = ROOT / ".cache" / "go"
_CLIENT: Final = _BUILT / "client"


def is_here() -> bool:
    """Whether the client can be built."""
    return debian.find("go") is not None


def beside(what: str, ours: Sequence[float], theirs: Sequence[Sequence[float]], bar: float) -> Row:
    """What something costs us, by what it costs the client, if there is one."""
    if not theirs:
        return Row(what, "", f"at most {bar:g}", Verdict.CANNOT_TELL, "no Go compiler here")
    return at_most(what, statistics.median(ours) / statistics.median(*theirs), bar)


def client(socket: Path, period: str = "1s") -> Process:
    """The client, subscribed and relisting; `period` (Go's syntax): the pause after each relist.

    It is compiled if its source is newer; the first time takes a minute.
    """
    compiler = debian.part("go")
    home = debian.CACHE / PARTS["go"].suite / PARTS["go"].package
    subprocess.run(  # noqa: S603 - the compiler that was fetched
        [compiler, "build", "-o", _CLIENT, "."],
        cwd=_SOURCE,
        env={
            **os.environ,
            # Debian's packages are a GOPATH.
            "GO111MODULE": "off",
            "GOPATH": f"{home}/usr/share/gocode",
            "GOCACHE": f"{_BUILT}/cache",
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
        },
        check=True,
    )
    return Process(f"-socket={socket}", f"-period={period}", program=(_CLIENT,))
