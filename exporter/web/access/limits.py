"""Limits how much of this process one peer may use, and all peers together.

Blind spot: peers are identified by address; a flood from a scraper's own address, or from very many
addresses, uses up the scraper's share, too.
"""

import asyncio
import ipaddress
import resource
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from exporter.errors import BusyError
from exporter.timing.bucket import Bucket

_PEERS: Final = 1024
_CONNECTIONS: Final = 128
# What the process itself opens: 25 or so, and some for a while.
_OWN_DESCRIPTORS: Final = 40
# All peers together may ask as much as this many; beyond it, each has a few requests left.
_AT_ONCE: Final = 2
_SCARCE_PER_SECOND: Final = 1.0
_SCARCE_BURST: Final = 20.0
# First turns of peers.
_NEWCOMERS: Final = 32.0
_NEWCOMERS_PER_SECOND: Final = 0.1
# The host part of an IPv6 address: the owner of one address has them all.
_IPV6_HOST_BITS: Final = 64


def _affordable() -> int:
    """Connections of one address, if there are two, that leave descriptors for the watch."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(2, min(_CONNECTIONS, (soft - _OWN_DESCRIPTORS) // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """The limits of one listening address, in numbers and seconds.

    `connections`: in total; each takes a descriptor, which the watch needs.
    `requests_per_second`, `burst`: per peer; without them ten clients take half a CPU.
    `password_priority`: how nice the thread is that checks passwords. At 19, with two other
    processes per CPU, a check of 60 ms took up to 13 s, and a scraper waits for 10 s.
    """

    connections: int = field(default_factory=_affordable)
    handshake_seconds: float = 5.0
    first_request_seconds: float = 10.0
    # Longer than any scrape interval.
    idle_seconds: float = 180.0
    requests_per_second: float = 200.0
    burst: float = 500.0
    reload_check_seconds: float = 1.0
    password_priority: int = 5


def peer_of(address: object) -> str:
    """The peer behind a socket's address: an IPv4 address, or an IPv6 network of 64 bits."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    if ":" not in host:
        return host
    try:
        parsed = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(parsed) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS))


class Allowance:
    """Requests that may be answered: `rate` per second and peer, with a capacity of `burst`.

    All peers together may ask twice that. Beyond it, each has a few requests a minute left: enough
    for a scraper, too few for a flood from many addresses.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._all = Bucket(_AT_ONCE * rate, _AT_ONCE * burst)
        # Ordered by last use, the most recent last.
        self._peers: OrderedDict[str, tuple[Bucket, Bucket]] = OrderedDict()

    def take(self, peer: str) -> bool:
        """Use one token; False if none is left."""
        if peer not in self._peers:
            scarce = Bucket(_SCARCE_PER_SECOND, _SCARCE_BURST)
            self._peers[peer] = Bucket(self._rate, self._burst), scarce
        self._peers.move_to_end(peer)
        if len(self._peers) > _PEERS:
            self._peers.popitem(last=False)
        own, scarce = self._peers[peer]
        now = time.monotonic()
        return own.take(now) and (self._all.take(now) or scarce.take(now))


@dataclass(slots=True)
class Turn:
    """One turn. `seconds`: what it cost, if that is not the time between its begin and end."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """Waits to be called; a BusyError means that there is no room left."""

    peer: str
    called: asyncio.Future[None]


class Turns:
    """One turn at a time; all turns together take at most a share of the time.

    Next is the one served least recently. So one that asks rarely, such as a scraper, waits for
    the current turn and for nobody who comes often. After the first turn of a peer there is no
    rest, so that a scraper is soon served after a restart, when nobody is known. `of`: the share,
    up to 1. `each`, `total`: how many may wait, per peer and in total.
    """

    def __init__(self, of: float, each: int, total: int) -> None:
        self._rest = 1 / of - 1
        self._each = each
        self._total = total
        self._waiting: list[_Waiter] = []
        self._taken = False
        self._newcomers = Bucket(_NEWCOMERS_PER_SECOND, _NEWCOMERS)
        # When each peer had its last turn, the latest last.
        self._served: OrderedDict[str, float] = OrderedDict()

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[Turn]:
        """Wait for a turn; BusyError if too many are waiting."""
        await self._called(peer)
        turn, began = Turn(), time.monotonic()
        try:
            yield turn
        finally:
            ended = time.monotonic()
            seconds = ended - began if turn.seconds is None else turn.seconds
            if peer not in self._served and self._newcomers.take(ended):
                seconds = 0.0
            self._serve(peer, ended)
            asyncio.get_running_loop().call_later(seconds * self._rest, self._call_next)

    async def _called(self, peer: str) -> None:
        if sum(each.peer == peer for each in self._waiting) >= self._each:
            raise BusyError
        waiter = _Waiter(peer, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        if len(self._waiting) > self._total:
            self._make_room()
        if not self._taken:
            self._call_next()
        try:
            await waiter.called
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.called.cancelled() and waiter.called.exception() is None:
                self._call_next()
            raise

    def _call_next(self) -> None:
        # A client that has just left may still be in the list.
        here = [each for each in self._waiting if not each.called.done()]
        self._taken = bool(here)
        if here:
            first = min(here, key=self._last_served)
            self._waiting.remove(first)
            first.called.set_result(None)

    def _make_room(self) -> None:
        """Refuse the newest waiter of the peer with the most, or else of the one served last."""
        waits = Counter(each.peer for each in self._waiting)
        newest_first = reversed(self._waiting)
        last = max(newest_first, key=lambda each: (waits[each.peer], self._last_served(each)))
        self._waiting.remove(last)
        if not last.called.done():
            last.called.set_exception(BusyError())

    def _last_served(self, waiter: _Waiter) -> float:
        return self._served.get(waiter.peer, float("-inf"))

    def _serve(self, peer: str, now: float) -> None:
        self._served.pop(peer, None)
        self._served[peer] = now
        if len(self._served) > _PEERS:
            self._served.popitem(last=False)
