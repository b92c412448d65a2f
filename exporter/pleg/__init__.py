"""The pure core: events, the relist, the ledger that pairs the two, and runtime profiles.

Nothing below this package does I/O, reads a clock or logs. Times are
arguments: `float` seconds of one monotonic clock, unless a name ends in `_ns`
(nanoseconds since the epoch, as the runtime stamps them).
"""
