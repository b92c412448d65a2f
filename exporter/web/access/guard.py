"""Admits or refuses each request by certificate, host and login.

bcrypt takes a quarter of a second at cost 12. One thread of low priority does one check at a time
(the library releases the interpreter lock: 2 ms of lag measured). Right logins are remembered, so a
scraper waits once. Each client has one check at a time, and a wrong password delays all other
checks, so that guessing takes a fifth of a CPU at most.
"""

import asyncio
import contextlib
import hashlib
import ipaddress
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.helpers import BasicAuth

from exporter.model.labels import Refusal
from exporter.node.state import Node
from exporter.settings.routes import NAME_PODS, PROBES
from exporter.web.access.policy import WebPolicy

# Nobody can register these names, so no foreign page has one: this machine, a cluster's Services.
_UNREGISTERED: Final = (".localhost", ".svc", ".cluster.local")

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="shadow-pleg", charset="UTF-8"'}
# The pause after a wrong password, in multiples of the time of its check.
_REST: Final = 4
_MOST_WAITING: Final = 32
_REMEMBERED: Final = 256
# At 19, with two other processes per CPU, a check of 60 ms took up to 13 s; a scraper waits 10 s.
_NICE: Final = 5
# bcrypt uses only this many bytes of a password; htpasswd and Go also cut there.
_SIGNIFICANT_BYTES: Final = 72
# In a flood, clients that were answered lately keep their connections: for this long, which is
# longer than any scrape interval, and at most this many clients.
_KNOWN_SECONDS: Final = 300.0
_MOST_KNOWN: Final = 1024


class Known:
    """Clients that got a page lately. A flood cannot replace them: a full table takes no more."""

    def __init__(self) -> None:
        # Monotonic time of each client's last answer; the latest last.
        self._answered: dict[str, float] = {}

    def __contains__(self, peer: str) -> bool:
        return time.monotonic() - self._answered.get(peer, float("-inf")) < _KNOWN_SECONDS

    def add(self, peer: str) -> None:
        """Note that this client was answered just now."""
        answered = self._answered
        answered.pop(peer, None)
        if len(answered) >= _MOST_KNOWN and (oldest := next(iter(answered))) not in self:
            del answered[oldest]
        if len(answered) < _MOST_KNOWN:
            answered[peer] = time.monotonic()


class Guard:
    """Admits requests to one listen address."""

    def __init__(self, access: WebPolicy, node: Node) -> None:
        self._access = access
        self._node = node
        self._credentials = Credentials()
        self.known = Known()

    def close(self) -> None:
        """Stop checking passwords."""
        self._credentials.close()

    async def answer(self, request: web.Request, page: Page, peer: str) -> web.StreamResponse:
        """The page, or an answer that says why that client does not get it."""
        if refusal := await self._refusal(request, peer):
            return refusal
        answer = await page(request)
        # If there are users, probes do not make a client known.
        if request.path not in PROBES or not self._access.policy.users:
            self.known.add(peer)
        return answer

    async def _refusal(self, request: web.Request, peer: str) -> web.Response | None:
        policy, transport = self._access.policy, request.transport or asyncio.BaseTransport()
        if policy.tls and not policy.tls.admits(transport.get_extra_info("peercert")):
            return self._refused(403, Refusal.CREDENTIALS, "no allowed name in the certificate")
        # With TLS or users, a foreign page cannot get here: it has no certificate, and no login.
        is_open = not (policy.tls or policy.users) and request.path in NAME_PODS
        if is_open and not is_ours(request.headers.get("Host", ""), self._access.names):
            text = "unknown host: ask for an IP address, localhost, or the node's name"
            return self._refused(421, Refusal.HOST, text)
        if not policy.users or request.path in PROBES:
            return None
        given = _login(request.headers.get("Authorization", ""))
        if not given:
            return web.Response(status=401, text="unauthorized\n", headers=_CHALLENGE)
        right = await self._credentials.match(policy.users, given.login, given.password, peer)
        if right is None:
            return self._refused(429, Refusal.RATE, "too many passwords to check")
        return None if right else self._refused(401, Refusal.CREDENTIALS, "unauthorized")

    def _refused(self, status: int, why: Refusal, text: str) -> web.Response:
        """Count the refusal, and close the connection: new ones come at a limited rate."""
        self._node.refusals[why] += 1
        headers = _CHALLENGE if status == HTTPStatus.UNAUTHORIZED else None
        answer = web.Response(status=status, text=f"{text}\n", headers=headers)
        answer.force_close()
        return answer


