"""OOM kills: the kernel's counts, paired with the exits that the runtime announced.

Each kill gets one kind, and so does each announced reason OOMKilled without a kill. The first
relist after the announcement of its container's exit judges a kill, at the latest one requested
after the grace. Only such a late one judges a reason. A container's own count may be gone before it
is read, and not every container has a pod whose count includes it. So an OOMKilled reason without a
kill takes one from the node's count that no pod has.

Nothing is judged while the counts cannot be read, nor for handlers that keep processes elsewhere;
and no reason of a container older than the counts is called wrong. Blind spots: a kill outside of
pods may pass for that of a container that is wrongly announced as OOMKilled at the same time; if
several processes of a container are killed and one kill ends it, the other kills count as survived.
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
# Seconds, at most, from a kill's count to the exit that it caused, if that has another reason.
_AT_ONCE: Final = 1.0
# A doubtful OOMKilled reason waits so many times the grace.
_DOUBTFUL: Final = 1.5
# Seconds between a pod's count and the exit beside which it was read.
_NEAR: Final = 0.1
# Kills that wait for a verdict, at most; more show only in the node's count.
WAITING: Final = 4096


class _Kill(NamedTuple):
    """One kill, with its `pod`: the container may be forgotten before the kill is judged."""

    fact: Killed
    pod: Pod | None


@dataclass(slots=True)
class Oom:
    """The kills and OOMKilled reasons that are not judged yet. `grace`: seconds.

    `node`: the node's count of killed processes since `since`; None while nothing is counted.
    `attributed`: how many of them a pod is known for. `unattributed`: how many were found so.
    `settled`: how many are so old that no OOMKilled reason for them can be under way any more.
    """

    grace: float
    memory: Memory
    kernel: Kernel
    node: int | None = None
    since: float = math.inf
    attributed: int = 0
    unattributed: int = 0
    settled: int = 0
    # When the node's count was read, and the count.
    _rises: list[tuple[float, int]] = field(default_factory=list)
    _kills: list[_Kill] = field(default_factory=list)
    # When each OOMKilled was announced, and its pod, by container id.
    _reasons: dict[str, tuple[float, Pod | None]] = field(default_factory=dict)
    # Containers that survived a kill: the runtime may announce a later exit as OOMKilled, too.
    _survived: set[str] = field(default_factory=set)
    # When each container's last process ended, and its pod.
    _ended: dict[str, tuple[float, str]] = field(default_factory=dict)

    def counted(self, fact: KillsCounted) -> None:
        """Take the node's count."""
        if self.node is None or fact.number is None:
            self.since = fact.at
            self.attributed = self.unattributed = self.settled = 0
            self._rises.clear()
            self._kills.clear()
            self._reasons.clear()
        self.node = fact.number
        if fact.number is not None:
            self._rises.append((fact.at, fact.number))

    def killed(self, fact: Killed) -> None:
        """Take new kills of one container or pod."""
        is_full = len(self._kills) + fact.number > WAITING
        if self.node is None or is_full or self._is_elsewhere(fact):
            return
        self.attributed += max(0, fact.processes)
        self._kills += [_Kill(fact, self._pod(fact.pod_uid))] * fact.number

    def changed(self, fact: CgroupChanged) -> None:
        """Remember when a cgroup's last process ended."""
        if fact.populated:
            self._ended.pop(fact.container_id, None)
        elif self.node is not None:
            self._ended[fact.container_id] = fact.at, fact.pod_uid

    def announced(self, entry: Entry, at: float) -> None:
        """Note the reason of a container's first STOPPED, if it is OOMKilled."""
        known = entry.exit
        if self.node is not None and known is not None and known.reason == REASON:
            self._reasons[entry.id] = at, entry.pod

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
        # Doubtful reasons come last: others take the node's kills first.
        for container_id in sorted(self._reasons, key=self._is_doubtful):
            at, pod = self._reasons[container_id]
            wait = _DOUBTFUL if self._is_doubtful(container_id) else 1.0
            if requested > at + wait * self.grace:
                del self._reasons[container_id]
                yield from self._of_reason(container_id, pod)
        self._survived = {each for each in self._survived if self.memory.peek(each) is not None}
        yield from self._of_node(requested)
        kept = requested - 2 * self.grace
        if self._ended and not self._kills:
            self._ended = {key: each for key, each in self._ended.items() if each[0] > kept}

    def _is_doubtful(self, container_id: str) -> bool:
        """Whether its OOMKilled may come from an earlier kill, or from one that did not end it."""
        entry = self.memory.peek(container_id)
        ended_well = entry is not None and entry.exit is not None and not entry.exit.exit_code
        return ended_well or container_id in self._survived

    def _of_kill(self, waiting: _Kill, requested: float) -> Finding | None:
        """The verdict on a kill; None if it is too early."""
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
                # It may be another runtime's: only that one knows what became of the container.
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

    def _of_reason(self, container_id: str, pod: Pod | None) -> Iterable[Finding]:
        """The verdict on an OOMKilled for which no kill is known."""
        entry = self.memory.peek(container_id)
        known = entry.exit if entry is not None else None
        if entry is None or known is None or known.oom or self.kernel.is_elsewhere(entry):
            return
        if (self.node or 0) > self.attributed + self.unattributed:
            self.attributed += 1
            kind = OomKill.ANNOUNCED if known.exit_code else OomKill.SURVIVED
            known.oom = Limit.UNKNOWN if kind is OomKill.ANNOUNCED else None
            yield _finding(kind, entry, pod, Limit.UNKNOWN)
        if not known.oom and self._is_younger(entry):
            yield _finding(OomKill.REASON_ONLY, entry, pod, None)

    def _of_node(self, requested: float) -> Iterable[Finding]:
        """The verdicts on kills of the node that no pod is known for: settled minus attributed.

        The attributed ones may include younger kills. Then too few are found for now, and none
        wrongly.
        """
        while self._rises and requested > self._rises[0][0] + 2 * self.grace:
            _, self.settled = self._rises.pop(0)
        number = min(self.settled - self.attributed - self.unattributed, WAITING)
        if number > 0:
            self.unattributed += number
            yield from (_UNATTRIBUTED for _ in range(number))

    def _victim(self, kill: Killed, *, over: bool) -> Entry | None:
        """The container of a kill; if only the pod is known, the one that ended by the kill.

        `over`: the grace is over, so take the likeliest.
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
        # A pod's count is read when one of its containers ends: that one, else any in the grace.
        ended = [entry for apart, entry in of_pod if apart <= _NEAR] or [it for _, it in of_pod]
        # Of equally likely ones, take one that has not survived another kill.
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
        """Whether the counts cover the container's whole life."""
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
    """How likely a kill ended the container; 0 is the likeliest."""
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
