"""What each imitated runtime announces, and how it delivers announcements, as data.

Sources: the recordings in `tests/traces`; containerd#7318.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from simulator.options import Runtime


class Delivery(Enum):
    """Who receives an announcement, and what happens to it while there is no subscriber."""

    # All; kept up to 5 minutes for the first to come.
    HELD = "held"
    # All; kept only until the first subscriber ever.
    FIRST = "first"
    # Each goes to one subscriber, in turn.
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class RuntimeBehaviour:
    """One runtime; the defaults are containerd 2's."""

    delivery: Delivery = Delivery.HELD
    # Share of sandboxes whose creation is announced.
    sandbox_created: float = 1.0
    sandbox_deleted: bool = True
    # A sandbox's DELETED carries its status.
    deleted_has_status: bool = True
    # Containers removed by RemovePodSandbox are announced as DELETED.
    deletes_inside_pod: bool = True
    # Stopping a container that never ran makes it EXITED, and is announced.
    stops_never_started: bool = False
    # RemovePodSandbox of a READY sandbox announces its STOPPED.
    stops_removed_pod: bool = True
    # A restart ends streams with OK instead of UNAVAILABLE.
    clean_end: bool = False
    # A client's disconnect is noticed only at the next announcement, which is lost.
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
