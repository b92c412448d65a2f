"""OOM kills, as the kernel counts them: read when a container ends, and beside each relist.

On v2 a pod's `memory.events` counts the kills of its containers, and keeps them when these are
gone. On v1 only `memory.oom_control` of the container's own cgroup does, and goes with it.
`/proc/vmstat` has the node's count: while it stands still, no relist reads anything else.
The files are not watched: a container at its limit would notify a hundred times a second.

The first read is the baseline; a cgroup that comes later begins with 0. Sources: the kernel's
admin-guide, `cgroup-v2` and `cgroup-v1/memory`, and `mm/oom_kill.c`.
"""

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from exporter.kernel.folders import Beside, Container, Folder
from exporter.kernel.populated import GONE
from exporter.kernel.tree import Tree
from exporter.model.facts import Killed, KillsCounted
from exporter.model.labels import Limit, OomWitness

VMSTAT: Final = "/proc/vmstat"
# Kills that one read of one cgroup reports at most: each gets a verdict of its own.
MOST: Final = 1000
# Cgroups in one step of a read.
_STEP: Final = 16


class _Counts(NamedTuple):
    """Counts of a cgroup with all below. `groups`: kills of whole groups. `ooms`: limits hit."""

    kills: int = 0
    groups: int = 0
    ooms: int = 0


_NONE: Final = _Counts()


