"""What processes prove to the oracle, and where they contradict a list.

Read from `docs/how-it-works.md`; nothing is shared with the ledger but the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from exporter.model import facts
from exporter.model.events import Lifecycle, ListedState
from exporter.model.findings import Verdict

if TYPE_CHECKING:
    from tests.support.oracle import Life, Oracle

STARTED, DIED, REMOVED = list(Lifecycle)[1:]
RUNNING, EXITED = ListedState.RUNNING, ListedState.EXITED
LASTS, IN_A_ROW = 2.0, 2


@dataclass(slots=True)
class Processes:
    """Processes in a container's cgroup; `old`: the first read may have shown them."""

    uid: str
    since: float
    after: float
    old: bool
    lasted: float | None = None
    ended: float | None = None
    ended_after: float = -inf
    disowned: float | None = None
    denials: int = 0
    ghost: bool = False


class Cgroups:
    """The cgroups that have or had processes; `read`: when the last read of all began."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.processes: dict[str, Processes] = {}
        self.read: float | None = None

    def take(self, fact: facts.KernelFact) -> None:
        """Take one fact."""
        if isinstance(fact, facts.CgroupChanged):
            self._changed(fact)
        elif isinstance(fact, facts.CgroupsLost):
            self.read = None
            self.processes = {i: its for i, its in self.processes.items() if its.ghost}
        else:
            self.read = fact.requested
            for object_id, its in self.processes.items():
                if its.lasted is None and its.ended is None and self.read > its.since + LASTS:
                    its.lasted = self.read
                    self.weigh(object_id)

    def judge(self, requested: float) -> None:
        """Judge all of them by a list."""
        for object_id, its in list(self.processes.items()):
            life = self.oracle.lives.get(object_id)
            if life is not None and life.state is ListedState.CREATED:
                self._set_up(its, life, requested)
            self.weigh(object_id)
            self._haunt(object_id, requested)

    def _set_up(self, its: Processes, life: Life, requested: float) -> None:
        """It was not started when that list was requested: only what lasts from then counts."""
        its.since, its.after = max(its.since, requested), max(its.after, requested)
        if its.lasted is not None and its.lasted <= its.since + LASTS:
            its.lasted, life.lasted = None, False
            for step in (life.steps[STARTED], life.steps[DIED]):
                if step.ahead and step.waits:
                    step.proven, step.witnessed = None, False

    def _is_elsewhere(self, life: Life | None) -> bool:
        home = self.oracle.lives.get(life.home) if life is not None else None
        return home is not None and home.elsewhere

    def _changed(self, fact: facts.CgroupChanged) -> None:
        its, life = self.processes.get(fact.container_id), self.oracle.lives.get(fact.container_id)
        over = its is None or its.ended is not None
        after = -inf if self.read is None else self.read
        if fact.populated and over:
            died = life.steps[DIED] if life is not None and not life.over else None
            if died is not None and died.ahead and died.waits:
                died.proven, died.witnessed = None, False
            new = Processes(fact.pod_uid, fact.at, after, self.read is None)
            self.processes[fact.container_id] = new
        elif its is not None and not over and not fact.populated:
            its.ended, its.ended_after, its.denials, its.ghost = fact.at, after, 0, False
            if its.lasted is None and fact.at_wall_ns > 0 and fact.at > its.since + LASTS:
                its.lasted = fact.at
        self.weigh(fact.container_id)

    def weigh(self, object_id: str) -> None:
        """What its processes prove, given all that is known of it."""
        its, life = self.processes.get(object_id), self.oracle.lives.get(object_id)
        if its is None or life is None or life.over or self.oracle.horizon_ns is None:
            return
        if self._is_elsewhere(life):
            return
        lasted = None if self.oracle.profile.sets_up_early else its.lasted
        shown = {}
        if not its.old and (lasted is not None or life.steps[STARTED].said is not None):
            shown[STARTED] = its.since if lasted is None else lasted, its.after
        if its.ended is not None and (lasted is not None or life.ran):
            shown[DIED] = its.ended, its.ended_after
        life.lasted |= lasted is not None
        for event, (at, after) in shown.items():
            step = life.steps[event]
            if event > life.floor and step.proven is None and not step.witnessed:
                self.oracle.prove(life, event, at, after, by_kernel=True)

    def _haunt(self, object_id: str, requested: float) -> None:
        """Whether that list and the processes contradict each other."""
        its, life = self.processes[object_id], self.oracle.lives.get(object_id)
        state = life.state if life is not None else None
        here, since = not self._is_elsewhere(life), its.since
        first = requested if its.disowned is None else its.disowned
        its.disowned = first if state is EXITED and its.ended is None else None
        if its.ended is not None:
            since, denied = its.ended, state is RUNNING and here
        elif state is EXITED:
            since, denied = max(since, first), its.lasted is not None and here
        else:
            denied = state is None and its.lasted is not None and self._is_of_known_pod(its)
        past = requested > since + self.oracle.grace
        if not denied:
            its.denials, its.ghost = 0, False
            if past and its.ended is not None and state in {EXITED, None}:
                del self.processes[object_id]
        elif past and self.read is not None and self.read >= requested:
            its.denials += 1
            if its.denials == IN_A_ROW:
                its.ghost = its.ended is not None
                verdict = Verdict.GHOST if its.ghost else Verdict.STRAY
                self.oracle.out.append(
                    (object_id, REMOVED if state is None else DIED, verdict, None)
                )

    def _is_of_known_pod(self, its: Processes) -> bool:
        """Whether a sandbox was listed that has its pod, and keeps its processes in it."""
        homes = [each for each in self.oracle.lives.values() if each.listed and each.uid == its.uid]
        return bool(its.uid and homes) and not any(each.elsewhere for each in homes)
