"""Making an interpreter stand still for a while without stopping its process.

Other threads of the process run on as long as they need no Python: gRPC's own
threads still read the socket. Such is a long garbage collection, or a call into
a library that keeps the lock.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal


def hold_on_signal(seconds: int) -> None:
    """From now on, SIGUSR1 holds the interpreter's lock for so long."""
    # PyDLL, unlike CDLL, keeps the lock during the call.
    sleep = ctypes.PyDLL(None).sleep
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, sleep, seconds)
