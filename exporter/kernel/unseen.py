"""Which running containers have no process, by proof: that none is seen proves nothing by itself.

Proof is that containers of its runtime handler do have cgroups of their own, and that either its
pod's folder shows others, or all other containers of that handler are seen. It is none while its
processes may be elsewhere in its pod: in a cgroup beside its own, in one of no container, or of one
that is not listed as alive and has got its processes since. That lifts the proof of who was seen to
end, too.
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

    `running`: the containers that are listed as running. `missing`: those of them that it does not
    show. `dead`: those of which that is proof. `moved`: ids of containers and sandboxes that it
    showed, or that would be dead, and whose processes may be elsewhere in their pod.
    """

    tree: Tree
    running: tuple[Listed, ...] = ()
    missing: tuple[Listed, ...] = ()
    dead: tuple[Listed, ...] = ()
    moved: tuple[str, ...] = ()
    # The handlers of which a container has had processes for a while in its own cgroup.
    _proven: set[str] = field(default_factory=set)

    def compare(self, items: Sequence[Listed], handlers: Mapping[str, str]) -> None:
        """Take lists, right after a read; `handlers`: by the sandbox's id, "" left out."""
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
        """Who is dead, if its processes are not elsewhere in its pod."""
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
        """Those of them whose processes may be elsewhere in their pod."""
        alive = {each.id for each in items if each.state is not ListedState.EXITED}
        uids = {each.pod.uid for each in absent if each.pod and each.pod.uid}
        # What was there already while it was in its own cgroup is not where it went.
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
