"""What a cgroup's folder is, by its name alone, and what is known of it.

Sources: kubelet's `pkg/kubelet/cm`, containerd's and CRI-O's CRI servers, cri-dockerd; the layouts
are in docs/cgroups.md. Blind spot: a container of another client of the runtime looks like a
container without a pod, and within a pod's container nothing is looked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from exporter.kernel.populated import Processes
from exporter.runtimes.known import RUNTIMES

UNWATCHED: Final = -1
UNSCANNED: Final = -2
_MONITORS: Final = tuple(each.cgroup_beside for each in RUNTIMES if each.cgroup_beside)
_BESIDE: Final = "|".join(_MONITORS)
_PREFIX: Final = "|".join(each.cgroup_prefix for each in RUNTIMES)
_NAME: Final = r"[0-9A-Za-z]+(?:[._-][0-9A-Za-z]+)*"
# CRI-O's cgroupfs driver writes no `.scope`.
_PREFIXED: Final = re.compile(rf"(?P<beside>{_BESIDE})?(?(beside)|(?:{_PREFIX}))(?P<id>{_NAME})")
# What the kubelet names for systemd, and a runtime's cgroupfs driver takes for a path.
_MIXED: Final = re.compile(rf"(?P<slice>.+\.slice):(?P<prefix>[a-z-]+):(?P<id>{_NAME})")
_ID: Final = re.compile(r"[0-9a-f]{64}")
# Within a pod's folder there is little but containers.
_ID_IN_POD: Final = re.compile(_NAME)
_POD: Final = re.compile(r"pod([0-9A-Za-z_-]+)")
_POD_SLICE: Final = re.compile(
    r"(?:.*-)?kubepods(?:-burstable|-besteffort)?-pod([0-9A-Za-z_]+)\.slice"
)
# What systemd runs may be a runtime, or hold a node; its other units hold no folder.
_RUN: Final = (".service", ".scope")
_IDLE: Final = (".mount", ".socket", ".swap", ".device", ".path", ".timer")
_UNITS: Final = (".slice", *_RUN, *_IDLE)
# Processes of Kata's beside a pod's containers.
_KATA: Final = "kata_"


@dataclass(slots=True, eq=False)
class Container:
    """One cgroup of a container; `since`: when its processes came; `watch`: its watch's number."""

    folder: Folder
    path: str
    id: str
    pod_uid: str
    processes: Processes = Processes.NONE
    since: float = 0.0
    watch: int = UNWATCHED


@dataclass(slots=True, eq=False)
class Beside(Container):
    """A cgroup of its monitor's. `processes`: those of the container's that are there, too.

    `usual`: how many are there while the container's are in its own; None if not yet known.
    """

    usual: int | None = None


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
    """`container_id`: "" for a folder that may hold some. `pod_uid`: "" outside pods.

    `beside`: it is not the container's own, but its monitor's. `may_hold`: it is looked into as
    soon as it holds anything: a runtime's service, or a container that is a node.
    """

    container_id: str
    pod_uid: str
    beside: bool = False
    may_hold: bool = False


class Driver(Enum):
    """Who names the cgroups of pods and containers, by the name of a container's."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"
    MIXED = "systemd in the kubelet, cgroupfs in the runtime"


def driver_of(name: str) -> Driver:
    """By the name of a container's folder."""
    if _MIXED.fullmatch(name):
        return Driver.MIXED
    return Driver.SYSTEMD if name.endswith(".scope") else Driver.CGROUPFS


def place_of(name: str, pod_uid: str) -> Place | None:
    """What the folder of that name is, below a folder of that pod; None if it is of no interest."""
    if match := _MIXED.fullmatch(name):
        beside = f"{match['prefix']}-" in _MONITORS
        return Place(match["id"], _uid_of(match["slice"]) or pod_uid, beside)
    bare = name.removesuffix(".scope")
    if not bare.endswith(_UNITS) and (match := _PREFIXED.fullmatch(bare)):
        return Place(match["id"], pod_uid, match["beside"] is not None, may_hold=not pod_uid)
    if pod_uid:
        is_container = _ID_IN_POD.fullmatch(name) and not name.endswith(_UNITS)
        return Place(name, pod_uid) if is_container and not name.startswith(_KATA) else None
    if _ID.fullmatch(name):
        return Place(name, "", may_hold=True)
    if uid := _uid_of(name):
        return Place("", uid)
    return None if name.endswith(_IDLE) else Place("", "", may_hold=name.endswith(_RUN))


def _uid_of(name: str) -> str:
    """Of the pod whose folder has that name; "" if it is no pod's."""
    if match := _POD.fullmatch(name):
        return match[1]
    # systemd takes a dash for a level: the kubelet writes an underscore.
    match = _POD_SLICE.fullmatch(name)
    return match[1].replace("_", "-") if match else ""
