"""Middleware that checks every request before its page: rate limits and access.

Returns the HTTP responses for refusals. `policy` decides on access, `pacing` on limits.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from exporter.errors import BusyError
from exporter.web.access.credentials import Credentials
from exporter.web.access.pacing import Allowance, Share, peer_of
from exporter.web.access.policy import WebPolicy
from exporter.web.connections import Handler
from exporter.web.refusals import FaceState, Refusal

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]

PROBES: Final = ("/livez", "/readyz")
# Requests per peer: rate per second, and burst.
_RATE: Final = 200.0
_BURST: Final = 500.0
# Scrapes: their share of the time, and how many may wait, per peer and in total.
_SCRAPES: Final = 0.5
_EACH: Final = 4
_TOTAL: Final = 32


class AccessMiddleware:
    """Middleware for one listen address. `metered`: the path that is expensive to render."""

    def __init__(self, access: WebPolicy, state: FaceState, metered: str) -> None:
        self._access = access
        self._state = state
        self._metered = metered
        self._requests = Allowance(_RATE, _BURST)
        self._scrapes = Share(_SCRAPES, _EACH, _TOTAL)
        self._credentials = Credentials()

    def close(self) -> None:
        """Stop; no more requests will follow."""
        self._credentials.close()

    def middleware(self) -> Middleware:
        """This object as an aiohttp middleware."""

        @web.middleware
        async def stand(request: web.Request, handler: _Page) -> web.StreamResponse:
            if isinstance(request.protocol, Handler):
                request.protocol.asked()
            peer = peer_of(request.protocol.peername)
            if not self._requests.take(peer):
                return self._turn_away(429, Refusal.RATE, "too many requests")
            return await self._refusal(request, peer) or await self._show(request, handler, peer)

        return stand

    async def _refusal(self, request: web.Request, peer: str) -> web.Response | None:
        """The refusal, or None to let the request in."""
        users = self._access.policy.users
        if not users or _place(request) in PROBES:
            return None
        given = _credentials(request.headers.get("Authorization", ""))
        try:
            if given and await self._credentials.match(users, *given, peer):
                return None
        except BusyError:
            return self._turn_away(429, Refusal.RATE, "too many passwords to check")
        if given:
            self._state.refuse(Refusal.CREDENTIALS)
        challenge = {"WWW-Authenticate": 'Basic realm="shadow-pleg", charset="UTF-8"'}
        return web.Response(status=401, text="unauthorized\n", headers=challenge)

    async def _show(self, request: web.Request, page: _Page, peer: str) -> web.StreamResponse:
        if _place(request) != self._metered:
            return await page(request)
        try:
            async with self._scrapes.turn(peer):
                return await page(request)
        except BusyError:
            return self._turn_away(503, Refusal.BUSY, "too many scrapes at once")

    def _turn_away(self, status: int, why: Refusal, text: str) -> web.Response:
        self._state.refuse(why)
        answer = web.Response(status=status, text=f"{text}\n", headers={"Retry-After": "1"})
        answer.force_close()
        return answer


def _place(request: web.Request) -> str:
    """The route chosen by the router, not the raw path."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else ""


def _credentials(header: str) -> tuple[str, str] | None:
    """Name and password from an Authorization header; None if it holds none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    name, colon, password = pair.partition(":")
    return (name, password) if colon else None
