"""What each imitated runtime announces, and how it delivers announcements, as data.

Sources: the recordings in `tests/traces`; containerd#7318.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from exporter.simulator.options import Runtime


class Delivery(Enum):
    """Who receives an announcement, and what happens to it while there is no subscriber.

    `HELD`: to all; kept up to 5 minutes for the first to come. `FIRST`: to all; kept only until the
    first subscriber ever. `SHARED`: each to one, in turn.
    """

    HELD = "held"
    FIRST = "first"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Manners:
    """One runtime. Ratios are of 1.

    `sandbox_created`: how often the creation of a sandbox is announced. `deleted_has_status`: a
    sandbox's DELETED carries the sandbox's status. `deletes_inside_pod`: DELETED of containers
    removed by RemovePodSandbox. `stops_never_started`: stopping a container that never ran makes it
    EXITED and announces it. `stops_removed_pod`: RemovePodSandbox of a READY one announces the
    sandbox's STOPPED. `sandbox_process`: a sandbox has a process, which can be killed.
    `keeps_failed_pod`: a sandbox that failed to set up stays listed NOTREADY. `clean_end`: a
    restart ends streams with OK instead of UNAVAILABLE. `drops_ghosts`: a client's disconnect is
    noticed only at the next announcement, which is lost.
    """

    name: str
    version: str
    delivery: Delivery
    sandbox_created: float
    sandbox_deleted: bool
    deleted_has_status: bool
    deletes_inside_pod: bool
    stops_never_started: bool
    stops_removed_pod: bool
    sandbox_process: bool
    keeps_failed_pod: bool
    clean_end: bool
    drops_ghosts: bool


MANNERS: Final = {
    Runtime.CONTAINERD_2: Manners(
        name="containerd",
        version="2.1.9",
        delivery=Delivery.HELD,
        sandbox_created=1.0,
        sandbox_deleted=True,
        deleted_has_status=True,
        deletes_inside_pod=True,
        stops_never_started=False,
        stops_removed_pod=True,
        sandbox_process=True,
        keeps_failed_pod=False,
        clean_end=False,
        drops_ghosts=True,
    ),
    Runtime.CONTAINERD_1: Manners(
        name="containerd",
        version="1.7.24",
        delivery=Delivery.SHARED,
        # Announced in 1 of 19 recorded scenarios.
        sandbox_created=0.05,
        sandbox_deleted=True,
        deleted_has_status=False,
        deletes_inside_pod=True,
        stops_never_started=False,
        stops_removed_pod=True,
        sandbox_process=True,
        keeps_failed_pod=True,
        clean_end=False,
        drops_ghosts=True,
    ),
    Runtime.CRIO: Manners(
        name="cri-o",
        version="1.36.3",
        delivery=Delivery.FIRST,
        sandbox_created=0.0,
        sandbox_deleted=False,
        deleted_has_status=True,
        deletes_inside_pod=False,
        stops_never_started=True,
        stops_removed_pod=False,
        sandbox_process=False,
        keeps_failed_pod=False,
        clean_end=True,
        drops_ghosts=False,
    ),
}