def is_ours(host: str, names: Collection[str]) -> bool:
    """Whether no foreign page can have that host name (DNS rebinding)."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    if "." not in name or name in names or f".{name}".endswith(_UNREGISTERED):
        return True
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


def _login(header: str) -> BasicAuth | None:
    try:
        return BasicAuth.decode(header, "utf-8")
    except ValueError:
        return None


class Credentials:
    """Checks passwords against bcrypt hashes."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}
        self._one_at_a_time = asyncio.Lock()
        # Clients whose check waits or runs.
        self._waiting: set[str] = set()
        self._thread = ThreadPoolExecutor(1, "bcrypt", _lower_priority)

    async def match(
        self, users: Mapping[str, str], name: str, password: str, peer: str
    ) -> bool | None:
        """Whether that user has that password; None if it cannot be checked now.

        A wrong password takes the same time for every name, known or not.
        """
        hashed = users.get(name)
        key = self._key(name, hashed or "", password)
        if key in self._right:
            return True
        if peer in self._waiting or len(self._waiting) >= _MOST_WAITING:
            return None
        cost = max(map(_cost, users.values()))
        self._waiting.add(peer)
        try:
            same = await self._check(password, hashed, cost)
        finally:
            self._waiting.remove(peer)
        if same:
            self._right[key] = None
            if len(self._right) > _REMEMBERED:
                del self._right[next(iter(self._right))]
        return same

    async def _check(self, password: str, hashed: str | None, cost: int) -> bool:
        async with self._one_at_a_time:
            loop = asyncio.get_running_loop()
            check = loop.run_in_executor(self._thread, _timed, password, hashed, cost)
            same, seconds = await check
            if not same:
                await asyncio.sleep(_REST * seconds)
        return same

    def close(self) -> None:
        """Start no more checks; one that has begun ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _key(self, *parts: str) -> bytes:
        """A hash to remember instead of a password; useless without this process's secret."""
        text = "\0".join(f"{len(part)}:{part}" for part in parts)
        return hashlib.blake2b(text.encode(errors="surrogateescape"), key=self._secret).digest()


def _timed(password: str, hashed: str | None, cost: int) -> tuple[bool, float]:
    """Whether it is right, and the CPU seconds: on a busy machine a check mostly waits."""
    began = time.thread_time()
    return _same(password, hashed, cost), time.thread_time() - began


def _same(password: str, hashed: str | None, cost: int) -> bool:
    """Whether `hashed` is the hash of the password; if not, take as long as a check of `cost`."""
    import bcrypt  # noqa: PLC0415 - half a MiB, so it is loaded with the first password

    significant = password.encode(errors="surrogateescape")[:_SIGNIFICANT_BYTES]
    try:
        if hashed is None:
            bcrypt.hashpw(significant, bcrypt.gensalt(cost))
        elif bcrypt.checkpw(significant, hashed.encode()):
            return True
        else:
            # Each cost takes twice as long as the one before, so these sum up to the missing time.
            for each in range(_cost(hashed), cost):
                bcrypt.hashpw(significant, bcrypt.gensalt(each))
    except ValueError:
        pass
    return False


def _cost(hashed: str) -> int:
    return int(hashed[4:6])


def _lower_priority() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
