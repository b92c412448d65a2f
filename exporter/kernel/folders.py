"""What is known of each cgroup: those of containers, and the folders that may hold some."""

from __future__ import annotations

from typing import Final

UNWATCHED: Final = -1
UNSCANNED: Final = -2


class Container:
    """One cgroup of a container; `watch`: the number of its watch."""

    __slots__ = ("folder", "id", "path", "populated", "watch")

    def __init__(self, folder: Folder, name: str, container_id: str) -> None:
        self.folder = folder
        self.path = f"{folder.path}/{name}"
        self.id = container_id
        self.populated = False
        self.watch = UNWATCHED


class Folder:
    """`pod_uid`: of the pod whose containers it holds, or "".

    `entries`: how many folders were in it when it was scanned; `UNSCANNED`: it has to be.
    """

    __slots__ = ("containers", "entries", "folders", "name", "parent", "path", "pod_uid", "watch")

    def __init__(self, parent: Folder | None, name: str, path: str, pod_uid: str) -> None:
        self.parent = parent
        self.name = name
        self.path = path
        self.pod_uid = pod_uid
        self.entries = UNSCANNED
        self.watch = UNWATCHED
        self.folders: dict[str, Folder] = {}
        self.containers: dict[str, Container] = {}

    @property
    def is_dropped(self) -> bool:
        """Whether its parent does not have it any more."""
        return self.parent is not None and self.parent.folders.get(self.name) is not self
