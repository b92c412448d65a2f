"""Servers on loopback for a test, ended with the block: real ones as processes, and our own."""

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Final

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from testbed.waiting import until

LOOPBACK: Final = "127.0.0.1"
STARTUP: Final = 120.0

Command = tuple[str | Path, ...]


@contextlib.asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[str]:
    """A web application of the test; gives its URL."""
    async with TestServer(application) as server:
        yield str(server.make_url("")).rstrip("/")


@contextlib.asynccontextmanager
async def running(*argv: str | Path, output: int | IO[bytes] = DEVNULL) -> AsyncIterator[Process]:
    """A process; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=DEVNULL, stdout=output, stderr=output
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def started(log: Path, ready: str, *argv: str | Path) -> AsyncIterator[Process]:
    """A server, from its first good answer at `ready`; a failure shows its log."""

    async def answers() -> bool:
        assert process.returncode is None, log.read_text(encoding="utf-8")[-2000:]  # noqa: ASYNC240
        try:
            async with session.get(ready, ssl=False) as response:
                return response.ok
        except (aiohttp.ClientError, TimeoutError):
            return False

    timeout = aiohttp.ClientTimeout(5)
    with log.open("wb") as out:
        async with running(*argv, output=out) as process:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                await until(answers, f"{argv[0]} answers", seconds=STARTUP, every=0.05)
            yield process


@contextlib.asynccontextmanager
async def prometheus(
    command: Command, folder: Path, config: Path, *flags: str
) -> AsyncIterator[str]:
    """Prometheus with this configuration, its data in `folder`/data; gives its URL."""
    url = f"http://{LOOPBACK}:{unused_port()}"
    own = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
    )
    async with started(folder / "prometheus.log", f"{url}/-/ready", *command, *own, *flags):
        yield url
