"""The pure core: it pairs what the runtime's lists prove with what its event stream announces.

How it works, in short. A container passes through four steps: created, started, died, removed. The
stream should announce each of them; the difference of two lists in a row proves the steps between
them. So every step has two witnesses, and the ledger keeps what both reported of each step. If both
report it within the grace period, in whatever order, the step is confirmed. If only the lists do,
the event may be lost. But first the ledger asks whether the runtime ever announces such a step
(`owed`), whether anything here kept the event from arriving (`trust`), and whether the stream has
passed the moment at which the event was due (`settle`). Only a younger event on the same
subscription proves that an older one will not come; until then it is only late.

The kernel and the kubelet are witnesses, too: `kernel` compares the lists with the containers'
processes, `belief` with what the kubelet shows. If two witnesses contradict each other, the
contradiction must last (`steps.Standing`) before it becomes a finding.

Nothing in this package does I/O, reads a clock or logs. Times are passed in as arguments: `float`
seconds on one monotonic clock, unless the name ends in `_ns` (nanoseconds since the epoch, as
stamped by the runtime).
"""
