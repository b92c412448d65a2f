"""Runs `shadow-pleg` in this process or in another one, and asks it over HTTP and for metrics."""

import asyncio
import contextlib
import json
import os
import re
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, ClassVar, Final, Self
from urllib.parse import unquote, urlsplit

import aiohttp
import pytest

from exporter.__main__ import main
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from testbed.waiting import until
from tests.support.observer import Metrics, Watcher
from tests.support.runtimes import short_folder

ANYWHERE = "--web.listen-address=127.0.0.1:0"
# A busy machine lets a process wait. Not for as long as an idle connection stays open.
DEADLINE = 150.0
_LACKING: Final = Path(__file__).with_name("as_in_the_image")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    def complaint(self, code: int = 1) -> str:
        assert (self.code, self.out, self.err.count("\n")) == (code, "", 1)
        return self.err.removeprefix("shadow-pleg: ").strip()


def run_here(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    """Run a command in this process; the test asks for `borrowed_process`."""
    capsys.readouterr()
    try:
        code: object = main(list(arguments))
    except SystemExit as end:  # --help and --version
        code = end.code
    assert isinstance(code, int)
    return Outcome(code, *capsys.readouterr())


class Running:
    """A command in a process of its own, which is killed at the end if it still runs.

    What it says is kept in files: an unread pipe would block it. `output`: where stdout
    goes instead. No variable of this machine chooses a setting.
    """

    MODULE: ClassVar = "exporter"
    process: asyncio.subprocess.Process

    def __init__(self, *arguments: str, output: int | None = None, **environ: str) -> None:
        self._arguments, self._environ, self._output = arguments, environ, output
        # Closed on exit.
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await Running.__aexit__(self)
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        # pytest shows it where a test fails.
        sys.stdout.write(self.log)
        self._out.close()
        self._err.close()

    async def start(self) -> None:
        """Begin; what another process said before is kept."""
        ours = {setting.env for setting in flags_of(Config)}
        inherited = {name: text for name, text in os.environ.items() if name not in ours}
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self.MODULE, *self._arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._out if self._output is None else self._output,
            stderr=self._err,
            env=inherited | {"PYTHONPATH": str(_LACKING)} | self._environ,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> bytes:
        return _written(self._out)

    @property
    def log(self) -> str:
        return _written(self._err).decode()

    async def printed(self) -> str:
        """The first line."""
        await until(lambda: b"\n" in self.out, "it prints a line", seconds=DEADLINE)
        return self.out.decode().splitlines()[0]

    async def logged(self, message: str) -> dict[str, Any]:
        """The fields of the first log line with that message; the log must be JSON."""
        found: list[dict[str, Any]] = []

        def is_logged() -> bool:
            lines = map(json.loads, self.log.rpartition("\n")[0].splitlines())
            found[:] = [fields for fields in lines if fields["msg"] == message]
            return bool(found)

        await until(is_logged, f"it says {message!r}", seconds=DEADLINE)
        return found[0]

    async def stop(self, signum: int = signal.SIGTERM) -> Outcome:
        self.process.send_signal(signum)
        return await self.ended()

    async def ended(self, seconds: float = DEADLINE) -> Outcome:
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
        return Outcome(code, self.out.decode(errors="replace"), self.log)


def _written(file: IO[bytes]) -> bytes:
    # The process shares the file's offset: do not move it.
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    text: str


async def fetch(
    url: str,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    login: tuple[str, str] | None = None,
    source: str = "",
    **headers: str,
) -> Answer:
    """One request from that address; a compressed body is unpacked, its encoding stays named."""
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    if login:
        sent["Authorization"] = aiohttp.encode_basic_auth(*login)
    parts = urlsplit(url)
    connector: aiohttp.BaseConnector = aiohttp.TCPConnector(
        local_addr=(source, 0) if source else None
    )
    # Its host may be the quoted path of a unix socket.
    if "/" in (path := unquote(parts.netloc)):
        connector, parts = aiohttp.UnixConnector(path), parts._replace(netloc="localhost")
    async with (
        aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(DEADLINE)
        ) as session,
        session.request(method, parts.geturl(), headers=sent, ssl=tls or True) as response,
    ):
        return Answer(response.status, dict(response.headers), await response.text())


