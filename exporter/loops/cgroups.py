"""The kernel's side: passes on what the containers' cgroups show, by notification and by relist.

Facts are passed on while this may be the tree of the listed containers: nothing is listed as
running yet, or one that is has had processes here since the tree was found. Everything is done in
this thread: a cgroup's files are answered from memory.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Final

import structlog

from exporter.errors import KernelError
from exporter.kernel.tree import Tree
from exporter.loops.intake import Shared
from exporter.model.events import Listed, ListedState
from exporter.model.facts import CgroupChanged, CgroupsLost, CgroupsRead, KernelFact
from exporter.model.labels import KernelWitness
from exporter.timing.turns import taking_turns

_log = structlog.get_logger()

# How often a new cgroup is read whose processes are not notified.
_RECHECK_SECONDS: Final = 0.05


class Cgroups:
    """Reads the cgroups below `--cgroup-root`; close it at the end."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._tree = Tree(str(shared.config.cgroup_root), self._changed)
        self._began: float | None = None
        # Whether it has shown a listed container.
        self._proven = False
        self._some_fresh = asyncio.Event()
        shared.node.kernel, shared.node.kernel_note = KernelWitness.UNAVAILABLE, "not read yet"

    async def run(self) -> None:
        """Take notifications until cancelled."""
        loop, notifications = asyncio.get_running_loop(), self._tree.fileno
        if notifications is not None:
            loop.add_reader(notifications, self._notified)
        try:
            while True:
                await self._some_fresh.wait()
                self._some_fresh.clear()
                while self._tree.has_fresh:
                    await asyncio.sleep(_RECHECK_SECONDS)
                    self._tree.recheck()
        finally:
            if notifications is not None:
                loop.remove_reader(notifications)

    def close(self) -> None:
        """End all watches."""
        self._tree.close()

    async def read(self) -> None:
        """Look at all cgroups, beside a relist; what cannot be read is a state."""
        self._began = time.monotonic()
        try:
            await taking_turns(self._tree.read())
        except KernelError as error:
            self._began = None
            self._lose(str(error))
        if self._tree.has_fresh:
            self._some_fresh.set()

    def conclude(self, items: Iterable[Listed]) -> None:
        """Say that what the last `read` showed is complete: right before these items."""
        began, self._began = self._began, None
        if began is None:
            return
        if not self._proven:
            running = [item.id for item in items if item.state is ListedState.RUNNING]
            self._proven = any(map(self._tree.shows, running))
            if running and not self._proven:
                root = self._shared.config.cgroup_root
                self._lose(f"{root}: none of the listed containers is there")
                return
        if self._shared.node.kernel is not KernelWitness.WATCHING:
            self._set(KernelWitness.WATCHING, "")
            for change in self._tree.populated():
                self._take(change)
        self._take(CgroupsRead(began))

    def _notified(self) -> None:
        self._tree.notified()
        if self._tree.has_fresh:
            self._some_fresh.set()

    def _changed(self, change: CgroupChanged) -> None:
        if self._shared.node.kernel is KernelWitness.WATCHING:
            self._take(change)

    def _lose(self, why: str) -> None:
        if self._shared.node.kernel is KernelWitness.WATCHING:
            self._take(CgroupsLost(time.monotonic()))
        self._proven = False
        self._set(KernelWitness.UNAVAILABLE, why)

    def _take(self, fact: KernelFact) -> None:
        self._shared.inquiring.ask(self._shared.chronicle.take(fact).doubts)

    def _set(self, state: KernelWitness, note: str) -> None:
        node = self._shared.node
        if (state, note) != (node.kernel, node.kernel_note):
            _log.info("kernel witness", state=state.value, note=note)
        node.kernel, node.kernel_note = state, note
