"""Cgroups as ordinary files, named as cgroup v2 and the kubelet's cgroupfs driver do.

It shows whether each container has processes, and that no pod has had an OOM kill.
"""

from pathlib import Path
from typing import Final

_EVENTS: Final = "cgroup.events"
_MEMORY: Final = "memory.events"


class CgroupFiles:
    """Containers' cgroups below `root`, which is created."""

    def __init__(self, root: Path) -> None:
        self._pods = root / "kubepods" / "burstable"
        self._pods.mkdir(parents=True, exist_ok=True)
        (root / "cgroup.controllers").write_text("cpu memory pids\n", encoding="utf-8")

    def folder(self, pod_uid: str, container_id: str) -> Path:
        """That container's folder, which need not exist."""
        return self._pods / f"pod{pod_uid}" / container_id

    def run(self, pod_uid: str, container_id: str) -> None:
        """Its first process begins."""
        folder = self.folder(pod_uid, container_id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / _MEMORY).write_text("oom 0\noom_kill 0\n", encoding="utf-8")
        (folder / _EVENTS).write_text("populated 1\nfrozen 0\n", encoding="utf-8")

    def empty(self, pod_uid: str, container_id: str) -> None:
        """Its last process ends, and the runtime has not noticed."""
        events = self.folder(pod_uid, container_id) / _EVENTS
        events.write_text("populated 0\nfrozen 0\n", encoding="utf-8")

    def remove(self, pod_uid: str, container_id: str) -> None:
        """Remove the cgroup, and the pod's with the last one, if they exist."""
        folder = self.folder(pod_uid, container_id)
        if folder.exists():
            (folder / _EVENTS).unlink()
            folder.rmdir()
            if not any(each.is_dir() for each in folder.parent.iterdir()):
                (folder.parent / _MEMORY).unlink()
                folder.parent.rmdir()


class NoCgroups(CgroupFiles):
    """No cgroups are shown."""

    def __init__(self) -> None:
        pass

    def run(self, pod_uid: str, container_id: str) -> None:
        """Do nothing."""

    empty = remove = run
