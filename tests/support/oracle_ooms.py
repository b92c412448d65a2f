"""OOM kills, for the oracle: read from `docs/how-it-works.md`, by the same rule as its other rooms.

Blind spot: more kills at a time than a ledger keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from exporter.model import facts
from exporter.model.findings import Verdict
from exporter.model.labels import OomKill
from tests.support.oracle_life import DIED, EXITED, Life

if TYPE_CHECKING:
    from tests.support.oracle import Oracle

SAID, BY_SIGNAL = "OOMKilled", 137
AT_ONCE, TOGETHER = 1.0, 0.1


@dataclass(slots=True)
class Ended:
    """How a container ended: what its STOPPED said when; `by_kill`: that kill was found."""

    code: int | None = None
    reason: str = ""
    heard: float = inf
    by_kill: bool = False
    word: bool = False


@dataclass(slots=True)
class Ooms:
    """All kills that wait, and all ends; `node`: the node's count since it was first read."""

    oracle: Oracle
    node: int | None = None
    since: float = inf
    waiting: list[facts.Killed] = field(default_factory=list)
    ends: dict[str, Ended] = field(default_factory=dict)
    emptied: dict[str, tuple[float, str]] = field(default_factory=dict)
    lost_one: set[str] = field(default_factory=set)
    rises: list[tuple[float, int]] = field(default_factory=list)
    known: int = 0
    unknown: int = 0

    def apply(self, fact: facts.KernelFact) -> None:
        """Take one fact."""
        match fact:
            case facts.KillsCounted():
                if self.node is None or fact.number is None:
                    self.since, self.known, self.unknown = fact.at, 0, 0
                    self.rises, self.waiting = [], []
                    for end in self.ends.values():
                        end.word = False
                self.node = fact.number
                self.rises += [(fact.at, fact.number)] if fact.number is not None else []
            case facts.Killed() if self.node is not None and not self._elsewhere(fact):
                self.known += fact.processes
                self.waiting += [fact] * fact.number
            case facts.CgroupChanged(populated=True):
                self.emptied.pop(fact.container_id, None)
            case facts.CgroupChanged() if self.node is not None:
                self.emptied[fact.container_id] = fact.at, fact.pod_uid

    def stopped(self, life: Life, at: float, code: int | None, reason: str) -> None:
        """Its first STOPPED came."""
        end = self.ends.setdefault(life.id, Ended())
        end.code, end.reason, end.heard = code, reason, at
        end.word = self.node is not None and reason == SAID

    def judge(self, requested: float) -> None:
        """Judge what is due by that list."""
        if self.node is None:
            return
        grace = self.oracle.grace
        self.waiting = [kill for kill in self.waiting if not self._is_judged(kill, requested)]
        words = [name for name, end in self.ends.items() if end.word]
        for name in sorted(words, key=self._may_stick):
            wait = 1.5 * grace if self._may_stick(name) else grace
            if requested > self.ends[name].heard + wait:
                self._word(name, self.ends[name])
        old = [number for at, number in self.rises if requested > at + 2 * grace]
        over = (old[-1] if old else 0) - self.known - self.unknown
        for _ in range(over):
            self.oracle.find("", DIED, Verdict.OOM, OomKill.UNATTRIBUTED)
        self.unknown += max(0, over)

    def _is_judged(self, kill: facts.Killed, requested: float) -> bool:
        late = requested > kill.at + self.oracle.grace
        name = kill.container_id or self._likeliest(kill, late=late)
        end = self.ends.get(name, Ended())
        announced = end.code is not None and not end.by_kill
        if not (late or announced):
            return False
        if name not in self.oracle.lives and not self._has_pod(kill):
            self.oracle.find("", DIED, Verdict.OOM, OomKill.UNATTRIBUTED)
            return True
        kind = OomKill.SURVIVED
        after = self.emptied.get(name, (-inf, ""))[0] - kill.at
        if not announced:
            if name in self.oracle.lives and not end.by_kill and self._is_over(name):
                kind = OomKill.UNANNOUNCED
        elif end.code and after <= self.oracle.grace:
            if end.reason == SAID:
                kind = OomKill.ANNOUNCED
            elif end.code == BY_SIGNAL and after <= AT_ONCE:
                kind = OomKill.ANNOUNCED_AS_ERROR
        if kind is OomKill.SURVIVED:
            self.lost_one.add(name)
        else:
            self.ends.setdefault(name, Ended()).by_kill = True
        self.oracle.find(name, DIED, Verdict.OOM, kind)
        return True

    def _likeliest(self, kill: facts.Killed, *, late: bool) -> str:
        """Of the pod's containers that ended then, the one that ended by it; "" if none did."""
        apart = {
            name: abs(at - kill.at)
            for name, (at, uid) in self.emptied.items()
            if uid == kill.pod_uid and name in self.oracle.lives
            if abs(at - kill.at) <= self.oracle.grace
            if not self.ends.get(name, Ended()).by_kill
        }
        names = [name for name in apart if apart[name] <= TOGETHER] or list(apart)
        names.sort(key=lambda name: (self._unlikely(name), name in self.lost_one))
        sure = len(names) == 1 or (names and self._unlikely(names[0]) == 0)
        return names[0] if names and (late or sure) else ""

    def _unlikely(self, name: str) -> int:
        end = self.ends.get(name, Ended())
        if end.code is None:
            return 2
        if end.code and end.reason == SAID:
            return 0
        return 1 if end.code == BY_SIGNAL else 3

    def _is_over(self, name: str) -> bool:
        life, its = self.oracle.life(name), self.oracle.cgroups.of.get(name)
        moved = its is not None and its.moved
        gone = life.listed and life.state is None
        return life.state is EXITED or gone or (name in self.emptied and not moved)

    def _may_stick(self, name: str) -> bool:
        return self.ends[name].code == 0 or name in self.lost_one

    def _word(self, name: str, end: Ended) -> None:
        """OOMKilled was announced of it, and no kill is known for that."""
        end.word, life = False, self.oracle.life(name)
        if end.by_kill or self.oracle.life(life.home).elsewhere:
            return
        if (self.node or 0) > self.known + self.unknown:
            self.known += 1
            end.by_kill = bool(end.code)
            kind = OomKill.ANNOUNCED if end.code else OomKill.SURVIVED
            self.oracle.find(name, DIED, Verdict.OOM, kind)
        begun = min(min(step.proven, step.said) for step in life.steps[:DIED])
        if not end.by_kill and self.since < begun < inf and not life.early:
            self.oracle.find(name, DIED, Verdict.OOM, OomKill.REASON_ONLY)

    def _has_pod(self, kill: facts.Killed) -> bool:
        return any(it.uid == kill.pod_uid != "" for it in self.oracle.lives.values())

    def _elsewhere(self, kill: facts.Killed) -> bool:
        if kill.container_id:
            return self.oracle.life(self.oracle.life(kill.container_id).home).elsewhere
        return any(it.elsewhere and it.uid == kill.pod_uid for it in self.oracle.lives.values())
