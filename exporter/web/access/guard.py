"""Admits or refuses each request before its page: how often, which certificate, which user.

A client is its address. Each may ask a little at any time; all of them share one allowance for
more, so that a flood takes a few percent of a CPU, and no scraper's turn.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.helpers import BasicAuth
from aiohttp.typedefs import Middleware

from exporter.errors import BusyError
from exporter.settings.routes import PROBES
from exporter.timing.bucket import Bucket
from exporter.web.access.credentials import Credentials
from exporter.web.access.policy import WebPolicy
from exporter.web.refusals import Refusal, WebState

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Requests per second and at once: of each client, and of all of them beyond that.
_OWN: Final = 1.0, 20.0
_SHARED: Final = 200.0, 500.0
_MOST_CLIENTS: Final = 1024
_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="shadow-pleg", charset="UTF-8"'}


def peer_of(address: object) -> str:
    """The client behind a socket's address; empty where it has none."""
    return str(address[0]) if isinstance(address, tuple) and address else ""


class Guard:
    """Admits requests to one listen address."""

    def __init__(self, access: WebPolicy, state: WebState) -> None:
        self._access = access
        self._state = state
        self._credentials = Credentials()
        self._shared = Bucket(*_SHARED)
        # Ordered by last use, the most recent last.
        self._own: dict[str, Bucket] = {}

    def close(self) -> None:
        """Stop; no more requests will follow."""
        self._credentials.close()

    def middleware(self) -> Middleware:
        """This object as an aiohttp middleware."""

        @web.middleware
        async def guarded(request: web.Request, handler: _Page) -> web.StreamResponse:
            peer = peer_of(request.protocol.peername)
            if not self._may_ask(peer):
                return self._refused(429, Refusal.RATE, "too many requests")
            return await self._refusal(request, peer) or await handler(request)

        return guarded

    def _may_ask(self, peer: str) -> bool:
        own = self._own[peer] = self._own.pop(peer) if peer in self._own else Bucket(*_OWN)
        if len(self._own) > _MOST_CLIENTS:
            del self._own[next(iter(self._own))]
        now = time.monotonic()
        return own.take(now) or self._shared.take(now)

    async def _refusal(self, request: web.Request, peer: str) -> web.Response | None:
        """The refusal, or None to let the request in."""
        policy, transport = self._access.policy, request.transport or asyncio.BaseTransport()
        if policy.tls and not policy.tls.admits(transport.get_extra_info("peercert")):
            return self._refused(403, Refusal.CREDENTIALS, "no allowed name in the certificate")
        if not policy.users or request.path in PROBES:
            return None
        given = _login(request.headers.get("Authorization", ""))
        if not given:
            return web.Response(status=401, text="unauthorized\n", headers=_CHALLENGE)
        try:
            right = await self._credentials.match(policy.users, given.login, given.password, peer)
        except BusyError:
            return self._refused(429, Refusal.RATE, "too many passwords to check")
        return None if right else self._refused(401, Refusal.CREDENTIALS, "unauthorized")

    def _refused(self, status: int, why: Refusal, text: str) -> web.Response:
        """Count it; the next request needs a new connection, and these are accepted at a pace."""
        self._state.refusals[why] += 1
        headers = _CHALLENGE if status == HTTPStatus.UNAUTHORIZED else None
        answer = web.Response(status=status, text=f"{text}\n", headers=headers)
        answer.force_close()
        return answer


def _login(header: str) -> BasicAuth | None:
    """Name and password from an Authorization header; None if it holds none."""
    try:
        return BasicAuth.decode(header, "utf-8")
    except ValueError:
        return None
