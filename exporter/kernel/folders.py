"""What a cgroup's folder is, by its name alone; what is known about it; and who has processes.

Sources: kubelet's `pkg/kubelet/cm`, containerd's and CRI-O's CRI servers, cri-dockerd; the layouts
are in docs/cgroups.md. Blind spots: a container of another client of the runtime looks like a
container without a pod, and nothing is searched inside the container of a pod.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Final, NamedTuple

from exporter.kernel.populated import Processes
from exporter.model.facts import CgroupChanged
from exporter.pleg.kernel import LASTING, MOVING
from exporter.runtimes.known import RUNTIMES

UNWATCHED: Final = -1
UNSCANNED: Final = -2
_MONITORS: Final = tuple(each.cgroup_beside for each in RUNTIMES if each.cgroup_beside)
_BESIDE: Final = "|".join(_MONITORS)
_PREFIX: Final = "|".join(each.cgroup_prefix for each in RUNTIMES)
_NAME: Final = r"[0-9A-Za-z]+(?:[._-][0-9A-Za-z]+)*"
# CRI-O's cgroupfs driver writes no `.scope`.
_PREFIXED: Final = re.compile(rf"(?P<beside>{_BESIDE})?(?(beside)|(?:{_PREFIX}))(?P<id>{_NAME})")
# A name that the kubelet makes for systemd, and a runtime's cgroupfs driver takes for a path.
_MIXED: Final = re.compile(rf"(?P<slice>.+\.slice):(?P<prefix>[a-z-]+):(?P<id>{_NAME})")
_ID: Final = re.compile(r"[0-9a-f]{64}")
# Inside a pod's folder nearly every folder is a container.
_ID_IN_POD: Final = re.compile(_NAME)
_POD: Final = re.compile(r"pod([0-9A-Za-z_-]+)")
_POD_SLICE: Final = re.compile(
    r"(?:.*-)?kubepods(?:-burstable|-besteffort)?-pod([0-9A-Za-z_]+)\.slice"
)
# A unit that systemd runs may be a runtime, or hold a node; its other units have no folders.
_RUN: Final = (".service", ".scope")
_IDLE: Final = (".mount", ".socket", ".swap", ".device", ".path", ".timer")
_UNITS: Final = (".slice", *_RUN, *_IDLE)
# Prefix of Kata's own folders beside a pod's containers.
_KATA: Final = "kata_"
_MOST_LEFT: Final = 16384


@dataclass(slots=True, eq=False)
class Container:
    """One cgroup of a container. `since`: when its processes last came or went. `watch`: number."""

    folder: Folder
    path: str
    id: str
    pod_uid: str
    processes: Processes = Processes.NONE
    since: float = 0.0
    watch: int = UNWATCHED


@dataclass(slots=True, eq=False)
class Beside(Container):
    """The cgroup of a container's monitor. `processes`: the container's own that are in it, too.

    `usual`: number of processes in it while the container's are in their own cgroup; None: unknown.
    """

    usual: int | None = None


@dataclass(slots=True, eq=False)
class Folder:
    """A folder that may hold containers. `pod_uid`: the pod whose containers it holds, or "".

    `entries`: number of folders in it at the last scan; `UNSCANNED`: it must be scanned.
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


@dataclass(slots=True)
class Shown:
    """The cgroups with processes, by the container's id: a moved one has two for a moment.

    Changes go to `notify`. Blind spot: a process that moves to a cgroup not named after its
    container seems to end, until `Unseen` has looked where it may have gone.
    `left`: for containers that lost their processes, the earliest possible time of that. `looked`:
    when the read before this one began.
    """

    notify: Callable[[CgroupChanged], None]
    left: dict[str, float] = field(default_factory=dict)
    looked: float = -math.inf
    _ids: dict[str, list[Container]] = field(default_factory=dict)

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._ids

    def __iter__(self) -> Iterator[Container]:
        return chain.from_iterable(self._ids.values())

    def lasts(self, container_id: str) -> bool:
        """Whether the container has had processes for `LASTING` seconds, in a cgroup of its own."""
        over = time.monotonic() - LASTING
        return any(each.since < over for each in self._own(container_id))

    def has_own(self, container_id: str) -> bool:
        """Whether the container has processes in a cgroup of its own."""
        return any(True for _ in self._own(container_id))

    def all(self) -> Generator[CgroupChanged, None, None]:
        """Every container that has processes, as a change of now."""
        for container_id, (first, *_) in self._ids.items():
            now = time.monotonic()
            yield CgroupChanged(container_id, first.pod_uid, populated=True, at=now)

    def set(self, container: Container, seen: Processes, wall_ns: int = 0) -> None:
        """Set a cgroup's processes; report a change unless the id has another populated cgroup."""
        populated = seen is not Processes.NONE
        changed = populated is not (container.processes is not Processes.NONE)
        container.processes = seen
        if not changed:
            return
        now, since = time.monotonic(), container.since
        container.since = now
        same = self._ids.setdefault(container.id, [])
        if populated:
            same.append(container)
            self.left.pop(container.id, None)
            is_news = len(same) == 1
        else:
            same.remove(container)
            is_news = not same
        if not same:
            del self._ids[container.id]
            if len(self.left) >= _MOST_LEFT:
                self.left.clear()
            # Of a process that moves, the arrival may be notified before the departure.
            self.left[container.id] = now - MOVING if wall_ns else max(since, self.looked)
        if is_news:
            self.notify(CgroupChanged(container.id, container.pod_uid, populated, now, wall_ns))

    def clear(self) -> None:
        """Forget all cgroups, and report nothing."""
        self._ids.clear()
        self.left.clear()

    def _own(self, container_id: str) -> Iterator[Container]:
        cgroups = self._ids.get(container_id, ())
        return (each for each in cgroups if not isinstance(each, Beside))


class Place(NamedTuple):
    """`container_id`: "" for a folder that may hold containers. `pod_uid`: "" outside pods.

    `beside`: this is the cgroup of the container's monitor. `may_hold`: scan it as soon as it has
    folders: it is the service of a runtime, or a container that is a node.
    """

    container_id: str
    pod_uid: str
    beside: bool = False
    may_hold: bool = False


class Driver(Enum):
    """The cgroup driver: who names the cgroups of pods and containers."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"
    MIXED = "systemd in the kubelet, cgroupfs in the runtime"


def is_of_login(path: str) -> bool:
    """Whether a user who logged in to the machine may have created the folder."""
    return "/user.slice/" in path


def may_be_closed(path: str) -> bool:
    """Whether a user other than root may own the folder, and so may make it unreadable."""
    return is_of_login(path) or ".service/" in path


def driver_of(name: str) -> Driver:
    """The driver that gave a container's folder this name."""
    if _MIXED.fullmatch(name):
        return Driver.MIXED
    return Driver.SYSTEMD if name.endswith(".scope") else Driver.CGROUPFS


def place_of(name: str, pod_uid: str) -> Place | None:
    """What a folder with this name is, below a folder of that pod; None if of no interest."""
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
    """The uid of the pod whose folder has this name; "" if it is not a pod's."""
    if match := _POD.fullmatch(name):
        return match[1]
    # In systemd's names a dash separates levels, so the kubelet writes underscores into the uid.
    match = _POD_SLICE.fullmatch(name)
    return match[1].replace("_", "-") if match else ""
