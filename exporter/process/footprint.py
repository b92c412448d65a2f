"""How this process holds memory: what the libraries under it do by default suits bigger ones.

Source of the numbers: mallopt(3), glibc's malloc.h; measured in docs/benchmarks.md.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
# A relist of 4 000 items makes as many objects, and drops them: no reason to look for cycles.
_GC_THRESHOLDS: Final = (10_000, 20, 50)
# Below it memory is kept and used again: a list of 1 000 pods that is mapped anew each time costs
# 2 ms of page faults at one stroke.
_LARGE: Final = 8 * 1024 * 1024


def keep_small() -> None:
    """To be called once, when all is imported and before there are threads."""
    _return_what_is_free()
    # What the imports left stays for ever: looking through it holds the loop for nothing.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _return_what_is_free() -> None:
    """Lists come as megabytes at a time, and go: by default glibc learns to keep such blocks.

    It also gives each of gRPC's threads an arena of its own, and none of them ever shrinks.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        # musl has no such options, and needs none.
        return
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_THRESHOLD, _LARGE)
    mallopt(_M_TRIM_THRESHOLD, _LARGE)