class Kills:
    """The kills below a tree since `begin` read the baseline. `note`: why nothing is counted.

    `notify` is called with each fact.
    """

    def __init__(
        self,
        tree: Tree,
        root: str,
        notify: Callable[[Killed | KillsCounted], None],
        vmstat: str = VMSTAT,
    ) -> None:
        self._tree, self._root, self._notify, self._vmstat = tree, root, notify, vmstat
        # Counts by path, those other than 0; and how often each pod has hit its own limit.
        self._seen: dict[str, _Counts] = {}
        self._own_ooms: dict[str, int] = {}
        self._first = self._node = -1
        self.note = "not read yet"

    @property
    def witness(self) -> OomWitness:
        """Which counts can be read."""
        if self._node < 0:
            return OomWitness.UNAVAILABLE
        return OomWitness.COUNTING if self._by_pod else OomWitness.PARTLY

    def begin(self) -> None:
        """Read all counts as the baseline."""
        self._seen, self._own_ooms = {}, {}
        with self._losing():
            node = self._of_node()
            cgroups = self._cgroups()
            if not (any([*map(self._begin_at, cgroups)]) if cgroups else self._may_count()):
                missing = "memory.events" if self._by_pod else "memory hierarchy with oom_kill"
                raise OSError(0, f"no {missing} for the listed containers", self._root)
            self._first = self._node = node
            self.note = ""
            self._notify(KillsCounted(time.monotonic(), 0))

    def read(self) -> Generator[None, None, None]:
        """Look for new kills, in steps."""
        if self._node < 0:
            self.begin()
            return
        with self._losing():
            # First the node's count: kills from now on belong to the next read.
            node = self._of_node()
            if node == self._node:
                return
            paths = set()
            for number, each in enumerate(self._pods(), 1):
                self._look(each)
                paths.add(each.path)
                if not number % _STEP:
                    yield
            for path in self._seen.keys() - paths:
                if not os.path.exists(path):
                    self._seen.pop(path, None)
                    self._own_ooms.pop(path, None)
            self._node = node
            self._notify(KillsCounted(time.monotonic(), node - self._first))

    def ended(self, container: Container) -> None:
        """Read the counts of a container whose last process ended: its cgroup may go any moment."""
        if self._node < 0:
            return
        with self._losing():
            in_pod = self._by_pod and container.pod_uid and container.folder.pod_uid
            self._look(container.folder if in_pod else container, container)

    def among(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Those of these containers whose own cgroups have counted a kill, whenever that was."""
        wanted = set(ids)
        found = {each.id for each in self._tree.of(wanted) if self._has_any(each)} if wanted else ()
        return tuple(sorted(found))

    def _has_any(self, container: Container) -> bool:
        with suppress(OSError):
            return (self._counts(container.path) or _NONE).kills > 0
        return False

    def forget(self) -> None:
        """Drop all counts: from now on there may be another tree."""
        self._lose("not read yet")

    @property
    def _by_pod(self) -> bool:
        return self._tree.version == 2  # noqa: PLR2004 - a name

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Drop the counts if a file cannot be read, until `begin`."""
        try:
            yield
        except OSError as error:
            self._lose(f"{error.filename}: {error.strerror}")

    def _lose(self, why: str) -> None:
        self.note = why
        if self._node >= 0:
            self._node = -1
            self._notify(KillsCounted(time.monotonic(), None))

    def _cgroups(self) -> set[Folder | Container]:
        """The cgroups of all containers with processes, and of their pods."""
        own = {each for each in self._tree.shown if not isinstance(each, Beside)}
        return own.union(self._pods())

    def _pods(self) -> Iterable[Folder | Container]:
        """The cgroups whose counts have all kills: pods'; outside of pods, the containers' own."""
        own = (each for each in self._tree.shown if not isinstance(each, Beside))
        return {each.folder if self._by_pod and each.folder.pod_uid else each for each in own}

    def _may_count(self) -> bool:
        """Whether a container that comes later will have counts."""
        if not self._by_pod:
            return os.path.isdir(f"{self._root}/memory")
        with open(f"{self._root}/cgroup.controllers", "rb") as controllers:
            return b"memory" in controllers.read().split()

    def _begin_at(self, cgroup: Folder | Container) -> bool:
        counts = self._counts(cgroup.path)
        if counts is None:
            return False
        if counts != _NONE:
            self._seen[cgroup.path] = counts
        if counts.ooms and isinstance(cgroup, Folder):
            self._own_ooms[cgroup.path] = self._local(cgroup.path)
        return True

    def _look(self, cgroup: Folder | Container, ended: Container | None = None) -> None:
        """Pass on new kills in a pod, or in a container by itself."""
        rise = self._rise(cgroup.path)
        if rise is None:
            return
        if isinstance(cgroup, Container):
            self._seen[cgroup.path] = _sum(self._before(cgroup.path), rise)
            limit = Limit.UNKNOWN
            if self._by_pod:
                limit = Limit.CONTAINER if rise.ooms else Limit.ABOVE
            self._pass_on(cgroup.id, cgroup.pod_uid, rise, limit)
            return
        before, found = self._before(cgroup.path), _NONE
        local = self._local(cgroup.path)
        of_pod = local - self._own_ooms.get(cgroup.path, 0)
        self._own_ooms[cgroup.path] = local
        within = {each for each in cgroup.containers.values() if not isinstance(each, Beside)}
        for each in within | ({ended} if ended else set()):
            if own := self._rise(each.path):
                self._seen[each.path] = _sum(self._before(each.path), own)
                limit = Limit.CONTAINER if own.ooms else Limit.POD if of_pod else Limit.ABOVE
                self._pass_on(each.id, cgroup.pod_uid, own, limit)
                found = _sum(found, own)
        # The kernel counts the container before its pod: the container may have one more by now.
        total = _Counts(*map(max, rise, found))
        self._seen[cgroup.path] = _sum(before, total)
        left = _Counts(*(of - by for of, by in zip(total, found, strict=True)))
        if left.kills:
            below = rise.ooms > found.ooms
            limit = Limit.POD if of_pod else Limit.CONTAINER if below else Limit.ABOVE
            self._pass_on("", cgroup.pod_uid, left, limit)

    def _before(self, path: str) -> _Counts:
        return self._seen.get(path, _NONE)

    def _rise(self, path: str) -> _Counts | None:
        """How far the counts rose since they were last passed on; None if no process was killed."""
        now = self._counts(path)
        before = self._before(path)
        if now is None or now.kills == before.kills:
            return None
        if now.kills < before.kills:
            # Another cgroup has the same path now.
            self._seen.pop(path)
            self._own_ooms.pop(path, None)
            before = _NONE
        rise = _Counts(*(of - by for of, by in zip(now, before, strict=True)))
        return rise if rise.kills else None

    def _pass_on(self, container_id: str, pod_uid: str, rise: _Counts, limit: Limit) -> None:
        number = min(rise.groups or rise.kills, MOST)
        at = time.monotonic()
        self._notify(Killed(at, container_id, pod_uid, number, rise.kills, limit))

    def _counts(self, path: str) -> _Counts | None:
        """The counts of that cgroup; None if it is gone, or does not count."""
        if self._by_pod:
            file = f"{path}/memory.events"
        else:
            below = path.removeprefix(f"{self._root}/pids")
            file = f"{self._root}/memory{below}/memory.oom_control"
        found = _parsed(file)
        if (kills := found.get(b"oom_kill")) is None:
            return None
        return _Counts(kills, found.get(b"oom_group_kill", 0), found.get(b"oom", 0))

    def _local(self, path: str) -> int:
        """How often a pod's own limit was hit; 0 if the kernel does not say whose limit it was."""
        return _parsed(f"{path}/memory.events.local").get(b"oom", 0)

    def _of_node(self) -> int:
        found = _parsed(self._vmstat)
        if b"oom_kill" not in found:
            raise OSError(0, "it has no oom_kill", self._vmstat)
        return found[b"oom_kill"]


def _sum(one: _Counts, other: _Counts) -> _Counts:
    return _Counts(*(a + b for a, b in zip(one, other, strict=True)))


def _parsed(path: str) -> dict[bytes, int]:
    """The numbers of a file, by name; empty if the file is gone. Other lines are ignored."""
    try:
        # Non-blocking: a pipe in place of the file must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb", buffering=0) as file:
            data = file.read(65536)
    except OSError as error:
        if error.errno in GONE:
            return {}
        raise
    words = (line.split() for line in data.splitlines())
    return {each[0]: int(each[1]) for each in words if len(each) == 2 and each[1].isdigit()}  # noqa: PLR2004
