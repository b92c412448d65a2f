"""Which running containers provably have no process: seeing none proves nothing by itself.

It is proven if other containers of the same runtime handler have cgroups of their own, and either
the pod's folder shows other containers, or all other containers of that handler are seen. It is not
proven while the processes may be elsewhere in the pod: in the monitor's cgroup, in one of no
container, or in one of a container not listed as alive that got processes since. This also voids
the proof for a container that was seen to end.
Blind spot: a node whose only container was dead before this process began.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporter.kernel.tree import Tree
from exporter.model.events import Listed, ListedState, ObjectKind
from exporter.runtimes.known import is_elsewhere


@dataclass(slots=True)
class Unseen:
    """What `tree` does not show of the lists.

    `running`: the containers that are listed as running. `missing`: those that the tree does not
    show. `dead`: those that provably have no process. `moved`: ids of containers and sandboxes that
    the tree showed, or that would be dead, but whose processes may be elsewhere in their pod.
    """

    tree: Tree
    running: tuple[Listed, ...] = ()
    missing: tuple[Listed, ...] = ()
    dead: tuple[Listed, ...] = ()
    moved: tuple[str, ...] = ()
    # Handlers with cgroups for their containers: one of these has had processes for a while.
    _proven: set[str] = field(default_factory=set)

    def compare(self, items: Sequence[Listed], handlers: Mapping[str, str]) -> None:
        """Take lists, right after a read; `handlers`: by sandbox id, without the default one."""
        shown = self.tree.shown
        runs = [each for each in items if each.state is ListedState.RUNNING]
        left = [each for each in runs if each.id in shown.left]
        shown.left = {each.id: shown.left[each.id] for each in left}
        self.running = tuple(each for each in runs if each.kind is ObjectKind.CONTAINER)
        for each in self.running:
            handler = handlers.get(each.sandbox_id, "")
            if handler not in self._proven and shown.lasts(each.id):
                self._proven.add(handler)
        self.missing = tuple(each for each in self.running if each.id not in shown)
        suspects = list(self._suspects(handlers)) if self.missing else []
        moved = self._moved({*suspects, *left}, items) if suspects or left else set()
        self.moved = tuple(sorted(moved))
        self.dead = tuple(each for each in suspects if each.id not in moved)

    def _suspects(self, handlers: Mapping[str, str]) -> Iterable[Listed]:
        """Containers that are dead unless their processes are elsewhere in their pod."""
        of_handler = Counter(handlers.get(each.sandbox_id, "") for each in self.running)
        absent = Counter(handlers.get(each.sandbox_id, "") for each in self.missing)
        pods = {each.pod_uid for each in self.tree.shown if each.pod_uid}
        for each in self.missing:
            handler, uid = handlers.get(each.sandbox_id, ""), each.pod.uid if each.pod else ""
            alone = absent[handler] == 1 < of_handler[handler]
            with_others = uid in pods or each.sandbox_id in self.tree.shown
            if handler in self._proven and not is_elsewhere(handler) and (alone or with_others):
                yield each

    def _moved(self, absent: set[Listed], items: Sequence[Listed]) -> set[str]:
        """Ids of `absent` containers whose processes may be elsewhere in their pod."""
        alive = {each.id for each in items if each.state is not ListedState.EXITED}
        uids = {each.pod.uid for each in absent if each.pod and each.pod.uid}
        # A cgroup that had processes before the container lost its own is not where they went.
        left, came = self.tree.shown.left, dict[str, float]()
        for each in self.tree.shown:
            if each.id not in alive and each.pod_uid:
                came[each.pod_uid] = max(each.since, came.get(each.pod_uid, 0.0))
        came |= dict.fromkeys(self.tree.with_strangers(uids), math.inf)
        return {
            each.id
            for each in absent
            if (each.pod and came.get(each.pod.uid, -math.inf) > left.get(each.id, -math.inf))
            or self.tree.is_doubtful(each.id)
        }
