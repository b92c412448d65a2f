"""The metrics page, rendered in a bounded share of the time regardless of demand.

Rendering takes some milliseconds, during which no events are read. Requests within twenty times
that get the cached page. Requests that no cache can answer, each with another query, take turns:
without those, ten clients take a whole CPU.
"""

import time
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from exporter.errors import BusyError
from exporter.web.access.limits import Share, peer_of
from exporter.web.refusals import Refusal, WebState

# Shares of the time: of one page, and of all together.
_PAGE_SHARE: Final = 0.05
_SHARE: Final = 0.5
# How many may wait for their turn, per peer and in total.
_EACH: Final = 4
_TOTAL: Final = 32
# Both formats, unfiltered; scrapers ask for nothing else.
_CACHED_PAGES: Final = 4


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

    def __init__(self, registry: CollectorRegistry, state: WebState) -> None:
        self._render = make_aiohttp_handler(registry, disable_compression=True)
        self._state = state
        self._turns = Share(_SHARE, _EACH, _TOTAL)
        self._pages: dict[tuple[str, str], _Page] = {}

    async def page(self, request: web.Request) -> web.Response:
        """Prometheus' text format, or OpenMetrics."""
        question = ",".join(request.headers.getall(hdrs.ACCEPT, [])), request.query_string
        if known := self._fresh(question):
            return known.response()
        try:
            async with self._turns.turn(peer_of(request.protocol.peername)):
                # Another request may have had the same question, and the turn before.
                page = self._fresh(question) or await self._rendered(request)
        except BusyError:
            return self._state.come_later(503, Refusal.BUSY, "too many scrapes at once")
        if question not in self._pages and len(self._pages) >= _CACHED_PAGES:
            self._pages.clear()
        self._pages[question] = page
        return page.response()

    def _fresh(self, question: tuple[str, str]) -> _Page | None:
        page = self._pages.get(question)
        return page if page and time.monotonic() < page.until else None

    async def _rendered(self, request: web.Request) -> _Page:
        began = time.monotonic()
        rendered = await self._render(request)
        ended = time.monotonic()
        return _Page(
            rendered.status,
            rendered.headers[hdrs.CONTENT_TYPE],
            bytes(getattr(rendered, "body", b"")),
            ended + (ended - began) / _PAGE_SHARE,
        )
