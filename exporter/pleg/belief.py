"""What the kubelet believes about its containers, and where all other witnesses contradict it.

STALE: it shows a container running that the lists, and the kernel if it is read, show ended.
DISAGREES: it shows another exit code or reason than the runtime announced. UNKNOWN_TO_KUBELET: a
container still runs whose pod the kubelet has dropped. OVERDUE: a pod should have ended, and a
process, the runtime or the kubelet is late. Each is found only once the kubelet, asked about that
pod, says the same again: its watch may have dropped or delayed an update. Blind spots: a pod that
the kubelet has never shown is taken for another client's; what it showed before the watch began;
who is late with a sandbox, or with a container whose processes are not seen.
"""

from dataclasses import dataclass, field
from typing import Final

from exporter.model.events import Lifecycle, ListedState, ObjectKind, Pod, Status
from exporter.model.facts import BeliefsLost, BeliefsShown, Believed
from exporter.model.findings import NOTHING, Finding, Outcome, Verdict
from exporter.pleg.entry import Entry
from exporter.pleg.kernel import Kernel
from exporter.pleg.memory import Memory
from exporter.pleg.steps import KUBELETS, Standing

_RUNNING: Final = ListedState.RUNNING
_EXITED: Final = ListedState.EXITED
# The runtime sets this reason only after it has announced the exit.
_AMENDED: Final = "OOMKilled"


@dataclass(slots=True)
class Belief:
    """One container as the kubelet shows it."""

    status: Status
    pod: Pod
    # When the kubelet showed it, in seconds; and whether unasked, after its first pods.
    at: float
    is_news: bool
    # Whether this watch has shown it.
    current: bool = True
    # The contradiction of the other witnesses, if any.
    standing: Standing | None = None
    # What is found if the kubelet says the same again; and what was found and still holds.
    suspected: Verdict | None = None
    verdict: Verdict | None = None


@dataclass(slots=True)
class Ending:
    """A terminating pod whose containers must have ended by `due`.

    The other fields are as in `Belief`.
    """

    pod: Pod
    due: float
    current: bool = True
    standing: Standing | None = None
    suspected: Verdict | None = None
    verdict: Verdict | None = None


