"""Runs the server for one address: its pages behind the guard, and their resources."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from exporter.web.access.guard import AccessMiddleware
from exporter.web.access.policy import WebPolicy
from exporter.web.connections import LimitedListener
from exporter.web.refusals import FaceState

Pages = dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]

_SHUTDOWN: Final = 0.5


@dataclass(frozen=True, slots=True)
class HttpServer:
    """What is needed to admit clients."""

    access: WebPolicy
    state: FaceState

    @contextlib.asynccontextmanager
    async def open(
        self, listening: socket.socket, pages: Pages, metered: str = ""
    ) -> AsyncIterator[None]:
        """Serve the pages on that socket. `metered`: the path whose rendering is rate-limited."""
        guard = AccessMiddleware(self.access, self.state, metered)
        app = web.Application(middlewares=[guard.middleware()])
        app.on_response_prepare.append(self._sign)
        for path, page in pages.items():
            app.router.add_get(path, page)
        runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN)
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - it was set up
        doorway = LimitedListener(runner.server, self.access, self.state)
        self.access.on_change = doorway.close_all
        tasks = [
            asyncio.create_task(doorway.accept(listening)),
            asyncio.create_task(self.access.keep_up()),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            listening.close()
            await runner.cleanup()
            doorway.close_all()
            guard.close()

    async def _sign(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Set the configured headers; reveal no versions."""
        response.headers["Server"] = "shadow-pleg"
        response.headers.update(self.access.policy.headers)
