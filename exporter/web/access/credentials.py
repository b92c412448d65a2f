"""Checks passwords at a bounded cost.

bcrypt takes a quarter of a second at cost 12. It runs in one thread of the lowest priority (the
library releases the interpreter lock: 2 ms of lag measured), for a limited share of the time, and
successful logins are remembered.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import string
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from exporter.web.access.limits import Share

# Share of one CPU; how many checks may wait, per peer and in total.
_SHARE: Final = 0.2
_EACH: Final = 2
_TOTAL: Final = 16
_REMEMBERED: Final = 256
# bcrypt looks at this many bytes; htpasswd and Go also cut there.
_SIGNIFICANT: Final = 72
_ALPHABET: Final = "./" + string.ascii_letters + string.digits


class Credentials:
    """Checks passwords against bcrypt hashes."""

    def __init__(self, priority: int) -> None:
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._share = Share(_SHARE, _EACH, _TOTAL)
        self._thread = ThreadPoolExecutor(1, "bcrypt", _lower_priority, (priority,))
        self._decoys: dict[int, str] = {}

    async def match(self, users: Mapping[str, str], name: str, password: str, peer: str) -> bool:
        """Whether that user has that password; BusyError if it cannot be checked now.

        An unknown name takes as long as a known one.
        """
        hashed = users.get(name)
        key = self._key(name, hashed or "", password)
        if key in self._right and hashed is not None:
            self._right.move_to_end(key)
            return True
        async with self._share.turn(peer):
            tested = hashed or self._decoy(max(map(_cost, users.values())))
            loop = asyncio.get_running_loop()
            same = await loop.run_in_executor(self._thread, _same, password, tested)
        if not same or hashed is None:
            return False
        self._right[key] = None
        if len(self._right) > _REMEMBERED:
            self._right.popitem(last=False)
        return True

    def close(self) -> None:
        """Stop; no more checks will follow."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _key(self, *parts: str) -> bytes:
        """The key remembered instead of a password; useless without this process's secret."""
        digest = hashlib.blake2b(key=self._secret)
        for part in parts:
            encoded = part.encode(errors="surrogateescape")
            digest.update(len(encoded).to_bytes(8))
            digest.update(encoded)
        return digest.digest()

    def _decoy(self, cost: int) -> str:
        """A hash of that cost for an unknown password."""
        if cost not in self._decoys:
            # The last character of a salt encodes two bits, that of a hash four.
            salt = "".join(secrets.choice(_ALPHABET) for _ in range(21)) + "O"
            rest = "".join(secrets.choice(_ALPHABET) for _ in range(30)) + "O"
            self._decoys[cost] = f"$2b${cost:02}${salt}{rest}"
        return self._decoys[cost]


def _cost(hashed: str) -> int:
    return int(hashed[4:6])


def _same(password: str, hashed: str) -> bool:
    import bcrypt  # noqa: PLC0415 - half a MiB that only those pay who have users

    try:
        significant = password.encode(errors="surrogateescape")[:_SIGNIFICANT]
        return bcrypt.checkpw(significant, hashed.encode())
    except ValueError:
        return False


def _lower_priority(nice: int) -> None:
    """Lower this thread's priority below everything else on the node."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
