"""Keeps Python's garbage collector out of the way of the event loop.

What it does not do: glibc's settings for memory are variables of the image (Containerfile).
"""

import gc
from typing import Final

# A relist of 4 000 items creates and drops as many objects: no reason to look for cycles. To look
# through the young ones of 100 000 items at once would block the loop for 50 ms.
_GC_THRESHOLDS: Final = (10_000, 5, 200)


def collect_rarely() -> None:
    """Call this once, after the imports."""
    # Objects from the imports live until exit; scanning them would only block the loop.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
