"""How much of this process a peer may have, and how much all of them together.

Here: counting and waiting. Not here: what is asked for, nor what a refusal looks like.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from exporter.errors import BusyError
from exporter.timing.bucket import Bucket

_PEERS: Final = 1024
# One customer's part of an IPv6 address: who has one address has all of these.
_IPV6_HOST_BITS: Final = 64


def peer_of(address: object) -> str:
    """Whom a socket's address stands for: an IPv4 address, or an IPv6 network of 64 bits."""
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
    """So many a second for each peer, and a store of `burst` of them."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        # Who asked last stands last.
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, peer: str) -> bool:
        """Use one up; False if there is none left."""
        bucket = self._buckets.pop(peer, None) or Bucket(self._rate, self._burst)
        self._buckets[peer] = bucket
        if len(self._buckets) > _PEERS:
            self._buckets.popitem(last=False)
        return bucket.take(time.monotonic())


class Share:
    """One turn at a time, and all turns together no more than a share of the time.

    `of`: that share, up to 1. `each`, `total`: how many may wait, of one peer and of all.
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
        """Wait for a turn, in order of arrival; BusyError where too many do."""
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
