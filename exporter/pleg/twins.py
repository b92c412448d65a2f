"""Twins: two containers of one pod and one name that run at once.

A pod runs one container of a name: a kubelet that starts a second one beside it took an older state
for the newer one (k/k#123087). Invariant: costs what changes. Containers of a sandbox that ended do
not count: it is being replaced. Nor do those whose last process ended, as far as the kernel shows.
Blind spots: pods without a uid; which one of two that the first list shows is older.
"""

from dataclasses import dataclass, field

from exporter.model.events import Lifecycle, ListedState, ObjectKind
from exporter.model.findings import Finding, Verdict
from exporter.pleg.entry import Entry
from exporter.pleg.kernel import Kernel
from exporter.pleg.memory import Memory
from exporter.pleg.standing import Standing

# A pod's uid, and the container's name.
Place = tuple[str, str]


def place_of(entry: Entry) -> Place | None:
    """Where a container runs; None if it does not, or that is not known."""
    running = entry.state is ListedState.RUNNING and entry.kind is ObjectKind.CONTAINER
    if not running or entry.pod is None or not entry.pod.uid or not entry.name:
        return None
    return entry.pod.uid, entry.name


@dataclass(slots=True)
class Twins:
    """The running containers by place: alone, or several, the first one to be listed first.

    `standings`: of the oldest of several, by its id. `found`: those for which a twin was found.
    """

    grace: float
    memory: Memory
    kernel: Kernel
    standings: dict[str, Standing] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    _alone: dict[Place, str] = field(default_factory=dict)
    # In their order, and quick to leave: lists may have thousands of one place. Most places have
    # one container, for which a dict would take 184 bytes.
    _several: dict[Place, dict[str, None]] = field(default_factory=dict)

    def moved(self, container_id: str, old: Place | None, new: Place | None) -> None:
        """A list shows a container where it was not before; None: nowhere."""
        if old == new:
            return
        if old is not None:
            self._leave(container_id, old)
        if new in self._several:
            self._several[new][container_id] = None
        elif new in self._alone:
            self._several[new] = dict.fromkeys((self._alone.pop(new), container_id))
        elif new is not None:
            self._alone[new] = container_id

    def _leave(self, container_id: str, place: Place) -> None:
        """An event may have named its pod meanwhile: then it was not there."""
        if self._alone.get(place) == container_id:
            del self._alone[place]
        self.found.discard(container_id)
        here = self._several.get(place, {})
        here.pop(container_id, None)
        if len(here) == 1:
            (self._alone[place],) = self._several.pop(place)

    def judge(self, requested: float, findings: list[Finding]) -> None:
        """Judge all places of which the list shows several containers running."""
        before, self.standings = self.standings, {}
        for several in self._several.values():
            here = [each for each in several if not self._is_ending(each)]
            if len(here) <= 1:
                continue
            older, new = here[0], Standing(Verdict.TWIN, requested, self.grace)
            standing = self.standings[older] = before.get(older, new)
            # Its successors may come and go beside it.
            if standing.shown(requested) and older not in self.found:
                self.found.add(older)
                newest = self.memory.live[here[-1]]
                found = newest.finding(Verdict.TWIN, Lifecycle.STARTED)
                was = newest.at_first is ListedState.RUNNING
                findings.append(found._replace(before=was, other=older))

    def _is_ending(self, container_id: str) -> bool:
        cgroup = self.kernel.cgroups.get(container_id)
        if (cgroup and cgroup.emptied is not None) or self.kernel.lives(container_id) is False:
            return True
        entry = self.memory.live[container_id]
        sandbox = self.memory.peek(entry.sandbox_id)
        return sandbox is not None and sandbox.state is ListedState.EXITED
