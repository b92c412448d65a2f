"""The containers' cgroups: found, watched, and read by level.

`read` looks at all cgroups, `notified` at those that a notification names. Neither relies on the
other: a lost notification, or a watch that the kernel refuses, costs only time. Facts go to
`notify` in the order in which they were seen. Blind spot: v1 does not notify of processes, so if
they come and go in one folder between two reads, only a `recheck` in time shows them.
"""

import errno
import math
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from exporter.errors import KernelError
from exporter.kernel import inotify
from exporter.kernel.folders import (
    UNSCANNED,
    UNWATCHED,
    Beside,
    Container,
    Folder,
    Place,
    Shown,
    is_of_login,
    may_be_closed,
    place_of,
)
from exporter.kernel.inotify import Inotify, Notification
from exporter.kernel.populated import GONE, Processes, ReadV1, ReadV2
from exporter.model.facts import CgroupChanged

_FOLDER: Final = inotify.APPEARED | inotify.VANISHED | inotify.ONLY_FOLDERS
# A folder with as many folders as before is still scanned in every eighth read: a container may
# have replaced a folder of no interest.
_TURNS: Final = 8
# Seconds for which a new cgroup is read again if its processes are not notified.
_FRESH: Final = 3.0
# Cgroups that one turn of the event loop may read: a few milliseconds.
_AT_ONCE: Final = 100
# Containers in one step of a read, some microseconds each.
_STEP: Final = 16
# The limit behind each error; all processes of one uid on the node share it.
_LIMITS: Final = {
    errno.EMFILE: "fs.inotify.max_user_instances",
    errno.ENOSPC: "fs.inotify.max_user_watches",
    errno.EDQUOT: "fs.inotify.max_user_watches",
}
_HALF: Final = OSError(errno.EDQUOT, "half of this user's watches is left to others")
# Seconds without a watch after the kernel gave none: another process of this uid may need them.
_WITHOUT: Final = 60.0
# Folders and containers read below logins: a user could create any number of them.
_MOST_OF_LOGINS: Final = 1024
# Links of a folder without folders, where the file system counts them.
_LEAF: Final = 2


