"""Flaws of events that came: what is wrong, and what a kubelet makes of it.

A kubelet that trusts events takes the pod's state from them (`pkg/kubelet/pleg/evented.go` of
k/k), so one that lies is worse than one that is lost.
"""

from typing import Final, NamedTuple

from exporter.model.labels import Flaw


class Meaning(NamedTuple):
    """`what` is wrong with the event, and what a kubelet that trusts events `does` then."""

    what: str
    does: str


MEANINGS: Final = {
    Flaw.OUT_OF_ORDER: Meaning(
        "came after a later step of its container, over the same subscription",
        "takes the older state for the newer one",
    ),
    Flaw.NO_POD: Meaning("names no pod", "ignores it"),
    Flaw.NO_STATUS: Meaning(
        "has no status of the container itself", "takes the pod for one without that container"
    ),
    Flaw.EMPTY_STATUS: Meaning("has a container status without an id", "may panic"),
    Flaw.WRONG_STATE: Meaning(
        "shows its container in another state: created where it started, or not exited where it"
        " stopped",
        "takes the wrong state",
    ),
    Flaw.WRONG_TIME: Meaning(
        "says that the container ended over five seconds before it started, or after the event was"
        " made",
        "puts the wrong time into the pod's status",
    ),
}
