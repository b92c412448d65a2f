"""Checks passwords at a bounded cost.

bcrypt takes a quarter of a second at cost 12. It runs in one thread of low priority (the library
releases the interpreter lock: 2 ms of lag measured), one check after the other. Logins that were
right are remembered, so a scraper waits once. A client has one check at a time, and a wrong
password makes all others wait, so that guessing takes a fifth of a CPU at most.
"""

import asyncio
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from exporter.errors import BusyError

# How much longer than a wrong password's check is the pause after it.
_REST: Final = 4
_MOST_CLIENTS: Final = 32
_REMEMBERED: Final = 256
# At 19, with two other processes per CPU, a check of 60 ms took up to 13 s, and a scraper waits 10.
_NICE: Final = 5
# bcrypt looks at this many bytes; htpasswd and Go also cut there.
_SIGNIFICANT_BYTES: Final = 72


class Credentials:
    """Checks passwords against bcrypt hashes."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}
        self._turn = asyncio.Lock()
        self._waiting: set[str] = set()
        self._thread = ThreadPoolExecutor(1, "bcrypt", _lower_priority)

    async def match(self, users: Mapping[str, str], name: str, password: str, peer: str) -> bool:
        """Whether that user has that password; BusyError if it cannot be checked now.

        An unknown name takes as long as a known one.
        """
        hashed = users.get(name)
        key = self._key(name, hashed or "", password)
        if key in self._right:
            return True
        if peer in self._waiting or len(self._waiting) >= _MOST_CLIENTS:
            raise BusyError
        cost = max(int(each[4:6]) for each in users.values())
        self._waiting.add(peer)
        try:
            async with self._turn:
                loop = asyncio.get_running_loop()
                check = loop.run_in_executor(self._thread, _timed, password, hashed, cost)
                same, seconds = await check
                if not same:
                    await asyncio.sleep(_REST * seconds)
        finally:
            self._waiting.discard(peer)
        if same:
            self._right[key] = None
            if len(self._right) > _REMEMBERED:
                del self._right[next(iter(self._right))]
        return same

    def close(self) -> None:
        """Stop; no more checks will follow."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _key(self, *parts: str) -> bytes:
        """The key remembered instead of a password; useless without this process's secret."""
        text = "\0".join(f"{len(part)}:{part}" for part in parts)
        return hashlib.blake2b(text.encode(errors="surrogateescape"), key=self._secret).digest()


def _timed(password: str, hashed: str | None, cost: int) -> tuple[bool, float]:
    """Whether it is right, and seconds of CPU time: on a busy machine a check mostly waits."""
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


def _lower_priority() -> None:
    """Lower this thread's priority below that of the loop."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
