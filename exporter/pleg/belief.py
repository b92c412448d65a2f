"""What the kubelet believes of its containers, and where all other witnesses contradict it.

It is STALE while it shows a container running that lists, and the kernel where it is observed, show
ended; it DISAGREES where it shows another end than the runtime announced; a container that still
runs when the kubelet has no longer its pod is UNKNOWN_TO_KUBELET. Blind spots: a pod that the
kubelet has never shown is taken for another client's; what it showed before the watch began.
"""

from dataclasses import dataclass, field
from typing import Final

from exporter.model.events import Lifecycle, ListedState, Pod, Status
from exporter.model.facts import BeliefsLost, BeliefsShown, Believed
from exporter.model.findings import NOTHING, Finding, Outcome, Verdict
from exporter.pleg.entry import Entry
from exporter.pleg.kernel import Kernel
from exporter.pleg.memory import Memory

_RUNNING: Final = ListedState.RUNNING
_EXITED: Final = ListedState.EXITED
# The kubelet may be so far behind: on a real one, amid many crashes, the slowest status took 9 s.
_PATIENCE: Final = 30.0
# The runtime itself says so only after it has announced the exit.
_AMENDED: Final = "OOMKilled"


@dataclass(slots=True)
class Belief:
    """One container as the kubelet shows it.

    `at`: since when; `news`: that was received as it changed. `current`: this watch has shown it.
    `due`: when it has to have ended, if the kubelet has its pod no longer. `denied`: when the first
    list in a row was requested that contradicts it. `verdict`: what it is found to be, while it is.
    """

    status: Status
    pod: Pod
    at: float
    news: bool
    current: bool = True
    due: float = 0.0
    denied: float | None = None
    verdict: Verdict | None = None


@dataclass(slots=True)
class Beliefs:
    """What the kubelet shows, bounded by the source. `patience`: how many seconds it may be behind.

    `known`: it has shown all its pods. `pods`: by uid. `shown`: its containers by id, and `left`:
    those that ran when it had their pod no longer.
    """

    memory: Memory
    kernel: Kernel
    patience: float = _PATIENCE
    known: bool = False
    pods: dict[str, Pod] = field(default_factory=dict)
    shown: dict[str, Belief] = field(default_factory=dict)
    left: dict[str, Belief] = field(default_factory=dict)

    def number(self, verdict: Verdict) -> int:
        """How many statuses are stale, or containers unknown to the kubelet, now."""
        beliefs = (*self.shown.values(), *self.left.values())
        return sum(belief.verdict is verdict for belief in beliefs)

    def ended(self, container_id: str) -> Belief | None:
        """The belief that this container has ended."""
        belief = self.shown.get(container_id)
        return belief if belief and belief.status.state is _EXITED else None

    def take(self, fact: Believed) -> None:
        """Take what it shows of one pod."""
        pod = fact.pod
        if fact.removed:
            self.pods.pop(pod.uid, None)
        else:
            self.pods[pod.uid] = pod
        for status in fact.changed:
            before = self.shown.get(status.id)
            if before is not None and before.status == status:
                before.current = True
            else:
                self.shown[status.id] = Belief(status, pod, fact.at, self.known)
            self.left.pop(status.id, None)
        # A static pod has a mirror of the same name.
        is_left = fact.removed and all(each[:2] != pod[:2] for each in self.pods.values())
        for gone in fact.gone:
            belief, entry = self.shown.pop(gone, None), self.memory.live.get(gone)
            if belief is None or entry is None or not is_left:
                continue
            if belief.status.state is _RUNNING is entry.state:
                due = fact.at + fact.patience + self.patience
                self.left[gone] = Belief(belief.status, pod, fact.at, self.known, due=due)

    def all_shown(self, _fact: BeliefsShown) -> Outcome:
        """It has shown all its pods: what only an earlier watch showed is void."""
        self.known = True
        self.shown = {each: belief for each, belief in self.shown.items() if belief.current}
        return NOTHING

    def lost(self, _fact: BeliefsLost) -> Outcome:
        """Forget what it showed. A stale status stays one: the next watch shows it, or another."""
        self.known = False
        self.pods.clear()
        self.left.clear()
        self.shown = {each: belief for each, belief in self.shown.items() if belief.verdict}
        for belief in self.shown.values():
            belief.current = False
        return NOTHING

    def disagrees(self, entry: Entry, exit_code: int, reason: str) -> tuple[Finding, ...]:
        """Compare its end of that container with the one that was announced."""
        status = self.shown[entry.id].status
        same = status.reason in {reason, _AMENDED} or not (status.reason and reason)
        if status.exit_code == exit_code and same:
            return ()
        return (entry.finding(Verdict.DISAGREES, Lifecycle.DIED),)

    def judge(self, requested: float, findings: list[Finding]) -> None:
        """Compare all that it shows running with the relist that was just taken."""
        for container_id, belief in self.shown.items() if self.known else ():
            entry = self.memory.peek(container_id)
            runs = belief.status.state is _RUNNING and requested > belief.at
            if entry is None or not runs:
                continue
            if not self._has_ended(entry):
                belief.denied = belief.verdict = None
            elif belief.denied is None:
                belief.denied = requested
            elif belief.verdict is None and requested > belief.denied + self.patience:
                belief.verdict = Verdict.STALE
                findings.append(_finding(entry, belief))
        for container_id, belief in list(self.left.items()):
            entry = self.memory.live.get(container_id)
            if entry is None or entry.state is not _RUNNING:
                del self.left[container_id]
            elif belief.verdict is None and requested > belief.due:
                if belief.denied is not None:
                    belief.verdict = Verdict.UNKNOWN_TO_KUBELET
                    findings.append(_finding(entry, belief))
                belief.denied = requested

    def _has_ended(self, entry: Entry) -> bool:
        """Whether the last list shows that it did, or lacks it, and the kernel agrees."""
        listed = entry.state is _EXITED or (entry.state is None and entry.listed)
        cgroup = self.kernel.cgroups.get(entry.id)
        return listed and (cgroup is None or cgroup.emptied is not None)


def _finding(entry: Entry, belief: Belief) -> Finding:
    """Named by the kubelet: the ledger forgets the pod of what is gone."""
    found = entry.finding(belief.verdict or Verdict.STALE, Lifecycle.DIED)
    return found._replace(pod=belief.pod, before=entry.at_first is _EXITED)
