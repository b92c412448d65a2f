"""OOM kills: the kernel's counts, paired with what the runtime announced of their containers.

Each kill has one kind, and so has each word OOMKilled that no kill made. A kill is judged by the
first relist after its container's exit was announced, at the latest by one that was requested after
the grace; a word by one that was. A container's own count may be gone before it is read, and not
all have a pod that keeps it: so a word takes a kill of the node's that is known of no pod.

Nothing is said while the counts cannot be read, of containers older than they, and of handlers that
keep processes elsewhere. Blind spots: a kill of a process outside of pods may pass for that of a
container which is wrongly said to be OOM-killed at the same time; and of the kills of several
processes in one container that ends by one of them, the others survived.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from exporter.model.events import Lifecycle, ListedState, ObjectKind, Pod
from exporter.model.facts import CgroupChanged, Killed, KillsCounted
from exporter.model.findings import Finding, Verdict
from exporter.model.labels import Limit, OomKill
from exporter.pleg.entry import Entry
from exporter.pleg.kernel import Kernel
from exporter.pleg.memory import Memory
from exporter.pleg.steps import Exit

REASON: Final = "OOMKilled"
_SIGKILL: Final = 137
# Seconds from a kill's count to its container's end, within which that kill made it an error.
_AT_ONCE: Final = 1.0
# So many times the grace.
_DOUBTFUL: Final = 1.5
# Seconds between what one read shows.
_NEAR: Final = 0.1
# More kills at a time are the node's.
WAITING: Final = 4096


class _Kill(NamedTuple):
    """One kill; `pod`: its container may be forgotten before it is judged."""

    fact: Killed
    pod: Pod | None


@dataclass(slots=True)
class Oom:
    """The kills and words that are not judged yet. `grace`: seconds.

    `node`: the node's kills of processes; None while nothing is counted, which it is since `since`.
    `attributed`: those of them that are known of a pod. `said`: those that were said to be known of
    none. `settled`: those so long ago that no word of theirs can be under way any more.
    """

    grace: float
    memory: Memory
    kernel: Kernel
    node: int | None = None
    since: float = math.inf
    attributed: int = 0
    said: int = 0
    settled: int = 0
    # When the node's count had risen, and how high.
    _rises: list[tuple[float, int]] = field(default_factory=list)
    _kills: list[_Kill] = field(default_factory=list)
    _words: dict[str, tuple[float, Pod | None]] = field(default_factory=dict)
    # Containers of which a process was killed before: the word sticks to them.
    _survived: set[str] = field(default_factory=set)
    # When each container's last process ended, and its pod.
    _ended: dict[str, tuple[float, str]] = field(default_factory=dict)

    def counted(self, fact: KillsCounted) -> None:
        """Take the node's count."""
        if self.node is None or fact.number is None:
            self.since = fact.at
            self.attributed = self.said = self.settled = 0
            self._rises.clear()
            self._kills.clear()
            self._words.clear()
        self.node = fact.number
        if fact.number is not None:
            self._rises.append((fact.at, fact.number))

    def killed(self, fact: Killed) -> None:
        """Take a count that rose."""
        is_full = len(self._kills) + fact.number > WAITING
        if self.node is None or is_full or self._is_elsewhere(fact):
            return
        self.attributed += max(0, fact.processes)
        self._kills += [_Kill(fact, self._pod(fact.pod_uid))] * fact.number

    def changed(self, fact: CgroupChanged) -> None:
        """Remember when it emptied."""
        if fact.populated:
            self._ended.pop(fact.container_id, None)
        elif self.node is not None:
            self._ended[fact.container_id] = fact.at, fact.pod_uid

    def announced(self, entry: Entry, at: float) -> None:
        """Its first STOPPED came."""
        known = entry.exit
        if self.node is not None and known is not None and known.reason == REASON:
            self._words[entry.id] = at, entry.pod

    def judge(self, requested: float) -> Iterable[Finding]:
        """Judge what is due, at the end of a relist."""
        if self.node is None:
            return
        kills, self._kills = self._kills, []
        for kill in kills:
            if (finding := self._of_kill(kill, requested)) is None:
                self._kills.append(kill)
            else:
                yield finding
        # Those that may be of an older kill, or of one that ended nothing, leave others the choice.
        for container_id in sorted(self._words, key=self._is_doubtful):
            at, pod = self._words[container_id]
            wait = _DOUBTFUL if self._is_doubtful(container_id) else 1.0
            if requested > at + wait * self.grace:
                del self._words[container_id]
                yield from self._of_word(container_id, pod)
        self._survived = {each for each in self._survived if self.memory.peek(each) is not None}
        yield from self._of_node(requested)
        kept = requested - 2 * self.grace
        if self._ended and not self._kills:
            self._ended = {key: each for key, each in self._ended.items() if each[0] > kept}

    def _is_doubtful(self, container_id: str) -> bool:
        """Whether its word may have another reason than a kill that ended it."""
        entry = self.memory.peek(container_id)
        ended_well = entry is not None and entry.exit is not None and not entry.exit.exit_code
        return ended_well or container_id in self._survived

    def _of_kill(self, waiting: _Kill, requested: float) -> Finding | None:
        """The verdict on it; None if it is too early."""
        kill, pod = waiting
        over = requested > kill.at + self.grace
        entry = self._victim(kill, over=over)
        known = entry.exit if entry is not None else None
        code = known.exit_code if known is not None and not known.oom else None
        if code is None and not over:
            return None
        kind = OomKill.SURVIVED
        if entry is None:
            pod = pod or self._pod(kill.pod_uid)
            if pod is None:
                # It may be of another runtime on this machine: only that one knows how it went on.
                return _UNATTRIBUTED
            return _finding(kind, Entry(kill.container_id), pod, kill.limit)
        if code is None:
            if self._has_ended(entry) and not (known and known.oom):
                kind = OomKill.UNANNOUNCED
        elif code and known is not None and self._ended_within(entry, kill, self.grace):
            if known.reason == REASON:
                kind = OomKill.ANNOUNCED
            elif code == _SIGKILL and self._ended_within(entry, kill, _AT_ONCE):
                kind = OomKill.ANNOUNCED_AS_ERROR
        if kind is OomKill.SURVIVED:
            self._survived.add(entry.id)
        else:
            entry.exit = known or Exit()
            entry.exit.oom = kill.limit
        return _finding(kind, entry, pod, kill.limit)

    def _of_word(self, container_id: str, pod: Pod | None) -> Iterable[Finding]:
        """The verdict on an OOMKilled that no kill is known for."""
        entry = self.memory.peek(container_id)
        known = entry.exit if entry is not None else None
        if entry is None or known is None or known.oom or self.kernel.is_elsewhere(entry):
            return
        if (self.node or 0) > self.attributed + self.said:
            self.attributed += 1
            kind = OomKill.ANNOUNCED if known.exit_code else OomKill.SURVIVED
            known.oom = Limit.UNKNOWN if kind is OomKill.ANNOUNCED else None
            yield _finding(kind, entry, pod, Limit.UNKNOWN)
        if not known.oom and self._is_younger(entry):
            yield _finding(OomKill.REASON_ONLY, entry, pod, None)

    def _of_node(self, requested: float) -> Iterable[Finding]:
        """Those of the node's that are settled, and more than all that are known of a pod.

        Of younger kills some are among the latter: while there are, too few are said, and none
        wrongly.
        """
        while self._rises and requested > self._rises[0][0] + 2 * self.grace:
            _, self.settled = self._rises.pop(0)
        number = min(self.settled - self.attributed - self.said, WAITING)
        if number > 0:
            self.said += number
            yield from (_UNATTRIBUTED for _ in range(number))

    def _victim(self, kill: Killed, *, over: bool) -> Entry | None:
        """The container that it killed a process of; of a pod's, the one that ended by it.

        `over`: the grace is over, so the likeliest has to do.
        """
        if kill.container_id:
            return self.memory.peek(kill.container_id)
        of_pod = [
            (abs(at - kill.at), entry)
            for key, (at, uid) in self._ended.items()
            if uid == kill.pod_uid and abs(at - kill.at) <= self.grace
            if (entry := self.memory.peek(key)) is not None
            if entry.exit is None or not entry.exit.oom
        ]
        # A pod's count is read when one of its containers has ended: that one, or else any near.
        ended = [entry for apart, entry in of_pod if apart <= _NEAR] or [it for _, it in of_pod]
        # Of equal ones, one that no other kill is known for.
        best = min(ended, key=lambda it: (_rank(it), it.id in self._survived), default=None)
        return best if over or (best is not None and _rank(best) == 0) or len(ended) == 1 else None

    def _ended_within(self, entry: Entry, kill: Killed, seconds: float) -> bool:
        ended = self._ended.get(entry.id)
        return ended is None or ended[0] <= kill.at + seconds

    def _has_ended(self, entry: Entry) -> bool:
        over = entry.state is ListedState.EXITED or (entry.listed and entry.state is None)
        cgroup = self.kernel.cgroups.get(entry.id)
        return over or (entry.id in self._ended and not (cgroup is not None and cgroup.moved))

    def _is_younger(self, entry: Entry) -> bool:
        """Whether all of its life was counted."""
        begun = [step.proven or step.announced for step in entry.steps[: Lifecycle.DIED]]
        times = [at for at in begun if at is not None]
        return bool(times) and min(times) > self.since and not entry.before_baseline

    def _pod(self, uid: str) -> Pod | None:
        pods = (entry.pod for entry in self.memory.live.values() if entry.pod is not None)
        return next((pod for pod in pods if uid and pod.uid == uid), None)

    def _is_elsewhere(self, fact: Killed) -> bool:
        if fact.container_id:
            return self.kernel.is_elsewhere(self.memory.peek(fact.container_id))
        return any(
            entry.elsewhere and entry.pod is not None and entry.pod.uid == fact.pod_uid
            for entry in self.memory.live.values()
        )


def _rank(entry: Entry) -> int:
    """How likely it ended by a kill; the likeliest first."""
    known = entry.exit
    if known is None or known.exit_code is None:
        return 2
    if known.reason == REASON and known.exit_code:
        return 0
    return 1 if known.exit_code == _SIGKILL else 3


def _finding(kind: OomKill, entry: Entry, pod: Pod | None, limit: Limit | None) -> Finding:
    who = entry.id, entry.name, entry.pod or pod
    found = Finding(Verdict.OOM, Lifecycle.DIED, ObjectKind.CONTAINER, *who, kind)
    return found._replace(limit=limit)


_UNATTRIBUTED: Final = _finding(OomKill.UNATTRIBUTED, Entry(""), None, None)
