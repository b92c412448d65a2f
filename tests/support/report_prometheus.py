"""A real Prometheus over blocks that promtool made, with a counter of its questions in front.

Here: making, starting, ending. Not here: the fleets (`fleets`), nor what is expected of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.support.real import debian, servers
from tests.support.report_fleets import STEP, WINDOW, Node, openmetrics

PATIENCE = 120.0


@dataclass(slots=True)
class Asked:
    """What was asked through the counter."""

    url: str
    bodies: list[dict[str, str]] = field(default_factory=list)
    largest: int = 0


def written(nodes: list[Node], home: Path, seconds: int = WINDOW, step: int = STEP) -> None:
    """Blocks of that fleet in `home`/data."""
    promtool = debian.find("promtool")
    assert promtool is not None
    text = home / "fleet.om"
    with text.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in openmetrics(nodes, seconds, step))
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", text, home / "data"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    text.unlink()


@contextlib.asynccontextmanager
async def prometheus(
    nodes: list[Node], seconds: int = WINDOW, step: int = STEP
) -> AsyncIterator[str]:
    """Its URL; it knows that fleet and nothing else, and ends with the block."""
    binary = debian.find("prometheus")
    assert binary is not None
    with tempfile.TemporaryDirectory(prefix="sp-report-") as folder:
        home = Path(folder)
        await asyncio.to_thread(written, nodes, home, seconds, step)
        (home / "prometheus.yml").write_text("{}\n")
        # The fleets live at a fixed time, which is long ago one day.
        keep = "--storage.tsdb.retention.time=100y"
        async with servers.prometheus((binary,), home, home / "prometheus.yml", keep) as url:
            yield url


@contextlib.asynccontextmanager
async def counted(url: str) -> AsyncIterator[Asked]:
    """A way to that Prometheus which writes down what is asked, and how large the answers are."""
    asked, application = Asked(""), web.Application()
    async with aiohttp.ClientSession() as session:

        async def forward(request: web.Request) -> web.Response:
            body = await request.post()
            asked.bodies.append({name: str(value) for name, value in body.items()})
            async with session.post(url + request.path, data=body) as answer:
                text = await answer.read()
            asked.largest = max(asked.largest, len(text))
            return web.Response(body=text, status=answer.status, content_type="application/json")

        application.router.add_post("/api/v1/{how}", forward)
        async with served(application) as asked.url:
            yield asked


@contextlib.asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[str]:
    """An application on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as own:
        runner = web.AppRunner(application)
        await runner.setup()
        await web.SockSite(runner, own).start()
        try:
            yield f"http://127.0.0.1:{own.getsockname()[1]}"
        finally:
            await runner.cleanup()
