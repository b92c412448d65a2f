"""What a cgroup's folder is, by its name alone, and what is known of it.

Sources: kubelet's `pkg/kubelet/cm`, containerd's and CRI-O's CRI servers, cri-dockerd. Blind spot:
a container of another client of the runtime looks like a container without a pod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from exporter.runtimes.known import RUNTIMES

UNWATCHED: Final = -1
UNSCANNED: Final = -2
_BESIDE: Final = "|".join(each.cgroup_beside for each in RUNTIMES if each.cgroup_beside)
_PREFIX: Final = "|".join(each.cgroup_prefix for each in RUNTIMES)
# CRI-O's cgroupfs driver writes no `.scope`.
_PREFIXED: Final = re.compile(rf"(?!{_BESIDE})(?:{_PREFIX})([0-9A-Za-z][0-9A-Za-z-]*)(?:\.scope)?")
_ID: Final = re.compile(r"[0-9a-f]{64}")
# Within a pod's folder there is nothing but containers.
_ID_IN_POD: Final = re.compile(rf"(?!{_BESIDE})[0-9A-Za-z]+(?:-[0-9A-Za-z]+)*")
_POD: Final = re.compile(r"pod([0-9A-Za-z_-]+)")
_POD_SLICE: Final = re.compile(
    r"(?:.*-)?kubepods(?:-burstable|-besteffort)?-pod([0-9A-Za-z_]+)\.slice"
)
# Services of the machine, and logins: no container is below them.
_OTHERS: Final = re.compile(
    r".*\.(?:service|scope|mount|socket|swap|device|path|timer)|user\.slice"
)


@dataclass(slots=True, eq=False)
class Container:
    """One cgroup of a container; `watch`: the number of its watch."""

    folder: Folder
    path: str
    id: str
    populated: bool = False
    watch: int = UNWATCHED


@dataclass(slots=True, eq=False)
class Folder:
    """`pod_uid`: of the pod whose containers it holds, or "".

    `entries`: how many folders were in it when it was scanned; `UNSCANNED`: it has to be.
    """

    parent: Folder | None
    name: str
    path: str
    pod_uid: str
    entries: int = UNSCANNED
    watch: int = UNWATCHED
    folders: dict[str, Folder] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)

    @property
    def is_dropped(self) -> bool:
        """Whether its parent does not have it any more."""
        return self.parent is not None and self.parent.folders.get(self.name) is not self


class Place(NamedTuple):
    """`container_id`: "" for a folder that may hold some. `pod_uid`: "" outside pods."""

    container_id: str
    pod_uid: str


def place_of(name: str, pod_uid: str) -> Place | None:
    """What the folder of that name is, below a folder of that pod; None if it is of no interest."""
    if match := _PREFIXED.fullmatch(name):
        return Place(match[1], pod_uid)
    if pod_uid:
        return Place(name, pod_uid) if _ID_IN_POD.fullmatch(name) else None
    if _ID.fullmatch(name):
        return Place(name, "")
    if match := _POD.fullmatch(name):
        return Place("", match[1])
    if match := _POD_SLICE.fullmatch(name):
        # systemd takes a dash for a level: the kubelet writes an underscore.
        return Place("", match[1].replace("_", "-"))
    return None if _OTHERS.fullmatch(name) else Place("", "")