async def answered(
    url: str, holds: Callable[[Answer], bool], what: str, seconds: float = DEADLINE, **how: Any
) -> Answer:
    """The first answer for which that holds; a connection may fail meanwhile. `how`: `fetch`'s."""
    found: list[Answer] = []

    async def held() -> bool:
        with contextlib.suppress(OSError, aiohttp.ClientConnectionError):
            found[:] = [await fetch(url, **how)]
            return holds(found[0])
        return False

    await until(held, what, seconds=seconds, every=0.05)
    return found[0]


class Filter(Running):
    """`shadow-pleg filter` in front of a runtime, and the socket that it serves."""

    socket: Path


@contextlib.asynccontextmanager
async def filtering(runtime: Path, at: Path | None = None) -> AsyncIterator[Filter]:
    """A filter before that socket, serving on `at` or on one of its own, without a traceback."""
    with short_folder() as folder:
        socket = at or folder / "filter.sock"
        flags = ("--log.format=json", "--watchdog-timeout=2m", f"--socket=unix://{socket}")
        async with Filter("filter", f"--runtime-endpoint=unix://{runtime}", *flags) as it:
            it.socket = socket
            assert (await it.logged("filtering"))["socket"] == f"unix://{socket}"
            yield it
            assert "Traceback" not in it.log


FLAGS: Final = (
    "--relist-period=50ms",
    "--relist-max-duty=100%",
    "--relist-timeout=5s",
    "--web.listen-address=127.0.0.1:0",
    # What a test freezes, however slow the machine is meanwhile, goes on when it is let.
    "--watchdog-timeout=2m",
)


class Served(Watcher):
    """One whose pages are at `url`. `asks`: how, as `fetch` has it."""

    url: str
    asks: Mapping[str, Any] = MappingProxyType({})
    patience: ClassVar = DEADLINE

    async def page(self, path: str) -> str:
        answer = await fetch(f"{self.url}/{path}", **self.asks)
        assert answer.status == 200, answer.text
        return answer.text

    async def metrics(self) -> Metrics:
        # A page is cached for a moment; a new query is rendered again.
        return Metrics.read(await self.page(f"metrics?{time.monotonic_ns()}"))


class Exporter(Served, Running):
    """`serve` on `socket`; an async context manager: serving HTTP, and stopped in good order.

    Blind spot: coverage does not see a process that SIGKILL ends.
    `grace`: seconds; short, so that verdicts come while a test waits. `flags` win over `FLAGS`.
    """

    def __init__(self, socket: Path, *flags: str, grace: float = 0.3) -> None:
        own = (f"--runtime-endpoint=unix://{socket}", f"--missed-grace={grace * 1000:g}ms")
        super().__init__("serve", *FLAGS, *own, *flags)
        self.grace, self.url, self._stopped = grace, "", False

    async def __aexit__(self, *exc: object) -> None:
        try:
            if not self._stopped:
                code = await self.end(signal.SIGTERM)
                assert exc[0] or code == 0, f"exit code {code}"
            assert exc[0] or "Traceback" not in self.log, "an exception in the log"
        finally:
            await super().__aexit__(*exc)

    async def start(self) -> None:
        """Start a process and wait until it serves; the log goes on where the last one ended."""
        began, serving = len(self.log), re.compile(r" msg=serving .*url=(\S+)/")
        await super().start()
        self._stopped = False
        await until(
            lambda: self.process.returncode is not None or bool(serving.search(self.log[began:])),
            "it serves",
            seconds=self.patience,
        )
        found = serving.search(self.log[began:])
        assert found, f"exit code {self.process.returncode}"
        self.url = found[1]

    async def end(self, number: signal.Signals) -> int:
        self._stopped = True
        return (await self.stop(number)).code
