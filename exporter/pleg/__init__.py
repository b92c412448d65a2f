"""The pure core: it pairs what the runtime's lists prove with what its event stream announces.

How it works, in short. A container passes through four steps: created, started, died, removed. The
stream is to announce each of them; two lists in a row prove those that lie between them. So every
step has two witnesses, and the ledger keeps, for each container, what both have said of each step.
If both speak within the grace period, in whatever order, the step is confirmed. If only a list
does, the event may be lost: but first the ledger asks whether the runtime ever announces such a
step (`owed`), whether anything explains that the event could not be heard (`trust`), and whether
the stream has come further than the moment at which the event was due (`settle`). Only a younger
event on the same subscription proves that an older one will not come; until then it is only late.

The kernel and the kubelet are witnesses of the same kind: `kernel` compares the lists with the
containers' processes, `belief` with what the kubelet shows. Where two of them contradict each
other, the contradiction has to last (`standing`) before it is a finding.

Laws. Nothing in this package does I/O, reads a clock or logs. Times are passed in as arguments:
`float` seconds on one monotonic clock, unless the name ends in `_ns` (nanoseconds since the epoch,
as stamped by the runtime).
"""
