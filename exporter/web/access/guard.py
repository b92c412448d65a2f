"""Middleware that checks every request before its page: rate limits, Host header, access.

Returns the HTTP responses for refusals. `policy` decides on access, `limits` on rates.
"""

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.helpers import BasicAuth
from aiohttp.typedefs import Middleware

from exporter.errors import BusyError
from exporter.settings.conditions import Condition
from exporter.web.access.credentials import Credentials
from exporter.web.access.limits import Allowance, WebLimits, peer_of
from exporter.web.access.policy import WebPolicy
from exporter.web.connections import Connection
from exporter.web.refusals import Refusal, WebState

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]

# They and the conditions name no pod.
PROBES: Final = ("/livez", "/readyz")
_OPEN: Final = (*PROBES, *(condition.path for condition in Condition))
# Nobody can register these, so no foreign page can have them: this machine, Services of a cluster.
_OWN_NAMES: Final = (".localhost", ".svc", ".cluster.local")


class AccessMiddleware:
    """Middleware for one listen address."""

    def __init__(
        self, access: WebPolicy, state: WebState, limits: WebLimits, node_name: str
    ) -> None:
        self._access = access
        self._state = state
        self._node_name = node_name.lower()
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
        if _route(request) in _OPEN:
            return None
        if _is_local(request.protocol.peername) and self._is_foreign(
            request.headers.get("Host", "")
        ):
            self._state.refuse(Refusal.HOST)
            text = "unknown host: ask for an IP address, localhost, or the node's name\n"
            return web.Response(status=421, text=text)
        users = self._access.policy.users
        if not users:
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

    def _is_foreign(self, host: str) -> bool:
        """Whether a browser on this machine may have been led here by a foreign page's name."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
        except ValueError:
            return True
        own = name in ("", self._node_name) or f".{name}".endswith(_OWN_NAMES)
        return not own and _address(name) is None


def _is_local(peername: object) -> bool:
    """Whether a socket's address is a loopback address, as those of port forwarding are."""
    address = _address(str(peername[0]).partition("%")[0]) if isinstance(peername, tuple) else None
    return address is not None and (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _route(request: web.Request) -> str:
    """The route chosen by the router, not the raw path."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else ""


def _login(header: str) -> BasicAuth | None:
    """Name and password from an Authorization header; None if it holds none."""
    try:
        return BasicAuth.decode(header, "utf-8")
    except ValueError:
        return None
