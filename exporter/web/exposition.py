"""The metrics page, rendered in a bounded share of the time regardless of demand.

Rendering takes some milliseconds, during which no events are read. Requests within twenty times
that get the cached page.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

_SHARE: Final = 0.05
# Both formats, unfiltered; scrapers ask for nothing else.
_KEPT: Final = 4

_Question = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Page:
    """`until`: monotonic time until which the page is fresh."""

    status: int
    content_type: str
    body: bytes
    until: float

    def response(self) -> web.Response:
        """A response with the page, compressed if the client accepts that."""
        headers = {hdrs.CONTENT_TYPE: self.content_type}
        response = web.Response(status=self.status, headers=headers, body=self.body)
        response.enable_compression()
        return response


class Exposition:
    """A registry's metrics, with content negotiation."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._render = make_aiohttp_handler(registry, disable_compression=True)
        self._pages: dict[_Question, _Page] = {}

    async def page(self, request: web.Request) -> web.Response:
        """Prometheus' text format, or OpenMetrics."""
        question = ",".join(request.headers.getall(hdrs.ACCEPT, [])), request.query_string
        known = self._pages.get(question)
        if known is not None and time.monotonic() < known.until:
            return known.response()
        began = time.monotonic()
        rendered = await self._render(request)
        ended = time.monotonic()
        page = _Page(
            rendered.status,
            rendered.headers[hdrs.CONTENT_TYPE],
            bytes(getattr(rendered, "body", b"")),
            ended + (ended - began) / _SHARE,
        )
        if len(self._pages) >= _KEPT:
            self._pages.clear()
        self._pages[question] = page
        return page.response()
