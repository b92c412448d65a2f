"""A real Alertmanager, and a webhook to which it delivers, on loopback."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from testbed.servers import LOOPBACK, Command, free_port, served, started


async def ask(url: str, body: Any = None, **query: str) -> Any:  # noqa: ANN401 - JSON
    """The JSON answer to a GET, or to a POST of `body`."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        method = "GET" if body is None else "POST"
        async with session.request(method, url, json=body, params=query) as response:
            response.raise_for_status()
            return await response.json() if response.content_length != 0 else None


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
    async with served(app) as hook.url:
        yield hook


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
    async with started(folder / "alertmanager.log", f"{url}/api/v2/status", *command, *flags):
        yield url