class Tree:
    """The containers below a cgroup root, which may be of either version, or not there yet.

    `notify` is called with each change. `fileno`: readable while notifications wait; None if the
    kernel gives no inotify, for which each `read` asks again. `polling`: why some changes were not
    notified, by the last read; "" if all were. `version`: of the cgroups. `ended` is called with
    each cgroup whose last process has ended, before `notify`.
    """

    def __init__(self, root: str, notify: Callable[[CgroupChanged], None]) -> None:
        self._root = root
        self.shown = Shown(notify)
        self._top: Folder | None = None
        self._identity = (0, 0)
        self.version = 2
        self.ended: Callable[[Container], None] = lambda _: None
        self._files: ReadV1 | ReadV2 = ReadV2()
        self._watched: dict[int, Folder | Container] = {}
        self._fresh: dict[Container, float] = {}
        self._beside: set[Beside] = set()
        self._scans = 0
        self._began = -math.inf
        self._of_logins = 0
        self.polling = ""
        self._most = 0
        self._without_until = -math.inf
        self._inotify: Inotify | None = None
        self._ask_for_inotify()

    @property
    def fileno(self) -> int | None:
        """The descriptor that turns readable when `notified` must be called."""
        return self._inotify.fileno if self._inotify else None

    @property
    def has_fresh(self) -> bool:
        """Whether `recheck` has something to do."""
        return bool(self._fresh)

    def is_doubtful(self, container_id: str) -> bool:
        """Whether a monitor's cgroup may hold processes of the container, too."""
        guesses = (each for each in self._beside if each.id == container_id and each.usual is None)
        return any(map(self._number, guesses))

    def with_strangers(self, uids: Collection[str]) -> set[str]:
        """Those of these pods that have processes outside of their containers' cgroups."""
        return {
            each.pod_uid
            for each in self._folders()
            if each.pod_uid in uids and self._has_strangers(each)
        }

    def of(self, ids: Collection[str]) -> Iterator[Container]:
        """The own cgroups of these containers, with processes or not."""
        for folder in self._folders():
            for each in folder.containers.values():
                if each.id in ids and not isinstance(each, Beside):
                    yield each

    def _folders(self) -> Iterator[Folder]:
        waiting = [self._top] if self._top else []
        while waiting:
            yield (folder := waiting.pop())
            waiting.extend(folder.folders.values())

    def _has_strangers(self, folder: Folder) -> bool:
        try:
            with os.scandir(folder.path) as entries:
                names = {each.name for each in entries if each.is_dir(follow_symlinks=False)}
            others = (f"{folder.path}/{each}" for each in names - folder.containers.keys())
            return any(map(self._is_populated, others)) or self._files.has_direct(folder.path)
        except OSError as error:
            # A folder that is there and cannot be read may have processes.
            return error.errno not in GONE

    def _is_populated(self, path: str) -> bool:
        try:
            return self._files.look(path, Processes.RUNNING) is not Processes.NONE
        except OSError as error:
            return error.errno not in GONE

    def read(self) -> Generator[None, None, None]:
        """Read all cgroups, in steps; KernelError, after all is forgotten, if that fails."""
        self._scans += 1
        self.shown.looked, self._began = self._began, time.monotonic()
        if self._began > self._without_until:
            self.polling = ""
        self._most = inotify.limit() // 2
        self._ask_for_inotify()
        try:
            waiting = [self._found()]
            while waiting:
                folder = waiting.pop()
                yield from self._scan_if_changed(folder)
                yield
                for number, (name, container) in enumerate(tuple(folder.containers.items()), 1):
                    # Notifications come in between.
                    if folder.containers.get(name) is container:
                        self._look(container)
                    if not number % _STEP:
                        yield
                waiting.extend(folder.folders.values())
                for each in (folder, folder.parent):
                    if each and each.entries == UNSCANNED:
                        # A folder that was there is gone: another may be in its place.
                        known = set(each.folders)
                        yield from self._scan_if_changed(each)
                        waiting.extend(each.folders[name] for name in each.folders.keys() - known)
            # Only after the containers' own cgroups, on which the answer depends.
            for beside in tuple(self._beside):
                self._look_beside(beside)
        except OSError as error:
            self.forget()
            raise KernelError(error, self._root) from None

    def notified(self) -> None:
        """Take some of the waiting notifications. `read` makes up for what cannot be read now."""
        if self._inotify is None:
            return
        # An overflow names no watch: `read` makes up for it.
        for each in self._inotify.read():
            subject = self._watched.get(each.watch)
            if subject and each.mask & inotify.IGNORED:
                del self._watched[each.watch]
                subject.watch = UNWATCHED
            with suppress(OSError):
                if isinstance(subject, Container):
                    self._look(subject, time.time_ns())
                elif subject and each.mask & inotify.IS_FOLDER and each.name:
                    self._changed(subject, each)

    def recheck(self) -> None:
        """Read new cgroups without notifications again; call it often while `has_fresh`."""
        now = time.monotonic()
        for container, until in tuple(islice(self._fresh.items(), _AT_ONCE)):
            del self._fresh[container]
            with suppress(OSError):
                self._look(container)
                if (
                    now < until
                    and container.processes is Processes.NONE
                    and container.watch == UNWATCHED
                ):
                    self._fresh[container] = until

    def forget(self) -> None:
        """Forget everything, and report nothing."""
        self._unwatch_all()
        self._fresh.clear()
        self._beside.clear()
        self._of_logins = 0
        self.shown.clear()
        self._top = None

    def close(self) -> None:
        """End all watches."""
        if self._inotify:
            self._inotify.close()
        self._inotify = None

    def _ask_for_inotify(self) -> None:
        if self._inotify is None:
            try:
                self._inotify = Inotify()
            except OSError as error:
                self._polls(error)

    def _polls(self, error: OSError) -> None:
        limit = _LIMITS.get(error.errno or 0, "")
        self.polling = f"inotify: {error.strerror}{limit and f': raise {limit}'}"

    def _found(self) -> Folder:
        """The top of the hierarchy that is there now."""
        os.stat(self._root)
        version = 2 if os.path.exists(f"{self._root}/cgroup.controllers") else 1
        path = self._root if version == 2 else f"{self._root}/pids"  # noqa: PLR2004 - a name
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if self._top is not None:
            if (version, identity) != (self.version, self._identity):
                raise OSError(errno.ESTALE, "another tree is there now", path)
            return self._top
        self.version, self._identity = version, identity
        self._files = ReadV1(self._root) if version == 1 else ReadV2()
        self._top = Folder(None, "", path, "")
        return self._top

    def _scan_if_changed(self, folder: Folder) -> Generator[None, None, None]:
        if folder.is_dropped:
            return
        if folder.watch == UNWATCHED:
            folder.watch = self._watch(folder.path, _FOLDER, folder)
        try:
            # On kernfs, and most file systems, a folder has a link from each of its folders.
            links = os.stat(folder.path).st_nlink
            due = hash(folder.path) % _TURNS == self._scans % _TURNS
            if due or links - 2 != folder.entries:
                yield from self._scan(folder)
        except OSError as error:
            if folder.parent and error.errno in GONE:
                self._drop_folder(folder)
            elif not may_be_closed(folder.path):
                raise

    def _scan(self, folder: Folder) -> Generator[None, None, None]:
        with os.scandir(folder.path) as entries:
            names = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        folder.entries = len(names)
        for known in (folder.folders, folder.containers):
            for name in known.keys() - names:
                self._vanished(folder, name)
        for number, name in enumerate(names, 1):
            self._appeared(folder, name)
            if not number % _STEP:
                yield
                # Notifications come in between.
                if folder.is_dropped:
                    return

    def _changed(self, folder: Folder, change: Notification) -> None:
        folder.entries = UNSCANNED
        if change.mask & inotify.VANISHED:
            self._vanished(folder, change.name)
            return
        self._appeared(folder, change.name)
        new = folder.folders.get(change.name)
        waiting = [new] if new else []
        # Folders created before the watch was there; `read` takes the rest of a large tree.
        for _ in range(_AT_ONCE):
            if not waiting:
                return
            each = waiting.pop()
            deque(self._scan_if_changed(each), maxlen=0)
            waiting.extend(each.folders.values())

    def _appeared(self, folder: Folder, name: str) -> None:
        known = folder.containers.get(name)
        if name in folder.folders or (known and folder.pod_uid):
            return
        if (place := place_of(name, folder.pod_uid)) is None:
            return
        path = f"{folder.path}/{name}"
        if self._of_logins >= _MOST_OF_LOGINS and is_of_login(path):
            return
        if place.container_id and known is None:
            self._found_container(folder, name, path, place)
        if place.may_hold and os.stat(path).st_nlink == _LEAF:
            return
        if place.may_hold or not place.container_id:
            folder.folders[name] = Folder(folder, name, path, place.pod_uid)
            self._of_logins += is_of_login(path)

    def _found_container(self, folder: Folder, name: str, path: str, place: Place) -> None:
        what = (folder, path, place.container_id, place.pod_uid)
        self._of_logins += is_of_login(path)
        if place.beside:
            # A cgroup that comes after the container's processes was made for them, too.
            beside = Beside(*what, usual=0 if place.container_id in self.shown else None)
            folder.containers[name] = beside
            self._beside.add(beside)
            return
        container = folder.containers[name] = Container(*what)
        self._look(container)
        if container.processes is Processes.NONE and container.watch == UNWATCHED:
            self._fresh[container] = time.monotonic() + _FRESH

    def _look(self, container: Container, wall_ns: int = 0) -> None:
        if isinstance(container, Beside):
            return
        # First the watch: a change before the file is read is then seen twice, rather than never.
        if self.version == 2 and container.watch == UNWATCHED:  # noqa: PLR2004 - a name
            container.watch = self._watch(
                f"{container.path}/cgroup.events", inotify.MODIFY, container
            )
        try:
            # Asking every cgroup whether it is frozen would double the cost of a read on v1.
            due = self.version == 1 and hash(container.path) % _TURNS == self._scans % _TURNS
            seen = self._files.look(container.path, None if due else container.processes)
        except OSError as error:
            if error.errno not in GONE:
                if may_be_closed(container.path):
                    return
                raise
            container.folder.entries = UNSCANNED
            seen = Processes.NONE
        if seen is not None and seen is not container.processes:
            self._set(container, seen, wall_ns)

    def _set(self, container: Container, seen: Processes, wall_ns: int = 0) -> None:
        if seen is Processes.NONE:
            if container.processes is not seen and not isinstance(container, Beside):
                self.ended(container)
            # The processes may have moved: then they have not ended.
            for each in self._beside:
                if each.id == container.id and each is not container:
                    self._look_beside(each, left=True)
        self.shown.set(container, seen, wall_ns)

    def _look_beside(self, beside: Beside, *, left: bool = False) -> None:
        """Check for more processes than usual; `left`: the container's own cgroup has none now."""
        number = self._number(beside)
        if not left and self.shown.has_own(beside.id):
            beside.usual = number
        usual = self._files.monitor if beside.usual is None else beside.usual
        self.shown.set(beside, Processes.RUNNING if number > usual else Processes.NONE)

    def _number(self, beside: Beside) -> int:
        """How many processes, or threads, are in that cgroup."""
        try:
            return self._files.number(beside.path)
        except OSError as error:
            if error.errno not in GONE:
                raise
            beside.folder.entries = UNSCANNED
            return 0

    def _vanished(self, folder: Folder, name: str) -> None:
        if container := folder.containers.pop(name, None):
            self._of_logins -= is_of_login(container.path)
            self._fresh.pop(container, None)
            if isinstance(container, Beside):
                self._beside.discard(container)
            self._unwatch(container.watch)
            self._set(container, Processes.NONE)
        if below := folder.folders.get(name):
            self._drop_folder(below)

    def _drop_folder(self, folder: Folder) -> None:
        for name in (*folder.containers, *folder.folders):
            self._vanished(folder, name)
        self._unwatch(folder.watch)
        if folder.parent:
            if folder.parent.folders.pop(folder.name, None):
                self._of_logins -= is_of_login(folder.path)
            folder.parent.entries = UNSCANNED

    def _watch(self, path: str, mask: int, subject: Folder | Container) -> int:
        """The number of a new watch; UNWATCHED if the kernel gives none, or the path is gone."""
        if self._inotify is None or time.monotonic() <= self._without_until:
            return UNWATCHED
        if len(self._watched) >= self._most:
            self._polls(_HALF)
            return UNWATCHED
        try:
            watch = self._inotify.add(path, mask)
        except OSError as error:
            if error.errno not in GONE:
                self._polls(error)
            if error.errno == errno.ENOSPC:
                self._unwatch_all()
                self._without_until = time.monotonic() + _WITHOUT
            return UNWATCHED
        self._watched[watch] = subject
        return watch

    def _unwatch_all(self) -> None:
        while self._watched and self._inotify:
            watch, subject = self._watched.popitem()
            subject.watch = UNWATCHED
            self._inotify.remove(watch)

    def _unwatch(self, watch: int) -> None:
        if self._inotify and self._watched.pop(watch, None):
            self._inotify.remove(watch)
