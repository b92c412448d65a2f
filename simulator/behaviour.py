"""What each imitated runtime announces, and how it delivers announcements, as data.

Sources: the recordings in `tests/traces`; containerd#7318.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from simulator.options import Runtime


class Delivery(Enum):
    """Who receives an announcement, and what happens to it while there is no subscriber.

    `HELD`: to all; kept up to 5 minutes for the first to come. `FIRST`: to all; kept only until the
    first subscriber ever. `SHARED`: each to one, in turn.
    """

    HELD = "held"
    FIRST = "first"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class RuntimeBehaviour:
    """One runtime; the defaults are containerd 2's. Ratios are of 1.

    `sandbox_created`: how often the creation of a sandbox is announced. `deleted_has_status`: a
    sandbox's DELETED carries the sandbox's status. `deletes_inside_pod`: DELETED of containers
    removed by RemovePodSandbox. `stops_never_started`: stopping a container that never ran makes it
    EXITED and announces it. `stops_removed_pod`: RemovePodSandbox of a READY one announces the
    sandbox's STOPPED. `clean_end`: a restart ends streams with OK instead of UNAVAILABLE.
    `departed_subscribers`: a client's disconnect is noticed only at the next announcement, which is
    lost.
    """

    delivery: Delivery = Delivery.HELD
    sandbox_created: float = 1.0
    sandbox_deleted: bool = True
    deleted_has_status: bool = True
    deletes_inside_pod: bool = True
    stops_never_started: bool = False
    stops_removed_pod: bool = True
    clean_end: bool = False
    departed_subscribers: bool = True


BEHAVIOURS: Final = {
    Runtime.CONTAINERD_2: RuntimeBehaviour(),
    Runtime.CONTAINERD_1: RuntimeBehaviour(
        delivery=Delivery.SHARED,
        # Announced in 1 of 19 recorded scenarios.
        sandbox_created=0.05,
        deleted_has_status=False,
    ),
    Runtime.CRIO: RuntimeBehaviour(
        delivery=Delivery.FIRST,
        sandbox_created=0.0,
        sandbox_deleted=False,
        deletes_inside_pod=False,
        stops_never_started=True,
        stops_removed_pod=False,
        clean_end=True,
        departed_subscribers=False,
    ),
}
