"""Runs `shadow-pleg` in this process or in another one, and asks it over HTTP."""

import asyncio
import contextlib
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import aiohttp
import pytest

from exporter.__main__ import main
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from testbed.waiting import until
from tests.support.observer import tasks
from tests.support.runtimes import short_folder

ANYWHERE = "--web.listen-address=127.0.0.1:0"
DEADLINE = 45.0


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


@dataclass(slots=True)
class Running:
    """A command in a process of its own."""

    process: asyncio.subprocess.Process
    heard: list[str] = field(default_factory=list)

    async def printed(self) -> str:
        assert self.process.stdout is not None
        return await _line(self.process.stdout)

    async def logged(self, message: str) -> dict[str, Any]:
        """The fields of the next log line with that message; the log must be JSON."""
        assert self.process.stderr is not None
        while line := await _line(self.process.stderr):
            self.heard.append(line)
            fields: dict[str, Any] = json.loads(line)
            if fields["msg"] == message:
                return fields
        raise AssertionError(f"ended without saying {message!r}")

    async def stop(self, signum: int = signal.SIGTERM) -> Outcome:
        self.process.send_signal(signum)
        return await self.ended()

    async def ended(self) -> Outcome:
        """Wait for the end; the outcome holds the unread output."""
        async with asyncio.timeout(DEADLINE):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return Outcome(self.process.returncode, out.decode(), err.decode())


async def _line(pipe: asyncio.StreamReader) -> str:
    async with asyncio.timeout(DEADLINE):
        return (await pipe.readline()).decode()


async def start(
    *arguments: str,
    output: int | IO[bytes] = asyncio.subprocess.PIPE,
    errors: int | IO[bytes] | None = None,
    module: str = "exporter",
    **environ: str,
) -> asyncio.subprocess.Process:
    """Start a command; no variable of this machine chooses a setting. `errors`: if not `output`."""
    ours = {setting.env for setting in flags_of(Config)}
    inherited = {name: text for name, text in os.environ.items() if name not in ours}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output if errors is None else errors,
        env=inherited | environ,
    )


@contextlib.asynccontextmanager
async def running(*arguments: str, **environ: str) -> AsyncIterator[Running]:
    """Start a command; killed at the end if it still runs."""
    pipe = asyncio.subprocess.PIPE
    process = await start(*arguments, output=pipe, errors=pipe, **environ)
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


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


@dataclass(slots=True)
class Filter:
    """`shadow-pleg filter` as a process in front of a runtime, and the socket that it serves."""

    socket: Path
    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)

    async def read_log(self) -> None:
        """Read its log until it ends; nothing else does, and a full pipe would hold it up."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())


@contextlib.asynccontextmanager
async def filtering(runtime: Path, at: Path | None = None) -> AsyncIterator[Filter]:
    """A filter before the runtime on that socket, serving on `at` or on a socket of its own."""
    with short_folder() as folder:
        socket = at or folder / "filter.sock"
        flags = ("--log.format=json", "--watchdog-timeout=2m", f"--socket=unix://{socket}")
        async with running("filter", f"--runtime-endpoint=unix://{runtime}", *flags) as command:
            assert (await command.logged("filtering"))["socket"] == f"unix://{socket}"
            it = Filter(socket, command.process)
            async with tasks(it.read_log()):
                yield it
