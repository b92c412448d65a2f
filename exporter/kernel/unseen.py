"""Which running containers have no process, by proof: that none is seen proves nothing by itself.

Proof is that containers of its runtime handler do have cgroups of their own, and that either its
pod's folder shows others, or all other containers of that handler are seen. It is none while its
processes may be elsewhere in its pod: in a cgroup beside its own, or of somebody who is not listed.
Blind spot: a node whose only container was dead before this process began.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporter.kernel.tree import Tree
from exporter.model.events import Listed, ListedState, ObjectKind
from exporter.runtimes.known import is_elsewhere


@dataclass(slots=True)
class Unseen:
    """What `tree` does not show of the lists.

    `running`: the containers that are listed as running. `missing`: those of them that it does not
    show. `dead`: those of which that is proof.
    """

    tree: Tree
    running: tuple[Listed, ...] = ()
    missing: tuple[Listed, ...] = ()
    dead: tuple[Listed, ...] = ()
    # The handlers of which a container has had processes for a while in its own cgroup.
    _proven: set[str] = field(default_factory=set)

    def compare(self, items: Sequence[Listed], handlers: Mapping[str, str]) -> None:
        """Take lists, right after a read; `handlers`: by the sandbox's id, "" left out."""
        shown = self.tree.shown
        running = (each for each in items if each.state is ListedState.RUNNING)
        self.running = tuple(each for each in running if each.kind is ObjectKind.CONTAINER)
        for each in self.running:
            handler = handlers.get(each.sandbox_id, "")
            if handler not in self._proven and shown.lasts(each.id):
                self._proven.add(handler)
        self.missing = tuple(each for each in self.running if each.id not in shown)
        self.dead = tuple(self._dead(items, handlers)) if self.missing else ()

    def forget(self) -> None:
        """It may be another tree from now on."""
        self._proven.clear()

    def _dead(self, items: Sequence[Listed], handlers: Mapping[str, str]) -> Iterable[Listed]:
        of_handler = Counter(handlers.get(each.sandbox_id, "") for each in self.running)
        absent = Counter(handlers.get(each.sandbox_id, "") for each in self.missing)
        listed = {each.id for each in items}
        pods = {each.pod_uid for each in self.tree.shown if each.pod_uid}
        mixed = {each.pod_uid for each in self.tree.shown if each.id not in listed}
        for each in self.missing:
            handler, uid = handlers.get(each.sandbox_id, ""), each.pod.uid if each.pod else ""
            if handler not in self._proven or is_elsewhere(handler):
                continue
            alone = absent[handler] == 1 < of_handler[handler]
            with_others = uid in pods or each.sandbox_id in self.tree.shown
            elsewhere = (uid and uid in mixed) or self.tree.is_doubtful(each.id)
            if (alone or with_others) and not elsewhere:
                yield each
