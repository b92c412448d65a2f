"""What the kernel shows of the containers' processes: starts and exits, ghosts, strays.

Processes that last prove a start (those of a failed start do not last). A cgroup that has lost them
proves the exit. Processes in the first complete read began before observation. For a container that
has had none since then, the read itself says whether it is proven dead. Blind spots: a container
that neither the lists nor the stream named gets no lifecycle event; and a process that moves out of
its pod's cgroups looks as if it had ended.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from exporter.model.events import Lifecycle, ListedState, ObjectKind, Pod
from exporter.model.facts import CgroupChanged, CgroupsLost, CgroupsRead
from exporter.model.findings import NOTHING, Finding, Outcome, Verdict
from exporter.model.labels import Limit
from exporter.pleg.entry import Entry
from exporter.pleg.memory import Memory
from exporter.pleg.steps import Standing, StepInput
from exporter.pleg.trust import StreamTrust

# Seconds. Processes of a failed start, and those on their way to another cgroup, stay shorter.
LASTING: Final = 2.0
# Seconds, at most, between the two notifications of one process that moves, in any order.
MOVING: Final = 1.0
# Seconds. Sandboxes, and CRI-O's containers, have processes before their creation ends; lists and
# events name them afterwards. A creation may take four minutes, and CRI-O holds back one that its
# client gave up for up to two more.
CREATION: Final = 360.0
# The states in which a list shows a container that has ended.
_OVER: Final = (ListedState.EXITED, None)
_RUNNING: Final = ListedState.RUNNING


@dataclass(slots=True)
class Cgroup:
    """The cgroup of one container in which processes were seen; times in seconds."""

    id: str
    pod_uid: str
    # When its processes were first seen; they came later than `after`.
    since: float
    after: float
    # The first read showed them; `before`: and no list has shown the container alive since.
    old: bool
    before: bool
    # Since when it is known that they lasted.
    lasted: float | None = None
    # A list showed the container as created while it had processes.
    set_up_slowly: bool = False
    # When no process was left: at that time if `exact`, else between `emptied_after` and then.
    emptied: float | None = None
    emptied_after: float = -math.inf
    exact: bool = False
    # By the last read, its processes may be elsewhere in its pod.
    moved: bool = False
    # Nothing more can be proven before the cgroup changes.
    done: bool = False
    # The contradiction of the lists, if any.
    standing: Standing | None = None
    # Its pod, once a list showed that after the processes came; False if that pod's handler keeps
    # processes elsewhere.
    pod: Pod | bool | None = None

    @property
    def verdict(self) -> Verdict | None:
        """GHOST or STRAY while the contradiction stands."""
        return self.standing.verdict if self.standing else None


@dataclass(slots=True)
class Kernel:
    """The cgroups that the ledger knows, bounded by the machine's processes. `grace`: seconds."""

    grace: float
    memory: Memory
    trust: StreamTrust
    still_open: dict[str, Entry]
    # Whether containers have processes before they are started.
    sets_up_early: bool
    cgroups: dict[str, Cgroup] = field(default_factory=dict)
    # When the last complete read began; -inf if there is none, or the tree was lost since.
    read: float = -math.inf
    last: CgroupsRead | None = None
    # When the first list was requested; and containers that it shows running, of which no read has
    # shown a process.
    first: float = math.inf
    never_populated: set[str] = field(default_factory=set)
    # Containers listed as running: those without a known cgroup that a read proves dead; and those
    # whose processes are frozen.
    dead: dict[str, Standing] = field(default_factory=dict)
    frozen: dict[str, Standing] = field(default_factory=dict)

    def lives(self, container_id: str) -> bool | None:
        """Whether the container has processes; None if that is not known.

        If processes only passed through its cgroup, they are elsewhere, whatever its handler.
        """
        cgroup = self.cgroups.get(container_id)
        if cgroup is not None and cgroup.emptied is None:
            return True
        has_ended = cgroup is not None and cgroup.lasted is not None and not cgroup.moved
        return False if has_ended or self._is_dead(container_id) else None

    def changed(self, fact: CgroupChanged) -> Outcome:
        """Take a change of one cgroup."""
        cgroup, at = self.cgroups.get(fact.container_id), fact.at
        after, old = self.read, self.read == -math.inf
        gone = cgroup is None or cgroup.emptied is not None
        if fact.populated and gone:
            self.never_populated.discard(fact.container_id)
            self._undo_exit(fact.container_id)
            cgroup = Cgroup(fact.container_id, fact.pod_uid, at, after, old, old)
            self.cgroups[cgroup.id] = cgroup
        elif cgroup is None or gone or fact.populated:
            return NOTHING
        else:
            cgroup.emptied, cgroup.emptied_after, cgroup.done = at, after, False
            cgroup.standing, cgroup.exact = None, fact.at_wall_ns > 0
            # If the time is not exact, the last process may have ended long before.
            if cgroup.lasted is None and cgroup.exact and at > cgroup.since + LASTING:
                cgroup.lasted = at
        return Outcome(self.weigh(cgroup))

    def was_read(self, fact: CgroupsRead) -> Outcome:
        """Take a complete read: a cgroup without a change since has its processes still."""
        before, self.read, self.last = self.read, fact.requested, fact
        findings: tuple[Finding, ...] = ()
        for cgroup in self.cgroups.values():
            if cgroup.emptied is not None and (cgroup.moved or cgroup.id in fact.moved):
                findings += self._moved(cgroup, before, fact)
            new = cgroup.lasted is None and cgroup.emptied is None
            if new and fact.requested > cgroup.since + LASTING:
                cgroup.lasted = fact.requested
                findings += self.weigh(cgroup)
        return Outcome(findings)

    def _moved(self, cgroup: Cgroup, before: float, read: CgroupsRead) -> tuple[Finding, ...]:
        """Note whether the processes may have moved; if not, they ended after the read before."""
        if cgroup.verdict:
            return ()
        cgroup.moved = cgroup.id in read.moved
        cgroup.emptied, cgroup.emptied_after, cgroup.exact = read.requested, before, False
        self._undo_exit(cgroup.id)
        return self.weigh(cgroup)

    def lost(self, _fact: CgroupsLost) -> Outcome:
        """Forget all cgroups but those of ghosts: their processes do not come back."""
        self.read = -math.inf
        ghosts = [each for each in self.cgroups.values() if each.verdict is Verdict.GHOST]
        self.cgroups = {ghost.id: ghost for ghost in ghosts}
        self.dead = {each: its for each, its in self.dead.items() if its.verdict}
        self.frozen = {}
        return NOTHING

    def judge(self, requested: float, findings: list[Finding]) -> None:
        """Compare all cgroups with the relist that was just taken."""
        if self.first == math.inf:
            self.first = requested
            if self.read >= requested:
                runs = (each for each in self.memory.live.values() if each.state is _RUNNING)
                self.never_populated = {each.id for each in runs} - self.cgroups.keys()
        pods: dict[str, Pod | bool] | None = None
        for cgroup in list(self.cgroups.values()):
            entry = self.memory.live.get(cgroup.id)
            if entry is not None and entry.state is ListedState.CREATED:
                self._undo_start(cgroup, entry, requested)
            if not cgroup.done:
                findings += self.weigh(cgroup)
            if cgroup.pod is None and cgroup.pod_uid:
                pods = self._pods() if pods is None else pods
                cgroup.pod = pods.get(cgroup.pod_uid)
            self._compare(cgroup, entry, requested, findings)
        if self.last is not None and self.read >= requested:
            # Another ghost of its handler may void the proof; a standing ghost stays one.
            proven = (each for each, its in self.dead.items() if its.verdict)
            dead = {*(self.last.dead or ()), *proven} - self.cgroups.keys()
            self.dead = self._stand(Verdict.GHOST, self.dead, sorted(dead), requested, findings)
            frozen = self._stand(Verdict.FROZEN, self.frozen, self.last.frozen, requested, findings)
            self.frozen = frozen

    def _is_dead(self, container_id: str) -> bool:
        """Whether a read proves that the container has no process."""
        last = self.last
        return container_id in self.dead or (last is not None and container_id in (last.dead or ()))

    def _stand(
        self,
        verdict: Verdict,
        known: dict[str, Standing],
        ids: Iterable[str],
        requested: float,
        findings: list[Finding],
    ) -> dict[str, Standing]:
        """Judge containers that a read found dead or frozen, and that the list shows running."""
        standings: dict[str, Standing] = {}
        for each in ids:
            entry = self.memory.live.get(each)
            if entry is None or entry.state is not ListedState.RUNNING:
                continue
            standing = known.get(each) or Standing(verdict, requested, self.grace)
            standings[each] = standing
            if standing.shown(requested):
                found = entry.finding(verdict, Lifecycle.DIED)
                before, limit = standing.since == self.first, None
                if verdict is Verdict.GHOST:
                    # The proof may have come later.
                    before, limit = each in self.never_populated, self._limit(entry)
                findings.append(found._replace(before=before, limit=limit))
        return standings

    def _limit(self, entry: Entry) -> Limit | None:
        """Whose memory limit it was, if an OOM kill ended that ghost."""
        if entry.exit is not None and entry.exit.oom:
            return entry.exit.oom
        killed = self.last.killed if self.last is not None else ()
        return Limit.UNKNOWN if entry.id in killed else None

    def is_elsewhere(self, entry: Entry | None) -> bool:
        """Whether the processes of that container are not in its cgroup."""
        sandbox = self.memory.peek(entry.sandbox_id) if entry is not None else None
        return sandbox is not None and sandbox.elsewhere

    def _compare(
        self, cgroup: Cgroup, entry: Entry | None, requested: float, findings: list[Finding]
    ) -> None:
        """Judge whether the list contradicts the cgroup; forget a cgroup that is settled."""
        state = entry.state if entry is not None else None
        cgroup.before &= state in _OVER
        since, verdict = cgroup.since, Verdict.STRAY
        if cgroup.emptied is not None:
            since, verdict = cgroup.emptied, Verdict.GHOST
            running = state is ListedState.RUNNING and not self.is_elsewhere(entry)
            contradicted = running and self.lives(cgroup.id) is False
        elif state is ListedState.EXITED:
            # It begins with this list: the processes may need a moment to end.
            since, contradicted = max(since, requested), not self.is_elsewhere(entry)
        else:
            contradicted = state is None and isinstance(cgroup.pod, Pod)
        if contradicted and cgroup.emptied is None and not cgroup.verdict:
            contradicted = not self._may_be_anothers(cgroup, entry)
        standing = cgroup.standing
        if not contradicted:
            cgroup.standing = None
            if cgroup.emptied is not None and state in _OVER and requested > since + self.grace:
                del self.cgroups[cgroup.id]
            return
        # "Listed as EXITED" is another contradiction than "not listed".
        is_shown_now = standing is not None and cgroup.since == standing.since < since
        if standing is None or (is_shown_now and not standing.verdict):
            may_be_new = not cgroup.old and self.memory.peek(cgroup.id) is None
            patience = CREATION if may_be_new else self.grace
            standing = cgroup.standing = Standing(verdict, since, patience)
        lasts = cgroup.lasted is not None or cgroup.emptied is not None
        if lasts and self.read >= requested and standing.shown(requested):
            pod = cgroup.pod if isinstance(cgroup.pod, Pod) else None
            event = Lifecycle.REMOVED if state is None else Lifecycle.DIED
            found = (entry or Entry(cgroup.id, pod=pod)).finding(verdict, event)
            limit = self._limit(entry) if entry and verdict is Verdict.GHOST else None
            findings.append(found._replace(before=cgroup.before, limit=limit))

    def _may_be_anothers(self, cgroup: Cgroup, entry: Entry | None) -> bool:
        """Whether these processes may be those of another running container of the pod.

        They may if that one had none of its own when these came, unless it is known to be dead.
        """
        uid = cgroup.pod_uid or self._uid(entry)
        for each in self.memory.live.values():
            if each.state is not ListedState.RUNNING or each.kind is not ObjectKind.CONTAINER:
                continue
            if not uid or self._uid(each) != uid:
                continue
            own = self.cgroups.get(each.id)
            if own is None:
                if not (each.id in self.dead and self.dead[each.id].verdict):
                    return True
            elif own.emptied is not None and not own.verdict:
                left = own.emptied - MOVING if own.exact else own.emptied_after
                if own.moved or cgroup.since > left:
                    return True
        return False

    def _uid(self, entry: Entry | None) -> str:
        """The uid of its pod, which lists may name only for its sandbox; "" if it is not known."""
        sandbox = self.memory.peek(entry.sandbox_id) if entry else None
        pod = (entry and entry.pod) or (sandbox and sandbox.pod)
        return pod.uid if pod else ""

    def _pods(self) -> dict[str, Pod | bool]:
        """The pods that this list shows, by uid; False if their processes are elsewhere."""
        pods: dict[str, Pod | bool] = {}
        for entry in self.memory.live.values():
            if entry.state is not None and entry.pod is not None:
                elsewhere = entry.elsewhere or pods.get(entry.pod.uid) is False
                pods[entry.pod.uid] = False if elsewhere else entry.pod
        return pods

    def weigh(self, cgroup: Cgroup) -> tuple[Finding, ...]:
        """Prove the events that the cgroup, with what else is known of the container, proves."""
        entry = self.memory.live.get(cgroup.id)
        if entry is None or self.trust.horizon == math.inf or self.is_elsewhere(entry):
            return ()
        lasted = cgroup.lasted is not None and not cgroup.set_up_slowly and not self.sets_up_early
        entry.lasted |= lasted
        findings: tuple[Finding, ...] = ()
        if not cgroup.old and (lasted or entry.steps[Lifecycle.STARTED].announced is not None):
            at = cgroup.lasted or cgroup.since
            findings += self._prove(entry, Lifecycle.STARTED, at, cgroup.after)
        if cgroup.emptied is None:
            cgroup.done = lasted
        elif (lasted or entry.ran) and not cgroup.moved:
            after = cgroup.emptied_after
            findings += self._prove(entry, Lifecycle.DIED, cgroup.emptied, after)
        return findings

    def _prove(
        self, entry: Entry, event: Lifecycle, at: float, after: float
    ) -> tuple[Finding, ...]:
        """Prove an event between `after` and `at`, unless it is proven or predates observation."""
        step = entry.steps[event]
        if event <= entry.excused_up_to or step.proven is not None or step.kernel is not None:
            return ()
        findings = () if step.kernel_first else (entry.finding(Verdict.WITNESSED, event),)
        step.kernel, step.kernel_first = at, True
        if not self.trust.judging:
            return findings
        self.still_open[entry.id] = entry
        verdict = self.trust.prove(entry, event, step, at, after)
        return findings if verdict is None else (*findings, entry.finding(verdict, event))

    def _undo_start(self, cgroup: Cgroup, entry: Entry, requested: float) -> None:
        """Take back a start: a list shows the container created, though its processes last."""
        if requested < cgroup.since:
            return
        cgroup.set_up_slowly = True
        if entry.lasted:
            cgroup.done = entry.lasted = False
            for step in (entry.steps[Lifecycle.STARTED], entry.steps[Lifecycle.DIED]):
                if step.kernel_first and step.waits:
                    step.apply(StepInput.TAKE_BACK)
                    step.proven = step.kernel = None

    def _undo_exit(self, container_id: str) -> None:
        """Take back an exit: there are processes again."""
        entry = self.memory.live.get(container_id)
        died = entry.steps[Lifecycle.DIED] if entry is not None else None
        if died is not None and died.kernel_first and died.waits:
            died.apply(StepInput.TAKE_BACK)
            died.proven = died.kernel = None
