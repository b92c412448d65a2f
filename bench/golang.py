"""The plain Go client of `bench/client`: built from Debian's packages, and started.

Here: the compiler's ways; `make bench` fetches it.
"""

import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.processes import Measured
from bench.rows import Row, at_most
from testbed import debian
from testbed.servers import running

NAME: Final = "Go client"
_BUILT: Final = debian.ROOT / ".cache" / "go"
_CLIENT: Final = _BUILT / "client"


def beside(what: str, ours: Sequence[float], theirs: Sequence[float], bar: float) -> Row:
    """What something costs us, by what it costs the client."""
    return at_most(what, [statistics.median(ours) / statistics.median(theirs)], bar)


@asynccontextmanager
async def client(socket: Path, period: str = "1s") -> AsyncIterator[Measured]:
    """The client, subscribed and relisting; `period` (Go's syntax): the pause after each relist.

    It is compiled if its source is newer; the first time takes a minute.
    """
    debian.run(
        *(debian.part("go"), "build", "-o", _CLIENT, "."),
        cwd=debian.ROOT / "bench" / "client",
        # Debian's packages are a GOPATH.
        GO111MODULE="off",
        GOPATH=f"{debian.home_of('go')}/usr/share/gocode",
        GOCACHE=f"{_BUILT}/cache",
        GOTOOLCHAIN="local",
        CGO_ENABLED="0",
    )
    async with running(_CLIENT, f"-socket={socket}", f"-period={period}") as process:
        yield Measured(process.pid)
