"""Tunes this process's memory: the libraries' defaults suit larger processes.

Source of the numbers: mallopt(3), glibc's malloc.h; measured in docs/benchmarks.md.
"""

import ctypes
import gc
from typing import Final

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
# A relist of 4 000 items creates and drops as many objects: no reason to look for cycles. To look
# through the young ones of 100 000 items at once would block the loop for 50 ms.
_GC_THRESHOLDS: Final = (10_000, 5, 200)
# Smaller blocks are kept and reused. Mapping the lists again each time costs 2 ms of page faults at
# once for 1 000 pods, and a seventh of a relist's CPU for 5 000. glibc's own limit for it, too.
_LARGE: Final = 32 * 1024 * 1024


def keep_small() -> None:
    """Call this once, after all imports and before any thread is started."""
    _return_what_is_free()
    # Objects from the imports live until exit; scanning them would only block the loop.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


def _return_what_is_free() -> None:
    """Make glibc return freed memory beyond that: lists are allocated megabytes at a time.

    By default glibc adapts to keep twice as much, and gives each of gRPC's threads an arena of its
    own, none of which ever shrinks.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        # musl has no such options and needs none.
        return
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_THRESHOLD, _LARGE)
    mallopt(_M_TRIM_THRESHOLD, _LARGE)
