"""Real Prometheus, real Alertmanager and a webhook, on loopback, each with a folder of its own.

Here: starting, asking and stopping them. Not here: what they are told.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import aiohttp
from aiohttp import web

from tests.grounds.waiting import until

LOOPBACK: Final = "127.0.0.1"
STARTUP: Final = 20.0

Command = tuple[str | Path, ...]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port


async def ask(url: str, body: Any = None, **query: str) -> Any:  # noqa: ANN401 - JSON
    """The JSON answer to a GET, or to a POST of `body`."""
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        method = "GET" if body is None else "POST"
        async with session.request(method, url, json=body, params=query) as response:
            response.raise_for_status()
            return await response.json() if response.content_length != 0 else None


def _opened(log: Path) -> BinaryIO:
    return log.open("wb")


def _end(log: Path) -> str:
    return log.read_text(encoding="utf-8")[-2000:]


@contextlib.asynccontextmanager
async def _started(log: Path, ready: str, *argv: str | Path) -> AsyncIterator[None]:
    """A server that answers, and ends with the block; its log is told if it does not."""
    with _opened(log) as out:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out
        )

    async def answers() -> bool:
        assert process.returncode is None, _end(log)
        try:
            await ask(ready)
        except (aiohttp.ClientError, TimeoutError):
            return False
        return True

    try:
        await until(answers, f"{argv[0]} answers", seconds=STARTUP, every=0.05)
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


@dataclass(slots=True)
class Webhook:
    """What Alertmanager delivered: (receiver, alert, node, status) in order."""

    url: str = ""
    delivered: list[tuple[str, str, str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        for alert in body["alerts"]:
            labels = alert["labels"]
            named = (labels["alertname"], labels.get("node", ""), alert["status"])
            self.delivered.append((request.match_info["receiver"], *named))
        return web.Response()

    @property
    def firing(self) -> set[tuple[str, str, str]]:
        """(receiver, alert, node) of all that was ever delivered as firing."""
        return {
            (who, alert, node) for who, alert, node, status in self.delivered if status == "firing"
        }


@contextlib.asynccontextmanager
async def webhook() -> AsyncIterator[Webhook]:
    """A receiver; Alertmanager's receivers are paths of its `url`."""
    hook = Webhook()
    app = web.Application()
    app.router.add_post("/{receiver}", hook._take)  # noqa: SLF001 - its own factory
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, 0)
        await site.start()
        hook.url = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
        yield hook
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def alertmanager(command: Command, folder: Path, config: Path) -> AsyncIterator[str]:
    """Alertmanager with this configuration; gives its URL."""
    url = f"http://{LOOPBACK}:{free_port()}"
    flags = (
        f"--config.file={config}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
    )
    async with _started(folder / "alertmanager.log", f"{url}/api/v2/status", *command, *flags):
        yield url


@contextlib.asynccontextmanager
async def prometheus(command: Command, folder: Path, config: Path) -> AsyncIterator[str]:
    """Prometheus with this configuration; gives its URL."""
    url = f"http://{LOOPBACK}:{free_port()}"
    flags = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={url.removeprefix('http://')}",
    )
    ready = f"{url}/api/v1/status/buildinfo"
    async with _started(folder / "prometheus.log", ready, *command, *flags):
        yield url
