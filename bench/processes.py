"""The processes of a measurement: started, asked, looked at and ended, each by its own pid.

Here: the exporter and the runtime for load as processes, what /proc knows of them, what the
exporter's metrics say, and how both sides speak: a line in, a line of JSON out. Not here: when.
"""

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from exporter.__main__ import OF_GRPC

Fact = TypeVar("Fact")
Reader = TypeVar("Reader", bound="Process")

_Program = tuple[str | Path, ...]

ROOT: Final = Path(__file__).parents[1]
_KIB_OF_A_MIB: Final = 1024
# What a signal to `hosted` does.
HOLD_SECONDS: Final = 5
# Names an interpreter with nothing installed but the exporter and what it needs.
PYTHON_OF_USERS: Final = "BENCH_PYTHON_OF_USERS"
LAST_SEEN: Final = "shadow_pleg_last_seen_seconds"
_MODULE: Final[_Program] = (sys.executable, "-m")
_DEADLINE: Final = 60.0
_ENDING: Final = 10.0
_POLL: Final = 0.02
_STARTED: Final = 2.0
_SERVING: Final = re.compile(r'msg=serving\b.*\burl="?([^"\s]+)')
# What Prometheus 3 asks with.
_HEADERS: Final = {
    "Accept": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2",
    "Accept-Encoding": "gzip",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """In MiB. `proportional`: a shared page is divided by the number of its processes."""

    resident: float
    peak: float
    anonymous: float
    proportional: float

    def __str__(self) -> str:
        return (
            f"peak {self.peak:.1f}, anonymous {self.anonymous:.1f},"
            f" proportional {self.proportional:.1f} MiB"
        )


class Process:
    """One process, from its start to its end; a context manager."""

    def __init__(self, *arguments: str, program: _Program = _MODULE, cwd: Path = ROOT) -> None:
        ours = {name: text for name, text in os.environ.items() if "SHADOW_PLEG" not in name}
        self._log: list[str] = []
        self._process = subprocess.Popen(  # noqa: S603 - an interpreter, and our own modules
            [*program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            # The exporter's own, for what is measured beside it, too.
            env={**OF_GRPC, **ours},
            text=True,
        )
        self.pid = self._process.pid
        self._reading = threading.Thread(target=self._read_log, daemon=True)
        self._reading.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    def signal(self, signum: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        self._process.send_signal(signum)

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line, and wait for the answer."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        if not (text := self._process.stdout.readline()):
            raise RuntimeError(f"the process ended: {' / '.join(self._log[-3:])}")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def cpu(self) -> float:
        """Seconds of CPU that all its threads have used so far."""
        return cpu_of(self.pid)

    def memory(self) -> Memory:
        """All that is known of its memory now."""
        status, rollup = self._proc("status"), self._proc("smaps_rollup")
        return Memory(status["VmRSS"], status["VmHWM"], rollup["Anonymous"], rollup["Pss"])

    def _proc(self, file: str) -> dict[str, float]:
        lines = Path(f"/proc/{self.pid}/{file}").read_text(encoding="ascii").splitlines()
        fields = (line.split() for line in lines if line.endswith(" kB"))
        return {name.rstrip(":"): int(kib) / _KIB_OF_A_MIB for name, kib, _ in fields}

    def _read_log(self) -> None:
        if self._process.stderr:
            self._log.extend(line.rstrip() for line in self._process.stderr)


class Exporter(Process):
    """`serve` of that module on a free port, once it serves."""

    def __init__(
        self, module: str, socket: Path, *flags: str, python: str = sys.executable, cwd: Path = ROOT
    ) -> None:
        own = (f"--runtime-endpoint=unix://{socket}", "--web.listen-address=127.0.0.1:0")
        super().__init__(module, "serve", *own, *flags, program=(python, "-m"), cwd=cwd)
        self._scraping: http.client.HTTPConnection | None = None
        try:
            self.url = self._wait_for_url()
        except BaseException:
            self.__exit__()
            raise

    def scrape(self) -> None:
        """Read its metrics as Prometheus does, over one connection, and throw them away."""
        if self._scraping is None:
            scheme, place, *_ = urllib.parse.urlsplit(self.url)
            self._scraping = (
                http.client.HTTPConnection(place, timeout=_DEADLINE)
                if scheme == "http"
                else http.client.HTTPSConnection(place, timeout=_DEADLINE, context=_unverified())
            )
        self._scraping.request("GET", "/metrics", headers=_HEADERS)
        self._scraping.getresponse().read()

    def totals(self) -> dict[str, float]:
        """Every metric, by its name, summed over all its labels.

        A page is served again for a moment; this one is rendered, which costs milliseconds.
        """
        asked = f"{self.url}metrics?{time.monotonic_ns()}"
        with urllib.request.urlopen(asked, timeout=_DEADLINE) as page:  # noqa: S310 - http
            text = page.read().decode()
        totals = defaultdict[str, float](float)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                totals[sample.name] += sample.value
        return totals

    def _wait_for_url(self) -> str:
        def url() -> str:
            if (code := self._process.poll()) is not None:
                raise RuntimeError(f"a process ended with {code}: {' / '.join(self._log[-3:])}")
            found = (_SERVING.search(line) for line in self._log)
            return next((match[1] for match in found if match), "")

        return wait_for("the exporter serves", url, every=0.002)


def cpu_of(pid: int) -> float:
    """Seconds of CPU that all threads of a process have used so far; OSError if there is none."""
    # The kernel's clock of another process, as clock_getcpuclockid makes it: /proc has only
    # hundredths of a second.
    return time.clock_gettime((~pid << 3) | 2)


def exporter(socket: Path, *flags: str) -> Exporter:
    """`serve` as it is installed where PYTHON_OF_USERS is, else from here."""
    installed = os.environ.get(PYTHON_OF_USERS)
    if not installed:
        return Exporter("exporter", socket, *flags)
    # From the root of the checkout, Python would import what lies there.
    home = Path(installed).parent
    return Exporter("exporter", socket, *flags, python=installed, cwd=home)


def hosted(socket: Path, *flags: str) -> Exporter:
    """`serve` in a process that can be held, see `hosted`."""
    return Exporter("bench.hosted", socket, *flags)


@contextlib.contextmanager
def loaded(start: Callable[[Path], Reader], pods: int = 0) -> Iterator[tuple[Process, Reader]]:
    """The runtime for load with so many pods of 3 containers, and who is subscribed to it."""
    with tempfile.TemporaryDirectory(prefix="shadow-pleg-bench-") as directory:
        socket = Path(directory, "runtime.sock")
        with Process("bench.firehose", f"--socket={socket}", f"--pods={pods}") as runtime:
            runtime.ask("ready")
            with start(socket) as reader:
                wait_for("it is subscribed", lambda: runtime.ask("ready")["subscribers"] > 0)
                yield runtime, reader


def wait_for(
    what: str,
    condition: Callable[[], Fact | None],
    deadline: float = _DEADLINE,
    every: float = _POLL,
) -> Fact:
    """Look again and again; TimeoutError if it does not come true."""
    end = time.monotonic() + deadline
    while not (fact := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline:g} s: {what}")
        # Another process is asked: there is nothing to be woken by.
        time.sleep(every)
    return fact


def wait_for_the_start() -> None:
    """Let pass what starting and the baseline cost: that is not to be measured."""
    time.sleep(_STARTED)


async def obey(command: Callable[[str, list[float]], Awaitable[dict[str, Any]]]) -> None:
    """The other side of `ask`: answer each line on stdin, a word and numbers, until it ends."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        word, *numbers = line.decode().split()
        answer = await command(word, [float(number) for number in numbers])
        print(json.dumps(answer), flush=True)


def _unverified() -> ssl.SSLContext:
    """Takes the certificate that a measurement made."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
