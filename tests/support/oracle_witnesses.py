"""The other witnesses, for the oracle: the kernel and its OOM kills, and what the kubelet believes.

Read from `docs/how-it-works.md`; nothing is shared with the ledger but the vocabulary. Blind spot:
more OOM kills at a time than a ledger keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from exporter.model import facts
from exporter.model.events import Announcement, ObjectKind, Status
from exporter.model.findings import Verdict
from exporter.model.labels import OomKill
from tests.support.oracle_life import CREATED, DIED, EXITED, REMOVED, RUNNING, STARTED, Denial, Life

if TYPE_CHECKING:
    from tests.support.oracle import Oracle

# Seconds; so far may the kubelet be behind.
LASTS, BEHIND, MOVING = 2.0, 30.0, 1.0
# Seconds that a creation may take, before which nothing names what is created.
CREATION = 360.0
# How an OOM kill is said of an end; seconds in which it ends a container, and others with it.
SAID, BY_SIGNAL = "OOMKilled", 137
AT_ONCE, TOGETHER = 1.0, 0.1


@dataclass(slots=True)
class Processes:
    """Processes in a container's cgroup; `old`: the first read may have shown them.

    `met`: a list has shown the container alive; `here`: one has shown their pod, which keeps its
    processes in its cgroups, or else does not. They came between `after` and `since`;
    `lasted`: that was known then; `slow`: a list showed it created meanwhile. The last one ended
    between `ended_after` and `ended`, unless they `moved`.
    """

    uid: str
    since: float
    after: float
    old: bool
    lasted: float = inf
    slow: bool = False
    ended: float = inf
    ended_after: float = inf
    exact: bool = False
    moved: bool = False
    denial: Denial = field(default_factory=Denial)
    patience: float = 0.0
    ghost: bool = False
    met: bool = False
    here: bool | None = None


class Cgroups:
    """All cgroups with processes; `read`: when they were last read."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.read, self.first = -inf, inf
        # Containers that ran by the first list, without a process, and have had none since.
        self.never: set[str] = set()
        self.of: dict[str, Processes] = {}
        # By what the last read says alone: containers without a process, and frozen ones.
        self.dead: tuple[str, ...] = ()
        self.frozen: tuple[str, ...] = ()
        self.denials: dict[tuple[Verdict, str], Denial] = {}

    def apply(self, fact: facts.KernelFact) -> None:
        """Take one fact."""
        match fact:
            case facts.CgroupChanged():
                self._change(fact)
                self.weigh(fact.container_id)
            case facts.CgroupsRead():
                before, self.read = self.read, fact.requested
                self.dead, self.frozen = fact.dead or (), fact.frozen
                for object_id, its in self.of.items():
                    moved = object_id in fact.moved
                    if its.ended < inf and (moved or its.moved) and not its.ghost:
                        # They have not ended yet; or have, since they were last elsewhere.
                        its.moved, its.ended, its.ended_after = moved, self.read, before
                        its.exact = False
                        if not self.oracle.life(object_id).over:
                            self.oracle.life(object_id).steps[DIED].take_back()
                        self.weigh(object_id)
                    if its.lasted == its.ended == inf and self.read > its.since + LASTS:
                        its.lasted = self.read
                        self.weigh(object_id)
            case facts.CgroupsLost():
                self.read = -inf
                self.of = {object_id: its for object_id, its in self.of.items() if its.ghost}
                dead = ((Verdict.GHOST, of) for of in self._dead())
                self.denials = {key: self.denials[key] for key in dead}

    def _change(self, fact: facts.CgroupChanged) -> None:
        its, life = self.of.get(fact.container_id), self.oracle.life(fact.container_id)
        if its is None or its.ended < inf:
            if fact.populated:
                self.never -= {fact.container_id}
                new = Processes(fact.pod_uid, fact.at, self.read, self.read == -inf)
                self.of[fact.container_id] = new
                if not life.over:
                    life.steps[DIED].take_back()
        elif not fact.populated:
            its.ended, its.ended_after, its.exact = fact.at, self.read, fact.at_wall_ns > 0
            its.denial = Denial()
            if its.lasted == inf and fact.at_wall_ns > 0 and fact.at > its.since + LASTS:
                its.lasted = fact.at

    def weigh(self, object_id: str) -> None:
        """What its processes prove, given all that is known of it."""
        its, life = self.of.get(object_id), self.oracle.lives.get(object_id)
        if its is None or life is None or life.over or self.oracle.horizon == inf:
            return
        if self.oracle.life(life.home).elsewhere:
            return
        lasted = its.lasted < inf and not its.slow and not self.oracle.profile.sets_up_early
        life.lasted |= lasted
        shown = {}
        if not its.old and (lasted or life.steps[STARTED].said < inf):
            shown[STARTED] = its.lasted if lasted else its.since, its.after
        if its.ended < inf and (lasted or life.ran) and not its.moved:
            shown[DIED] = its.ended, its.ended_after
        for event, (at, after) in shown.items():
            step = life.steps[event]
            if event > life.floor and step.proven == inf and not step.witnessed:
                self.oracle.prove(life, event, at, after)
                step.ahead = step.witnessed = True

    def judge(self, requested: float) -> None:
        """Compare them with a list."""
        if self.first == inf and self.read >= requested:
            running = {life.id for life in self.oracle.lives.values() if life.state is RUNNING}
            self.never = running - set(self.of)
        self.first = min(self.first, requested)
        for object_id, its in list(self.of.items()):
            life = self.oracle.life(object_id)
            if life.state is CREATED:
                self._set_up(life, its, requested)
            self.weigh(object_id)
            self._haunt(life, its, requested)
        if self.read >= requested:
            self._stand(requested)

    def _stand(self, requested: float) -> None:
        """Compare what the read itself says with that list."""
        dead = (self._dead() | set(self.dead)) - set(self.of)
        said = [(Verdict.GHOST, of) for of in sorted(dead)]
        said += [(Verdict.FROZEN, of) for of in self.frozen]
        said = [key for key in said if self.oracle.life(key[1]).state is RUNNING]
        self.denials = {key: self.denials.get(key, Denial()) for key in said}
        for (verdict, of), denial in self.denials.items():
            if denial.by(requested, requested, self.oracle.grace):
                ghost, first = verdict is Verdict.GHOST, denial.since == self.first
                self.oracle.find(of, DIED, verdict, before=of in self.never if ghost else first)

    def _dead(self) -> set[str]:
        """Ghosts that were found by reads alone."""
        ghosts = (
            (of, it) for (verdict, of), it in self.denials.items() if verdict is Verdict.GHOST
        )
        return {of for of, denial in ghosts if denial.stands}

    def lives(self, object_id: str) -> bool | None:
        """Whether it has processes, if that is known."""
        its = self.of.get(object_id)
        if its is not None and its.ended == inf:
            return True
        over = its is not None and its.lasted < inf and not its.moved
        dead = object_id in self.dead or (Verdict.GHOST, object_id) in self.denials
        return False if over or dead else None

    def _set_up(self, life: Life, its: Processes, requested: float) -> None:
        """That list shows it created amid its processes: that they last shows nothing."""
        if requested < its.since:
            return
        its.slow = True
        if life.lasted:
            life.lasted = False
            for step in life.steps[STARTED:REMOVED]:
                step.take_back()

    def _haunt(self, life: Life, its: Processes, requested: float) -> None:
        """Whether that list and the processes contradict each other."""
        here, lasts = not self.oracle.life(life.home).elsewhere, min(its.lasted, its.ended) < inf
        its.met |= life.state not in {EXITED, None}
        if its.here is None and its.uid:
            listed = [each for each in self.oracle.lives.values() if each.state is not None]
            pods = [each.elsewhere for each in listed if each.uid == its.uid]
            its.here = not any(pods) if pods else None
        if its.ended < inf:
            over = self.lives(life.id) is False
            since, denied = its.ended, life.state is RUNNING and here and over
        elif life.state is EXITED:
            since, denied = max(its.since, requested), here
        else:
            since = its.since
            denied = life.state is None and its.here is True
        if denied and its.ended == inf and not its.denial.stands:
            # They may be of one that runs without any of its own.
            lives = self.oracle.lives.values()
            denied = not any(self._lacks_its_own(life, its, other) for other in lives)
        if not denied:
            its.denial, its.ghost = Denial(), False
            past = requested > its.ended + self.oracle.grace
            if past and life.state in {EXITED, None}:
                del self.of[life.id]
            return
        if its.denial.since == inf or (
            its.denial.since == its.since < since and not its.denial.stands
        ):
            # The first to show it ended: what lacked it does not count.
            its.denial = Denial(since)
            named = life.listed or any(step.said < inf for step in life.steps)
            its.patience = self.oracle.grace if named or its.old else CREATION
        if lasts and self.read >= requested and its.denial.by(requested, since, its.patience):
            its.ghost = its.ended < inf
            verdict = Verdict.GHOST if its.ghost else Verdict.STRAY
            event, before = DIED if life.state else REMOVED, its.old and not its.met
            self.oracle.find(life.id, event, verdict, before=before)

    def _lacks_its_own(self, life: Life, its: Processes, other: Life) -> bool:
        """Whether the other one of its pod runs, and had none of its own any more as they came."""
        uid, own = other.uid or self.oracle.life(other.home).uid, self.of.get(other.id)
        if own is None:
            lacks = other.id not in self._dead()
        else:
            left = own.ended - MOVING if own.exact else own.ended_after
            lacks = own.ended < inf and not own.ghost and (own.moved or its.since > left)
        runs = other.state is RUNNING and other.kind is ObjectKind.CONTAINER and lacks
        return runs and (its.uid == uid != "" or life.home == other.home != "")


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


