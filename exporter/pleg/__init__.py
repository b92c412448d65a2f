"""The pure core: the relist's transitions, and the ledger that pairs them with the events.

Nothing in this package does I/O, reads a clock or logs. Times are passed in as arguments: `float`
seconds on one monotonic clock, unless the name ends in `_ns` (nanoseconds since the epoch, as
stamped by the runtime).
"""