@dataclass(slots=True)
class Beliefs:
    """What the kubelet shows; its client bounds the number of pods and containers."""

    memory: Memory
    kernel: Kernel
    # How many seconds the kubelet may be behind.
    patience: float = KUBELETS
    # Seconds for which a kubelet that starts may show the API server's status, not its own.
    settles: float = 120.0
    # Whether it has shown all its pods; and from when on it shows only what it has checked itself.
    known: bool = False
    settled: float = 0.0
    # The containers that it shows, by id; and those that ran when it dropped their pod.
    shown: dict[str, Belief] = field(default_factory=dict)
    dropped: dict[str, Belief] = field(default_factory=dict)
    # Pods that are to be removed, and those about which the kubelet is to be asked, by uid.
    ending: dict[str, Ending] = field(default_factory=dict)
    doubted: dict[str, Pod] = field(default_factory=dict)

    def ended(self, container_id: str) -> Belief | None:
        """The belief that this container has ended."""
        belief = self.shown.get(container_id)
        return belief if belief and belief.status.state is _EXITED else None

    def apply(self, fact: Believed) -> tuple[Finding, ...]:
        """Take what the kubelet shows of one pod; an answer may confirm a suspicion."""
        pod = fact.pod
        for status in fact.changed:
            before = self.shown.get(status.id)
            if before is not None and before.status == status:
                before.current = True
            else:
                is_news = self.known and not fact.asked
                self.shown[status.id] = Belief(status, pod, fact.at, is_news)
            self.dropped.pop(status.id, None)
        for gone in fact.gone:
            belief, entry = self.shown.pop(gone, None), self.memory.live.get(gone)
            if belief is None or entry is None or not fact.removed:
                continue
            if belief.status.state is _RUNNING and entry.state is _RUNNING:
                runs = Standing(Verdict.UNKNOWN_TO_KUBELET, fact.at, fact.patience + self.patience)
                self.dropped[gone] = Belief(belief.status, pod, fact.at, self.known, standing=runs)
        self._take_due(fact)
        if not fact.removed:
            self.dropped = {
                each: its for each, its in self.dropped.items() if its.pod.uid != pod.uid
            }
        return self._confirmed(pod.uid) if fact.asked and self.known else ()

    def _take_due(self, fact: Believed) -> None:
        known = self.ending.get(fact.pod.uid)
        if fact.removed or fact.due is None:
            self.ending.pop(fact.pod.uid, None)
        elif known is None:
            self.ending[fact.pod.uid] = Ending(fact.pod, fact.due)
        else:
            # A new watch counts the same grace from a later time: the earlier `due` holds.
            known.due, known.current = min(known.due, fact.due), True

    def all_shown(self, fact: BeliefsShown) -> Outcome:
        """Drop what only an earlier watch showed: the kubelet has shown all its pods now."""
        self.known = True
        if fact.restarted:
            self.settled = fact.at + self.settles
        self.shown = {each: belief for each, belief in self.shown.items() if belief.current}
        self.ending = {each: its for each, its in self.ending.items() if its.current}
        return NOTHING

    def lost(self, _fact: BeliefsLost) -> Outcome:
        """Forget what the kubelet showed, but keep findings until the next watch has shown all."""
        self.known = False
        self.doubted = {}
        self.shown = {each: belief for each, belief in self.shown.items() if belief.verdict}
        self.dropped = {each: belief for each, belief in self.dropped.items() if belief.verdict}
        self.ending = {each: its for each, its in self.ending.items() if its.verdict}
        for belief in self.shown.values():
            belief.current = False
        for ending in self.ending.values():
            ending.current = False
        return NOTHING

    def compare(self, entry: Entry, exit_code: int, reason: str) -> None:
        """Compare the exit that the kubelet shows with the one that was announced."""
        belief = self.shown[entry.id]
        status = belief.status
        same = status.reason in {reason, _AMENDED} or not (status.reason and reason)
        if status.exit_code == exit_code and same:
            return
        belief.suspected = Verdict.DISAGREES
        if self.known and belief.at > self.settled:
            # Ask at once: by the next list the kubelet may have dropped the pod.
            self.doubted[belief.pod.uid] = belief.pod

    def judge(self, requested: float) -> None:
        """Compare what the kubelet shows with the relist that was just taken."""
        if self.known:
            self._judge_shown(requested)
            self._judge_endings(requested)
        for container_id, belief in list(self.dropped.items()):
            entry = self.memory.live.get(container_id)
            if entry is None or entry.state is not _RUNNING:
                del self.dropped[container_id]
            elif belief.standing is not None and belief.standing.shown(requested):
                belief.suspected = Verdict.UNKNOWN_TO_KUBELET
        asks = self.known and requested > self.settled
        doubted: list[Belief | Ending] = [belief for _, belief in self._all()]
        doubted += self.ending.values()
        suspected = (its.pod for its in doubted if asks and its.suspected)
        self.doubted = {pod.uid: pod for pod in suspected}

    def _judge_shown(self, requested: float) -> None:
        for container_id, belief in self.shown.items():
            if belief.status.state is _RUNNING and requested > belief.at:
                self._judge_running(belief, self.memory.peek(container_id), requested)

    def _judge_running(self, belief: Belief, entry: Entry | None, requested: float) -> None:
        if entry is not None and self._has_ended(entry):
            belief.standing = belief.standing or Standing(Verdict.STALE, requested, self.patience)
            if belief.standing.shown(requested):
                belief.suspected = Verdict.STALE
        elif entry is not None or not belief.verdict:
            belief.standing = belief.suspected = belief.verdict = None

    def _judge_endings(self, requested: float) -> None:
        """Find out who is late with each pod that should have ended."""
        overdue = [its for its in self.ending.values() if requested > its.due]
        for ending, entries in zip(overdue, self._entries(overdue), strict=True):
            late = self._late(entries)
            if late is None:
                ending.standing = ending.suspected = ending.verdict = None
            elif ending.standing is None or ending.standing.kind is not late:
                since = ending.due if ending.standing is None else requested
                ending.standing = Standing(late, since, self.patience)
                ending.suspected = ending.verdict = None
            if ending.standing is not None and ending.standing.shown(requested):
                ending.suspected = late

    def _entries(self, endings: list[Ending]) -> list[list[Entry]]:
        """The entries of each of these pods. A list may name the pod of a sandbox only."""
        of: dict[str, dict[str, Entry]] = {its.pod.uid: {} for its in endings}
        for entry in self.memory.live.values() if of else ():
            if entry.state is None and entry.id not in self.shown:
                continue
            belief, home = self.shown.get(entry.id), self.memory.peek(entry.sandbox_id)
            for its in (belief, entry, home):
                if its is not None and its.pod is not None and its.pod.uid in of:
                    of[its.pod.uid][entry.id] = entry
        return [list(entries.values()) for entries in of.values()]

    def _late(self, entries: list[Entry]) -> Verdict | None:
        """The verdict for the side that is late; None if none is, or if that is not known."""
        running = [each for each in entries if each.state is _RUNNING]
        if not running:
            return Verdict.OVERDUE_KUBELET
        seen = [self.kernel.lives(each.id) for each in running if each.kind is ObjectKind.CONTAINER]
        if not seen or None in seen or any(map(self.kernel.is_elsewhere, running)):
            return None
        return Verdict.OVERDUE_PROCESS if any(seen) else Verdict.OVERDUE_RUNTIME

    def _has_ended(self, entry: Entry) -> bool:
        """Whether the last list shows the container exited, or lacks it, and the kernel agrees."""
        listed = entry.state is _EXITED or (entry.state is None and entry.listed)
        return listed and not self.kernel.lives(entry.id)

    def _confirmed(self, uid: str) -> tuple[Finding, ...]:
        """The findings about that pod that the kubelet's answer confirms."""
        if self.doubted.pop(uid, None) is None:
            return ()
        findings: list[Finding] = []
        for container_id, belief in self._all():
            entry, suspected = self.memory.peek(container_id), belief.suspected
            if belief.pod.uid != uid or suspected is None or entry is None:
                continue
            belief.suspected = None
            if suspected is not Verdict.DISAGREES:
                belief.verdict = suspected
            found = entry.finding(suspected, Lifecycle.DIED)
            before = suspected is Verdict.STALE and entry.at_first is _EXITED
            # The kubelet's pod: the ledger forgets the pod of a container that is gone.
            findings.append(found._replace(pod=belief.pod, before=before))
        ending = self.ending.get(uid)
        if ending is not None and ending.suspected is not None:
            findings.append(self._overdue(ending, ending.suspected))
        return tuple(findings)

    def _overdue(self, ending: Ending, late: Verdict) -> Finding:
        """The finding, about one container of the pod: a running one, else one that is shown."""
        ending.suspected, ending.verdict = None, late
        (entries,) = self._entries([ending])
        entries.sort(
            key=lambda each: (each.state is not _RUNNING, each.kind is not ObjectKind.CONTAINER)
        )
        shown = (each for each, its in self.shown.items() if its.pod.uid == ending.pod.uid)
        entry = entries[0] if entries else Entry(min(shown, default=ending.pod.uid))
        over = Lifecycle.REMOVED if late is Verdict.OVERDUE_KUBELET else Lifecycle.DIED
        return entry.finding(late, over)._replace(pod=ending.pod)

    def _all(self) -> tuple[tuple[str, Belief], ...]:
        return (*self.shown.items(), *self.dropped.items())
