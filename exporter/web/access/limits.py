"""Limits how much of this process one peer may use, and all peers together.

Blind spot: peers are identified by address; a flood from a scraper's own address, or from very many
addresses, uses up the scraper's share, too.
"""

import asyncio
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from exporter.errors import BusyError
from exporter.timing.bucket import Bucket

_PEERS: Final = 1024
# The host part of an IPv6 address: the owner of one address has them all.
_IPV6_HOST_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """The limits of one listening address, in numbers and seconds.

    `connections`: in total; 2,000 idle ones would take 2,000 descriptors, which the watch needs.
    `requests_per_second`, `burst`: per peer; without them ten clients take half a CPU.
    `password_priority`: how nice the thread is that checks passwords.
    """

    connections: int = 128
    handshake_seconds: float = 5.0
    first_request_seconds: float = 10.0
    # Longer than any scrape interval.
    idle_seconds: float = 180.0
    requests_per_second: float = 200.0
    burst: float = 500.0
    reload_check_seconds: float = 1.0
    password_priority: int = 19


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
    """A token bucket per peer: `rate` per second, with a capacity of `burst`."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        # Ordered by last use, the most recent last.
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, peer: str) -> bool:
        """Use one token; False if none is left."""
        bucket = self._buckets.pop(peer, None) or Bucket(self._rate, self._burst)
        self._buckets[peer] = bucket
        if len(self._buckets) > _PEERS:
            self._buckets.popitem(last=False)
        return bucket.take(time.monotonic())


class Share:
    """One turn at a time; all turns together take at most a share of the time.

    `of`: that share, up to 1. `each`, `total`: how many may wait, per peer and in total.
    """

    def __init__(self, of: float, each: int, total: int) -> None:
        self._rest = 1 / of - 1
        self._each = each
        self._total = total
        self._waiting: Counter[str] = Counter()
        self._lock = asyncio.Lock()
        self._free_at = 0.0

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[None]:
        """Wait for a turn, in order of arrival; BusyError if too many are waiting."""
        if self._waiting[peer] >= self._each or self._waiting.total() >= self._total:
            raise BusyError
        self._waiting[peer] += 1
        try:
            async with self._lock:
                await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))
                began = time.monotonic()
                try:
                    yield
                finally:
                    ended = time.monotonic()
                    self._free_at = ended + (ended - began) * self._rest
        finally:
            self._waiting[peer] -= 1
            if not self._waiting[peer]:
                del self._waiting[peer]
