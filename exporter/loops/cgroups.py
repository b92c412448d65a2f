"""The kernel as a witness: passes on what the containers' cgroups show, notified or read.

Facts are passed on while this may be the tree of the listed containers: no container is listed as
running yet, or at least one has had processes here since the tree was found. All reads are in this
thread, because the kernel serves a cgroup's files from memory. If the kernel notifies nothing, the
reads beside relists must do: they miss a life between two of them, and no exit has an exact time.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from exporter.errors import KernelError
from exporter.kernel.oom import VMSTAT, Kills
from exporter.kernel.populated import Processes
from exporter.kernel.tree import Tree
from exporter.kernel.unseen import Unseen
from exporter.loops.context import LoopContext
from exporter.model.events import Listed, ListedState
from exporter.model.facts import CgroupsLost, CgroupsRead, KernelFact
from exporter.model.labels import KernelWitness
from exporter.process.event_loop import in_slices

# Pause between two reads of a new cgroup whose processes are not notified.
_RECHECK_SECONDS: Final = 0.05


class Cgroups:
    """Reads the cgroups below `--cgroup-root`; close it at the end."""

    def __init__(self, context: LoopContext, vmstat: str = VMSTAT) -> None:
        self._context = context
        root = str(context.config.cgroup_root)
        self._tree = Tree(root, self._changed)
        self._kills = Kills(self._tree, root, self._changed, vmstat)
        self._tree.ended = self._kills.ended
        self._unseen = Unseen(self._tree)
        self._listened: int | None = None
        self._began: float | None = None
        # Whether the tree has shown a listed container.
        self._proven = False
        self._some_fresh = asyncio.Event()
        self._kernel = context.node.kernel
        self._kernel.state, self._kernel.note = KernelWitness.UNAVAILABLE, "not read yet"
        context.node.oom.state, context.node.oom.note = self._kills.witness, self._kills.note

    async def run(self) -> None:
        """Take notifications until cancelled."""
        self._listen()
        try:
            while True:
                await self._some_fresh.wait()
                self._some_fresh.clear()
                while self._tree.has_fresh:
                    await asyncio.sleep(_RECHECK_SECONDS)
                    self._tree.recheck()
        finally:
            if self._listened is not None:
                asyncio.get_running_loop().remove_reader(self._listened)

    def close(self) -> None:
        """End all watches."""
        self._tree.close()

    async def read(self) -> None:
        """Read all cgroups, beside a relist; a failure is a state, not an error."""
        self._began = time.monotonic()
        try:
            await in_slices(self._tree.read())
            if self._kernel.works:
                await in_slices(self._kills.read())
        except KernelError as error:
            self._began = None
            self._lose(str(error))
        if self._tree.has_fresh:
            self._some_fresh.set()
        self._listen()

    def conclude(self, items: Sequence[Listed]) -> None:
        """Record the last `read` as complete, right before the relist with these items."""
        began, self._began = self._began, None
        if began is None:
            return
        shown = self._tree.shown
        if not self._proven:
            self._proven = any(item.id in shown or item.id in shown.left for item in items)
            if not self._proven and any(item.state is ListedState.RUNNING for item in items):
                root = self._context.config.cgroup_root
                self._lose(f"{root}: none of the listed containers is there")
                return
        was_passing = self._kernel.works
        note = self._tree.polling
        self._kernel.become(KernelWitness.POLLING if note else KernelWitness.WATCHING, note)
        if not was_passing:
            for change in shown.all():
                self._take(change)
            self._kills.begin()
        self._say_kills()
        self._unseen.compare(items, self._context.lists.handlers)
        frozen = {each.id for each in shown if each.processes is Processes.FROZEN}
        self._take(
            CgroupsRead(
                began,
                dead=tuple(each.id for each in self._unseen.dead),
                frozen=tuple(each.id for each in self._unseen.running if each.id in frozen),
                moved=self._unseen.moved,
                killed=self._kills.among(each.id for each in self._unseen.dead),
            )
        )

    def _listen(self) -> None:
        """Register for notifications once the kernel gives inotify."""
        if self._listened is None and (fileno := self._tree.fileno) is not None:
            asyncio.get_running_loop().add_reader(fileno, self._notified)
            self._listened = fileno

    def _notified(self) -> None:
        self._tree.notified()
        if self._tree.has_fresh:
            self._some_fresh.set()

    def _changed(self, change: KernelFact) -> None:
        if self._kernel.works:
            self._take(change)

    def _lose(self, why: str) -> None:
        if self._kernel.works:
            self._take(CgroupsLost(time.monotonic()))
        self._proven = False
        self._kills.forget()
        self._say_kills()
        self._kernel.become(KernelWitness.UNAVAILABLE, why)

    def _say_kills(self) -> None:
        self._context.node.oom.become(self._kills.witness, self._kills.note)

    def _take(self, fact: KernelFact) -> None:
        self._context.inquiring.ask(self._context.chronicle.record(fact).doubts)
