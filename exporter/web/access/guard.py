"""Middleware that checks every request before its page: rate limits and access.

Returns the HTTP responses for refusals. `policy` decides on access, `limits` on rates.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware

from exporter.errors import BusyError
from exporter.web.access.credentials import Credentials
from exporter.web.access.limits import Allowance, WebLimits, peer_of
from exporter.web.access.policy import WebPolicy
from exporter.web.connections import Connection
from exporter.web.refusals import Refusal, WebState

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]

PROBES: Final = ("/livez", "/readyz")


class AccessMiddleware:
    """Middleware for one listen address."""

    def __init__(self, access: WebPolicy, state: WebState, limits: WebLimits) -> None:
        self._access = access
        self._state = state
        self._requests = Allowance(limits.requests_per_second, limits.burst)
        self._credentials = Credentials(limits.password_priority)

    def close(self) -> None:
        """Stop; no more requests will follow."""
        self._credentials.close()

    def middleware(self) -> Middleware:
        """This object as an aiohttp middleware."""

        @web.middleware
        async def guarded(request: web.Request, handler: _Page) -> web.StreamResponse:
            if isinstance(request.protocol, Connection):
                request.protocol.stay()
            peer = peer_of(request.protocol.peername)
            if not self._requests.take(peer):
                return self._state.come_later(429, Refusal.RATE, "too many requests")
            return await self._refusal(request, peer) or await handler(request)

        return guarded

    async def _refusal(self, request: web.Request, peer: str) -> web.Response | None:
        """The refusal, or None to let the request in."""
        users = self._access.policy.users
        if not users or _route(request) in PROBES:
            return None
        given = _login(request.headers.get("Authorization", ""))
        try:
            if given and await self._credentials.match(users, given.login, given.password, peer):
                return None
        except BusyError:
            return self._state.come_later(429, Refusal.RATE, "too many passwords to check")
        if given:
            self._state.refuse(Refusal.CREDENTIALS)
        challenge = {"WWW-Authenticate": 'Basic realm="shadow-pleg", charset="UTF-8"'}
        return web.Response(status=401, text="unauthorized\n", headers=challenge)


def _route(request: web.Request) -> str:
    """The route chosen by the router, not the raw path."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else ""


def _login(header: str) -> aiohttp.BasicAuth | None:
    """Name and password from an Authorization header; None if it holds none."""
    try:
        return aiohttp.BasicAuth.decode(header, "utf-8")
    except ValueError:
        return None
