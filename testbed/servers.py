"""Servers on loopback for a test, ended with the block: real ones as processes, and our own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

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
async def started(log: Path, ready: str, *argv: str | Path) -> AsyncIterator[None]:
    """A server, from its first good answer at `ready`; a failure shows its log."""
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out
        )

    async def answers() -> bool:
        assert process.returncode is None, _end(log)
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(5)) as session,
                session.get(ready) as response,
            ):
                return response.ok
        except (aiohttp.ClientError, TimeoutError):
            return False

    try:
        await until(answers, f"{argv[0]} answers", seconds=STARTUP, every=0.05)
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


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


def _end(log: Path) -> str:
    return log.read_text(encoding="utf-8")[-2000:]
