"""Where the kubelet is wrong, for the oracle.

Read from `docs/how-it-works.md`; nothing is shared with the ledger but the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.model import facts
from exporter.model.events import Announcement, Lifecycle, ListedState, ObjectKind, Status
from exporter.model.findings import Verdict

if TYPE_CHECKING:
    from tests.support.oracle import Life, Oracle

RUNNING, EXITED = ListedState.RUNNING, ListedState.EXITED
BEHIND = 30.0


@dataclass(slots=True)
class Shown:
    """How the kubelet shows a container since when; `watch`: which one has shown it last.

    `against`: the first list in a row that was requested against it. `stale`: it was found to be.
    """

    status: Status
    since: float
    watch: int
    against: float | None = None
    stale: bool = False


class Beliefs:
    """All that the kubelet shows; `complete`: it has shown all. `ends`: of the STOPPED events."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.behind = BEHIND
        self.watch, self.complete = 0, False
        self.names: dict[str, tuple[str, str]] = {}
        self.shown: dict[str, Shown] = {}
        self.ends: dict[str, tuple[int, str]] = {}
        self.compared: set[str] = set()
        # Running containers of dropped pods: when they have to have ended, how many lists deny it.
        self.dropped: dict[str, tuple[float, int]] = {}

    def take(self, fact: facts.KubeletFact) -> None:
        """Take one fact."""
        if isinstance(fact, facts.Believed):
            self._pod(fact)
            return
        self.complete = isinstance(fact, facts.BeliefsShown)
        if self.complete:
            self.shown = {i: its for i, its in self.shown.items() if its.watch == self.watch}
        else:
            self.watch += 1
            self.shown = {i: its for i, its in self.shown.items() if its.stale}
            self.names, self.dropped = {}, {}

    def _pod(self, fact: facts.Believed) -> None:
        name = fact.pod.namespace, fact.pod.name
        for status in fact.changed:
            its = self.shown.get(status.id)
            if its is None or its.status != status:
                self.shown[status.id] = Shown(status, fact.at, self.watch)
            self.shown[status.id].watch = self.watch
            self.dropped.pop(status.id, None)
            self._compare(status.id)
        self.names.pop(fact.pod.uid, None)
        if not fact.removed:
            self.names[fact.pod.uid] = name
        has_other = name in self.names.values()
        for gone in fact.gone:
            its = self.shown.pop(gone, None)
            ran = its is not None and its.status.state is RUNNING and self._state(gone) is RUNNING
            if fact.removed and ran and not has_other:
                self.dropped[gone] = fact.at + fact.patience + self.behind, 0

    def _state(self, container_id: str) -> ListedState | None:
        life = self.oracle.lives.get(container_id)
        return None if life is None else life.state

    def announced(self, event: Announcement, life: Life) -> None:
        """The first STOPPED of that life came."""
        if event.exit_code is not None and life.kind is not ObjectKind.SANDBOX:
            self.ends[life.id] = event.exit_code, event.reason
            self._compare(life.id)

    def _compare(self, container_id: str) -> None:
        its, end = self.shown.get(container_id), self.ends.get(container_id)
        if its is None or end is None or its.status.state is RUNNING:
            return
        if container_id in self.compared:
            return
        self.compared.add(container_id)
        code, reason = its.status.exit_code, its.status.reason
        differs = reason and end[1] and reason not in (end[1], "OOMKilled")
        if code != end[0] or differs:
            self._find(container_id, Verdict.DISAGREES)

    def judge(self, requested: float) -> None:
        """Judge all by a list."""
        for container_id, its in self.shown.items() if self.complete else ():
            life = self.oracle.lives.get(container_id)
            if life is None or its.status.state is EXITED or requested <= its.since:
                continue
            processes = self.oracle.processes.get(container_id)
            lives = processes is not None and processes.ended is None
            ended = life.state is EXITED or (life.listed and life.state is None)
            if lives or not ended:
                its.against, its.stale = None, False
                continue
            its.against = requested if its.against is None else its.against
            if requested > its.against + self.behind and not its.stale:
                its.stale = True
                self._find(container_id, Verdict.STALE)
        for container_id, (due, lists) in list(self.dropped.items()):
            if self._state(container_id) is not RUNNING:
                del self.dropped[container_id]
            elif requested > due:
                self.dropped[container_id] = due, lists + 1
                if lists == 1:
                    self._find(container_id, Verdict.UNKNOWN_TO_KUBELET)

    def _find(self, container_id: str, verdict: Verdict) -> None:
        self.oracle.out.append((container_id, Lifecycle.DIED, verdict, None))
