"""The containers' cgroups: found, watched, and read by level.

`read` looks at all of them; `notified` at what a notification names. Neither relies on the other: a
notification that is lost, or a watch that the kernel does not give, costs time only. Facts go to
`notify` in the order in which they were seen. Blind spot: on v1 processes are not notified, so that
a life within one folder between two reads shows only if `recheck` meets it.
"""

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import islice
from typing import Final

from exporter.errors import KernelError
from exporter.kernel import inotify
from exporter.kernel.folders import UNSCANNED, UNWATCHED, Container, Folder, place_of
from exporter.kernel.inotify import Inotify, Notification
from exporter.kernel.populated import GONE, Populated, ReadV1, read_v2
from exporter.model.facts import CgroupChanged

_FOLDER: Final = inotify.APPEARED | inotify.VANISHED | inotify.ONLY_FOLDERS
# A folder with as many folders as before is still scanned in every eighth read: one that is of no
# interest may have made room for one that is.
_TURNS: Final = 8
# A new cgroup whose processes are not notified is read again for as long, in seconds.
_FRESH: Final = 3.0
# What one turn of the event loop may do: a few milliseconds.
_AT_ONCE: Final = 100
# Containers in one step of a read, some microseconds each.
_STEP: Final = 16


class Tree:
    """The containers below a cgroup root, which may be of either version, or not there yet.

    `notify` is called with each change. Notifications wait where `fileno` is readable; None if the
    kernel gives no inotify.
    """

    def __init__(self, root: str, notify: Callable[[CgroupChanged], None]) -> None:
        self._root = root
        self._notify = notify
        self._top: Folder | None = None
        self._identity = (0, 0)
        self._populated: Populated = read_v2
        self._notifies = True
        # The populated cgroups of each container.
        self._ids: dict[str, list[Container]] = {}
        self._watched: dict[int, Folder | Container] = {}
        self._fresh: dict[Container, float] = {}
        self._turn = 0
        try:
            self._inotify: Inotify | None = Inotify()
        except OSError:
            self._inotify = None

    @property
    def fileno(self) -> int | None:
        """What turns readable when `notified` has to be called."""
        return self._inotify.fileno if self._inotify else None

    @property
    def has_fresh(self) -> bool:
        """Whether `recheck` has something to do."""
        return bool(self._fresh)

    def shows(self, container_id: str) -> bool:
        """Whether that container has processes."""
        return container_id in self._ids

    def populated(self) -> Generator[CgroupChanged, None, None]:
        """Every container that has processes, as if it changed now."""
        for container_id, (first, *_) in self._ids.items():
            uid, now = first.folder.pod_uid, time.monotonic()
            yield CgroupChanged(container_id, uid, populated=True, at=now)

    def read(self) -> Generator[None, None, None]:
        """Look at everything, in steps; if it cannot be read, KernelError, and all is forgotten."""
        self._turn += 1
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
                        # One that was there is gone: another may be in its place.
                        known = set(each.folders)
                        yield from self._scan_if_changed(each)
                        waiting.extend(each.folders[name] for name in each.folders.keys() - known)
        except OSError as error:
            self.forget()
            raise KernelError(error, self._root) from None

    def notified(self) -> None:
        """Take some of the waiting notifications. What cannot be read is left to `read`."""
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
        """Look again at what is new and not notified; call it often while `has_fresh`."""
        now = time.monotonic()
        for container, until in tuple(islice(self._fresh.items(), _AT_ONCE)):
            del self._fresh[container]
            with suppress(OSError):
                self._look(container)
                if now < until and not container.populated and container.watch == UNWATCHED:
                    self._fresh[container] = until

    def forget(self) -> None:
        """Forget everything, and report nothing."""
        if self._inotify:
            for watch in self._watched:
                self._inotify.remove(watch)
        self._watched.clear()
        self._fresh.clear()
        self._ids.clear()
        self._top = None

    def close(self) -> None:
        """End all watches."""
        if self._inotify:
            self._inotify.close()
        self._inotify = None

    def _found(self) -> Folder:
        """The top of the hierarchy that is there now."""
        os.stat(self._root)
        second = os.path.exists(f"{self._root}/cgroup.controllers")
        path = self._root if second else f"{self._root}/pids"
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if self._top is not None:
            if (second, identity) != (self._notifies, self._identity):
                raise OSError(errno.ESTALE, "another tree is there now", path)
            return self._top
        self._notifies, self._identity = second, identity
        self._populated = read_v2 if second else ReadV1()
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
            due = hash(folder.path) % _TURNS == self._turn % _TURNS
            if due or links - 2 != folder.entries:
                yield from self._scan(folder)
        except OSError as error:
            if folder.parent is None or error.errno not in GONE:
                raise
            self._drop_folder(folder)

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
        # What was made before the watch was there; `read` takes what is left of a large tree.
        for _ in range(_AT_ONCE):
            if not waiting:
                return
            each = waiting.pop()
            deque(self._scan_if_changed(each), maxlen=0)
            waiting.extend(each.folders.values())

    def _appeared(self, folder: Folder, name: str) -> None:
        if name in folder.folders or name in folder.containers:
            return
        if (place := place_of(name, folder.pod_uid)) is None:
            return
        if not place.container_id:
            path = f"{folder.path}/{name}"
            folder.folders[name] = Folder(folder, name, path, place.pod_uid)
            return
        container = Container(folder, f"{folder.path}/{name}", place.container_id)
        folder.containers[name] = container
        self._look(container)
        if not container.populated and container.watch == UNWATCHED:
            self._fresh[container] = time.monotonic() + _FRESH

    def _look(self, container: Container, wall_ns: int = 0) -> None:
        # First the watch: what happens before the file is read is seen twice, and not never.
        if self._notifies and container.watch == UNWATCHED:
            container.watch = self._watch(
                f"{container.path}/cgroup.events", inotify.MODIFY, container
            )
        try:
            populated = self._populated(container.path)
        except OSError as error:
            if error.errno not in GONE:
                raise
            container.folder.entries = UNSCANNED
            populated = False
        if populated is not None:
            self._set(container, populated, wall_ns)

    def _set(self, container: Container, populated: bool, wall_ns: int = 0) -> None:  # noqa: FBT001
        """Report the change, if the same id has no other cgroup that says otherwise."""
        if populated == container.populated:
            return
        container.populated = populated
        same = self._ids.setdefault(container.id, [])
        (same.append if populated else same.remove)(container)
        if not same:
            del self._ids[container.id]
        # The first one came, or the last one went.
        if len(same) == populated:
            now = time.monotonic()
            uid = container.folder.pod_uid
            self._notify(CgroupChanged(container.id, uid, populated, now, wall_ns))

    def _vanished(self, folder: Folder, name: str) -> None:
        if container := folder.containers.pop(name, None):
            self._fresh.pop(container, None)
            self._unwatch(container.watch)
            self._set(container, populated=False)
        elif below := folder.folders.get(name):
            self._drop_folder(below)

    def _drop_folder(self, folder: Folder) -> None:
        for name in (*folder.containers, *folder.folders):
            self._vanished(folder, name)
        self._unwatch(folder.watch)
        if folder.parent:
            folder.parent.folders.pop(folder.name, None)
            folder.parent.entries = UNSCANNED

    def _watch(self, path: str, mask: int, subject: Folder | Container) -> int:
        """The number of the watch, or none: there are too few, or it is gone."""
        if self._inotify:
            with suppress(OSError):
                watch = self._inotify.add(path, mask)
                self._watched[watch] = subject
                return watch
        return UNWATCHED

    def _unwatch(self, watch: int) -> None:
        if self._inotify and self._watched.pop(watch, None):
            self._inotify.remove(watch)
