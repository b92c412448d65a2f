"""Which running containers have no process, by proof: that none is seen proves nothing by itself.

Proof is that the containers of its runtime handler do have cgroups of their own, and that either
its pod's folder shows others, or all other containers of that handler are seen. Blind spot: a node
whose only container was dead before this process began.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
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

    def compare(self, items: Iterable[Listed], handlers: Mapping[str, str]) -> None:
        """Take lists, right after a read; `handlers`: by the sandbox's id, "" left out."""
        shown = self.tree.shown
        running = (each for each in items if each.state is ListedState.RUNNING)
        self.running = tuple(each for each in running if each.kind is ObjectKind.CONTAINER)
        for each in self.running:
            handler = handlers.get(each.sandbox_id, "")
            if handler not in self._proven and shown.lasts(each.id):
                self._proven.add(handler)
        self.missing = tuple(each for each in self.running if each.id not in shown)
        self.dead = tuple(self._dead(handlers)) if self.missing else ()

    def forget(self) -> None:
        """It may be another tree from now on."""
        self._proven.clear()

    def _dead(self, handlers: Mapping[str, str]) -> Iterable[Listed]:
        of_handler = Counter(handlers.get(each.sandbox_id, "") for each in self.running)
        absent = Counter(handlers.get(each.sandbox_id, "") for each in self.missing)
        pods = {each.pod_uid for each in self.tree.shown}
        for each in self.missing:
            handler = handlers.get(each.sandbox_id, "")
            if handler not in self._proven or is_elsewhere(handler):
                continue
            others = absent[handler] == 1 < of_handler[handler]
            if (others or _has_others(each, pods, self.tree)) and not self.tree.is_doubtful(
                each.id
            ):
                yield each


def _has_others(container: Listed, pods: Collection[str], tree: Tree) -> bool:
    """Whether its pod shows other containers, or its sandbox."""
    in_folder = container.pod is not None and container.pod.uid and container.pod.uid in pods
    return bool(in_folder) or container.sandbox_id in tree.shown