@dataclass(slots=True)
class Suspicion:
    """What lists and processes say against the kubelet, of a container or a whole pod.

    `doubt`: what a second answer about its pod would confirm; `found`: what one did.
    """

    uid: str
    denial: Denial = field(default_factory=Denial)
    doubt: Verdict | None = None
    found: Verdict | None = None

    def over(self) -> None:
        self.denial, self.doubt, self.found = Denial(), None, None

    def denied(self, what: Verdict, requested: float, since: float, patience: float = 0.0) -> None:
        """By that list, too; `what` it is once that stands."""
        if self.denial.by(requested, since, patience):
            self.doubt = what


@dataclass(slots=True, kw_only=True)
class Shown(Suspicion):
    """How the kubelet shows a container since when; `watch`: which one showed it last."""

    status: Status
    since: float
    watch: int


@dataclass(slots=True, kw_only=True)
class Ending(Suspicion):
    """A pod that is to be removed; by `due` it has to have ended. `late`: who is, by a list."""

    due: float
    watch: int
    late: Verdict | None = None


class Beliefs:
    """All that the kubelet shows; `complete`: it has shown all. `ends`: of the STOPPED events.

    `own`: from when on it shows what it has seen itself. `asked`: pods about which to ask it.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.behind, self.settles = BEHIND, 120.0
        self.watch, self.complete, self.own = 0, False, 0.0
        self.shown: dict[str, Shown] = {}
        # Of what was announced and not yet compared: exit code and reason.
        self.ends: dict[str, tuple[int, str]] = {}
        # Of what ran when its pod was dropped, since it has to have ended.
        self.dropped: dict[str, Suspicion] = {}
        self.ending: dict[str, Ending] = {}
        self.asked: set[str] = set()

    def apply(self, fact: facts.KubeletFact) -> None:
        """Take one fact."""
        match fact:
            case facts.Believed():
                self._pod(fact)
            case facts.BeliefsShown():
                self.complete = True
                self.own = fact.at + self.settles if fact.restarted else self.own
                self.shown = {i: its for i, its in self.shown.items() if its.watch == self.watch}
                self.ending = {i: its for i, its in self.ending.items() if its.watch == self.watch}
            case facts.BeliefsLost():
                self.complete, self.watch, self.asked = False, self.watch + 1, set()
                self.shown = {i: its for i, its in self.shown.items() if its.found}
                self.dropped = {i: its for i, its in self.dropped.items() if its.found}
                self.ending = {i: its for i, its in self.ending.items() if its.found}

    def _pod(self, fact: facts.Believed) -> None:
        uid = fact.pod.uid
        for status in fact.changed:
            its = self.shown.get(status.id)
            if its is None or its.status != status:
                new = Shown(uid, status=status, since=fact.at, watch=self.watch)
                self.shown[status.id] = new
            self.shown[status.id].watch = self.watch
            self.dropped.pop(status.id, None)
        for gone in fact.gone:
            its = self.shown.pop(gone, None)
            ran = its is not None and its.status.state is RUNNING
            if fact.removed and ran and self.oracle.life(gone).state is RUNNING:
                due = fact.at + fact.patience + self.behind
                self.dropped[gone] = Suspicion(uid, Denial(due))
        if not fact.removed:
            self.dropped = {i: its for i, its in self.dropped.items() if its.uid != uid}
        its_end = self.ending.pop(uid, None)
        if fact.due is not None and not fact.removed:
            its_end = self.ending[uid] = its_end or Ending(uid, due=fact.due, watch=self.watch)
            its_end.due, its_end.watch = min(its_end.due, fact.due), self.watch
        if fact.asked and self.complete and uid in self.asked:
            self._confirm(uid)
        for status in fact.changed:
            self._compare(status.id)

    def _all(self) -> list[tuple[str, Suspicion]]:
        return [*self.shown.items(), *self.dropped.items(), *self.ending.items()]

    def _confirm(self, uid: str) -> None:
        """It was asked, and what it says of that pod is still to be doubted."""
        self.asked.discard(uid)
        for of, its in self._all():
            found = its.doubt
            if its.uid != uid or found is None:
                continue
            its.doubt = None
            its.found = None if found is Verdict.DISAGREES else found
            before = found is Verdict.STALE and self.oracle.life(of).at_first is EXITED
            over = REMOVED if found is Verdict.OVERDUE_KUBELET else DIED
            named = self._named(uid) if isinstance(its, Ending) else of
            self.oracle.find(named, over, found, before=before)

    def _named(self, uid: str) -> str:
        """One container of that pod: one that runs, if one does; else one that is shown."""
        lives = self._lives(uid)
        lives.sort(key=lambda it: (it.state is not RUNNING, it.kind is ObjectKind.SANDBOX))
        shown = sorted(i for i, its in self.shown.items() if its.uid == uid)
        return [*(it.id for it in lives), *shown, uid][0]

    def announced(self, event: Announcement, life: Life) -> None:
        """Its first event of that type came."""
        if event.exit_code is not None and life.kind is not ObjectKind.SANDBOX:
            self.ends[life.id] = event.exit_code, event.reason
            self._compare(life.id)

    def _compare(self, container_id: str) -> None:
        """Once: the end that it shows with the one that was announced."""
        its = self.shown.get(container_id)
        if its is None or its.status.state is RUNNING or container_id not in self.ends:
            return
        (code, reason), status = self.ends.pop(container_id), its.status
        differs = reason and status.reason and status.reason not in {reason, "OOMKilled"}
        if status.exit_code != code or differs:
            its.doubt = Verdict.DISAGREES
            if self.complete and its.since > self.own:
                self.asked.add(its.uid)

    def judge(self, requested: float) -> None:
        """Judge all by a list."""
        for container_id, its in self.shown.items() if self.complete else ():
            if its.status.state is RUNNING and requested > its.since:
                life, lives = (
                    self.oracle.life(container_id),
                    self.oracle.cgroups.lives(container_id),
                )
                if lives or not (life.state is EXITED or (life.listed and life.state is None)):
                    its.over()
                else:
                    its.denied(Verdict.STALE, requested, requested, self.behind)
        for container_id, left in list(self.dropped.items()):
            if self.oracle.life(container_id).state is not RUNNING:
                del self.dropped[container_id]
            else:
                left.denied(Verdict.UNKNOWN_TO_KUBELET, requested, requested)
        for uid, end in self.ending.items() if self.complete else ():
            if requested > end.due:
                self._judge_end(end, self._who_is_late(uid), requested)
        doubted = {its.uid for _, its in self._all() if its.doubt}
        self.asked = doubted if self.complete and requested > self.own else set()

    def _judge_end(self, end: Ending, late: Verdict | None, requested: float) -> None:
        if late is None:
            end.late = None
            end.over()
            return
        if late is not end.late:
            end.over()
            end.denial.since = end.due if end.late is None else requested
            end.late = late
        end.denied(late, requested, end.due, self.behind)

    def _lives(self, uid: str) -> list[Life]:
        """What is known of that pod and not gone for good."""
        shown = {i for i, its in self.shown.items() if its.uid == uid}
        return [
            it
            for it in self.oracle.lives.values()
            if not it.over
            and (it.state is not None or it.id in self.shown)
            and (it.uid == uid or self.oracle.life(it.home).uid == uid or it.id in shown)
        ]

    def _who_is_late(self, uid: str) -> Verdict | None:
        running = [it for it in self._lives(uid) if it.state is RUNNING]
        if not running:
            return Verdict.OVERDUE_KUBELET
        containers = [it for it in running if it.kind is not ObjectKind.SANDBOX]
        of = [self.oracle.cgroups.lives(it.id) for it in containers]
        if not of or None in of or any(self.oracle.life(it.home).elsewhere for it in containers):
            return None
        return Verdict.OVERDUE_PROCESS if any(of) else Verdict.OVERDUE_RUNTIME
