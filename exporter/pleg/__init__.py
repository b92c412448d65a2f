"""The pure core: events, the relist, the ledger that pairs the two, and runtime profiles.

Nothing in this package does I/O, reads a clock or logs. Times are passed in as arguments: `float`
seconds on one monotonic clock, unless the name ends in `_ns` (nanoseconds since the epoch, as
stamped by the runtime).
"""
