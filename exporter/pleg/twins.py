"""Twins: two containers of one pod and one name that run at once.

A pod runs one container of a name. A kubelet that starts a second one beside it took an older state
for the newer one (k/k#123087). Invariant: a relist costs what changes. Not counted: containers of a
sandbox that has ended, because it is being replaced; and those whose last process has ended, as far
as the kernel shows. Blind spots: pods without a uid; which of two in the first list is older.
"""

from dataclasses import dataclass, field

from exporter.model.events import Lifecycle, ListedState, ObjectKind
from exporter.model.findings import Finding, Verdict
from exporter.pleg.entry import Entry
from exporter.pleg.kernel import Kernel
from exporter.pleg.memory import Memory
from exporter.pleg.steps import Standing

# A pod's uid, and the container's name.
Place = tuple[str, str]


def place_of(entry: Entry) -> Place | None:
    """Where a container runs; None if it does not run, or if its place is not known."""
    running = entry.state is ListedState.RUNNING and entry.kind is ObjectKind.CONTAINER
    if not running or entry.pod is None or not entry.pod.uid or not entry.name:
        return None
    return entry.pod.uid, entry.name


@dataclass(slots=True)
class Twins:
    """The running containers by place: one alone, or several in the order of their first lists.

    `standings`: for the oldest of several, by its id. `found`: ids of those with a counted twin.
    """

    grace: float
    memory: Memory
    kernel: Kernel
    standings: dict[str, Standing] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    _alone: dict[Place, str] = field(default_factory=dict)
    # A dict keeps the order and removes fast: lists may have thousands for one place. Most places
    # have one container, for which a dict would take 184 bytes.
    _several: dict[Place, dict[str, None]] = field(default_factory=dict)

    def moved(self, container_id: str, old: Place | None, new: Place | None) -> None:
        """Take a container from its old place to its new one; None: it runs nowhere."""
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
        """Remove a container; it is absent if only an event, after that list, has named its pod."""
        if self._alone.get(place) == container_id:
            del self._alone[place]
        self.found.discard(container_id)
        here = self._several.get(place, {})
        here.pop(container_id, None)
        if len(here) == 1:
            (self._alone[place],) = self._several.pop(place)

    def judge(self, requested: float, findings: list[Finding]) -> None:
        """Judge all places where the list shows several containers running."""
        before, self.standings = self.standings, {}
        for several in self._several.values():
            here = [each for each in several if not self._is_ending(each)]
            if len(here) <= 1:
                continue
            older, new = here[0], Standing(Verdict.TWIN, requested, self.grace)
            standing = self.standings[older] = before.get(older, new)
            # Counted once: its successors may come and go beside it.
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
