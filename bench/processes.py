"""The processes of a measurement, and what the kernel and the exporter's metrics say of them."""

import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp.test_utils import unused_port
from prometheus_client.parser import text_string_to_metric_families

from testbed import debian
from testbed.servers import LOOPBACK, running, started
from testbed.waiting import until

# Names an interpreter with nothing installed but the exporter and what it needs.
PYTHON_OF_USERS: Final = "BENCH_PYTHON_OF_USERS"
# Seconds in which what starting and the baseline cost is over.
STARTED: Final = 2.0
_DEADLINE: Final = 60.0
_KIB_OF_A_MIB: Final = 1024
_BUILT: Final = debian.ROOT / ".cache" / "go"
# What Prometheus 3 asks with.
_HEADERS: Final = {
    "Accept": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2",
    "Accept-Encoding": "gzip",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A process that is measured."""

    pid: int

    def cpu(self) -> float:
        """Seconds of CPU that all its threads have used so far."""
        # The kernel's clock of another process, as clock_getcpuclockid makes it: /proc has only
        # hundredths of a second.
        return time.clock_gettime((~self.pid << 3) | 2)

    async def used(self, work: Awaitable[object]) -> float:
        """Seconds of CPU that it uses until `work` is done."""
        before = self.cpu()
        await work
        return self.cpu() - before

    def memory(self, line: str = "VmRSS") -> float:
        """MiB of resident memory; `VmHWM`: the most there ever were."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        (kib,) = (each.split()[1] for each in status if each.startswith(f"{line}:"))
        return int(kib) / _KIB_OF_A_MIB


@dataclass(frozen=True, slots=True)
class Exporter(Measured):
    """`serve` that serves, and its log."""

    url: str
    session: aiohttp.ClientSession
    log: Path

    async def scrape(self) -> None:
        """Read its metrics as Prometheus does, over one connection, and throw them away."""
        await self._metrics("", _HEADERS)

    async def totals(self) -> dict[str, float]:
        """Every metric, by its name, summed over all its labels.

        A page is served again for a moment; this one is rendered, which costs milliseconds.
        """
        totals = defaultdict[str, float](float)
        text = await self._metrics(f"?{time.monotonic_ns()}", {})
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                totals[sample.name] += sample.value
        return totals

    async def reaches(self, least: float, *names: str) -> None:
        """Wait until these metrics come to so much together."""

        async def there() -> bool:
            totals = await self.totals()
            return sum(totals[name] for name in names) >= least

        await until(there, f"{names} are {least:g}", seconds=_DEADLINE, every=0.1)

    async def _metrics(self, query: str, headers: Mapping[str, str]) -> str:
        asked = f"{self.url}/metrics{query}"
        async with self.session.get(asked, headers=headers, ssl=False) as answer:
            return await answer.text()


@asynccontextmanager
async def exporter(
    socket: Path, *flags: str, code: tuple[str, str] = ("-m", "exporter"), scheme: str = "http"
) -> AsyncIterator[Exporter]:
    """`serve` on a free port, as it is installed where PYTHON_OF_USERS is, else from here.

    `code`: what the interpreter runs.
    """
    address = f"{LOOPBACK}:{unused_port()}"
    # Without -P, Python would import what lies in this folder.
    python = (os.environ.get(PYTHON_OF_USERS, sys.executable), "-P", *code, "serve")
    own = (f"--runtime-endpoint=unix://{socket}", f"--web.listen-address={address}")
    url, log = f"{scheme}://{address}", socket.with_suffix(".log")
    async with (
        started(log, f"{url}/livez", *python, *own, *flags) as process,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_DEADLINE)) as session,
    ):
        yield Exporter(process.pid, url, session, log)


@asynccontextmanager
async def go_client(socket: Path, period: str = "1s") -> AsyncIterator[Measured]:
    """The client of `bench/client`, subscribed and relisting.

    `period` (Go's syntax): the pause after each relist.
    It is compiled of Debian's packages, which `make bench` fetches, if its source is newer; the
    first time takes a minute.
    """
    debian.run(
        *(debian.part("go"), "build", "-o", _BUILT / "client", "."),
        cwd=debian.ROOT / "bench" / "client",
        # Debian's packages are a GOPATH.
        GO111MODULE="off",
        GOPATH=f"{debian.home_of('go')}/usr/share/gocode",
        GOCACHE=f"{_BUILT}/cache",
        GOTOOLCHAIN="local",
        CGO_ENABLED="0",
    )
    async with running(_BUILT / "client", f"-socket={socket}", f"-period={period}") as process:
        yield Measured(process.pid)
