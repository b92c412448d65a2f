"""Answers with rendered pages. All of them are rendered within one budget.

Law: a page that is still fresh is answered at once. Any other takes a turn, however many clients
ask, and for whichever page; all turns together take a quarter of a CPU at most. Without that, one
client took most of a CPU.
"""

import gzip
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from aiohttp import hdrs, web

from exporter.errors import BusyError
from exporter.web.access.limits import Turns, peer_of
from exporter.web.refusals import Refusal, WebState

_SHARE: Final = 0.25
# How many may wait for their turn, per peer and in total.
_EACH: Final = 4
_TOTAL: Final = 32


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered page, also compressed. `headers`: with the type of its content."""

    body: bytes
    compressed: bytes
    headers: Mapping[str, str]

    @classmethod
    def of(cls, body: bytes, content_type: str, headers: Mapping[str, str] = {}) -> Self:
        """Compress the body."""
        varying = {hdrs.CONTENT_TYPE: content_type, hdrs.VARY: "Accept, Accept-Encoding"}
        # A ninth larger than at level 9, for a tenth of the CPU.
        compressed = gzip.compress(body, compresslevel=1, mtime=0)
        return cls(body, compressed, varying | dict(headers))

    def response(self, request: web.Request) -> web.Response:
        """A response with the page, compressed if the client accepts that."""
        if "gzip" not in request.headers.get(hdrs.ACCEPT_ENCODING, "").lower():
            return web.Response(body=self.body, headers=self.headers)
        headers = {**self.headers, hdrs.CONTENT_ENCODING: "gzip"}
        return web.Response(body=self.compressed, headers=headers)


class Pages:
    """The budget of all pages that are rendered."""

    def __init__(self, state: WebState) -> None:
        self._state = state
        self._turns = Turns(_SHARE, _EACH, _TOTAL)

    async def answer(
        self,
        request: web.Request,
        fresh: Callable[[], Page | None],
        render: Callable[[], Awaitable[Page]],
    ) -> web.Response:
        """The fresh page, else what is rendered at this peer's turn; 503 if too many wait."""
        page = fresh()
        if page is None:
            try:
                async with self._turns.turn(peer_of(request.protocol.peername)):
                    # Another request may have rendered it meanwhile.
                    page = fresh() or await render()
            except BusyError:
                return self._state.come_later(503, Refusal.BUSY, "too many pages at once")
        return page.response(request)
