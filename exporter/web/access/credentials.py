"""Checks passwords at a bounded cost.

bcrypt takes a quarter of a second at cost 12. It runs in one thread of low priority (the library
releases the interpreter lock: 2 ms of lag measured), for a limited share of a CPU, and successful
logins are remembered. A client that guesses was served lately, so it waits behind a scraper.
"""

import asyncio
import hashlib
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from exporter.web.access.limits import Turns

# Share of one CPU; how many checks may wait, per peer and in total.
_SHARE: Final = 0.2
_EACH: Final = 2
_TOTAL: Final = 32
_REMEMBERED: Final = 256
# bcrypt looks at this many bytes; htpasswd and Go also cut there.
_SIGNIFICANT_BYTES: Final = 72


class Credentials:
    """Checks passwords against bcrypt hashes."""

    def __init__(self, priority: int) -> None:
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._turns = Turns(_SHARE, _EACH, _TOTAL)
        self._thread = ThreadPoolExecutor(1, "bcrypt", _lower_priority, (priority,))

    async def match(self, users: Mapping[str, str], name: str, password: str, peer: str) -> bool:
        """Whether that user has that password; BusyError if it cannot be checked now.

        An unknown name takes as long as a known one.
        """
        hashed = users.get(name)
        key = self._key(name, hashed or "", password)
        if key in self._right:
            self._right.move_to_end(key)
            return True
        cost = max(map(_cost, users.values()))
        async with self._turns.turn(peer) as turn:
            loop = asyncio.get_running_loop()
            check = loop.run_in_executor(self._thread, _timed, password, hashed, cost)
            same, turn.seconds = await check
        if not same:
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


def _cost(hashed: str) -> int:
    return int(hashed[4:6])


def _timed(password: str, hashed: str | None, cost: int) -> tuple[bool, float]:
    """The same, and seconds of CPU time: on a busy machine a check mostly waits."""
    began = time.thread_time()
    return _same(password, hashed, cost), time.thread_time() - began


def _same(password: str, hashed: str | None, cost: int) -> bool:
    """Whether that is the hash of the password; without one, only spend the same time."""
    import bcrypt  # noqa: PLC0415 - half a MiB, so it is loaded with the first password

    significant = password.encode(errors="surrogateescape")[:_SIGNIFICANT_BYTES]
    try:
        if hashed is None:
            bcrypt.hashpw(significant, bcrypt.gensalt(cost))
            return False
        return bcrypt.checkpw(significant, hashed.encode())
    except ValueError:
        return False


def _lower_priority(nice: int) -> None:
    """Lower this thread's priority below that of the loop."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
