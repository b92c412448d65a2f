"""The other witnesses, for the oracle: the kernel, and what the kubelet believes.

Read from `docs/how-it-works.md`; nothing is shared with the ledger but the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from exporter.model import facts
from exporter.model.events import Announcement, ObjectKind, Pod, Status
from exporter.model.findings import Verdict
from tests.support.oracle_life import CREATED, DIED, EXITED, REMOVED, RUNNING, STARTED, Life

if TYPE_CHECKING:
    from tests.support.oracle import Oracle

# Seconds; so far may the kubelet be behind.
LASTS, BEHIND, IN_A_ROW, MOVING = 2.0, 30.0, 2, 1.0


@dataclass(slots=True)
class Processes:
    """Processes in a container's cgroup; `old`: the first read may have shown them.

    `met`: a list has shown the container alive; `here`: one has shown their pod, which keeps its
    processes in its cgroups, or else does not. They came between `after` and `since`;
    `lasted`: that was known then; `slow`: a list showed it created meanwhile. The last one ended
    between `ended_after` and `ended`, unless they `moved`. `against`: since when the lists in a row
    contradict them, of which `denials` count.
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
    against: float = inf
    denials: int = 0
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
        # By what the last read says alone: containers without a process, and frozen ones. And since
        # which list, with how many that count, that was so.
        self.dead: tuple[str, ...] = ()
        self.frozen: tuple[str, ...] = ()
        self.stood: dict[tuple[Verdict, str], tuple[float, int]] = {}

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
                self.stood = {
                    (Verdict.GHOST, of): self.stood[Verdict.GHOST, of] for of in self._dead()
                }

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
            its.against, its.denials = inf, 0
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
        before, self.stood = self.stood, {}
        for verdict, of in said:
            if self.oracle.life(of).state is not RUNNING:
                continue
            since, lists = before.get((verdict, of), (requested, 0))
            now = lists + (requested > since + self.oracle.grace)
            self.stood[verdict, of] = since, now
            if lists < IN_A_ROW == now:
                ghost, first = verdict is Verdict.GHOST, since == self.first
                self.oracle.find(of, DIED, verdict, before=of in self.never if ghost else first)

    def _dead(self) -> set[str]:
        """Ghosts that were found by reads alone."""
        found = (of for of, (_, lists) in self.stood.items() if lists >= IN_A_ROW)
        return {of for verdict, of in found if verdict is Verdict.GHOST}

    def lives(self, object_id: str) -> bool | None:
        """Whether it has processes, if that is known."""
        its = self.of.get(object_id)
        if its is not None and its.ended == inf:
            return True
        over = its is not None and its.lasted < inf and not its.moved
        dead = object_id in self.dead or (Verdict.GHOST, object_id) in self.stood
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
        if denied and its.ended == inf and its.denials < IN_A_ROW:
            # They may be of one that runs without any of its own.
            lives = self.oracle.lives.values()
            denied = not any(self._lacks_its_own(life, its, other) for other in lives)
        if not denied:
            its.against, its.denials, its.ghost = inf, 0, False
            past = requested > its.ended + self.oracle.grace
            if past and life.state in {EXITED, None}:
                del self.of[life.id]
            return
        if its.against == inf or (its.against == its.since < since and its.denials < IN_A_ROW):
            # The first to show it ended: what lacked it does not count.
            its.against, its.denials = since, 0
        if lasts and self.read >= requested > its.against + self.oracle.grace:
            its.denials += 1
            if its.denials == IN_A_ROW:
                its.ghost = its.ended < inf
                verdict = Verdict.GHOST if its.ghost else Verdict.STRAY
                event, before = DIED if life.state else REMOVED, its.old and not its.met
                self.oracle.find(life.id, event, verdict, before=before)

    def _lacks_its_own(self, life: Life, its: Processes, other: Life) -> bool:
        """Whether the other one of its pod runs, and had none of its own any more as they came."""
        uid, own = other.uid or self.oracle.life(other.home).uid, self.of.get(other.id)
        if own is None:
            lacks = self.stood.get((Verdict.GHOST, other.id), (0.0, 0))[1] < IN_A_ROW
        else:
            left = own.ended - MOVING if own.exact else own.ended_after
            lacks = own.ended < inf and not own.ghost and (own.moved or its.since > left)
        runs = other.state is RUNNING and other.kind is ObjectKind.CONTAINER and lacks
        return runs and (its.uid == uid != "" or life.home == other.home != "")


@dataclass(slots=True)
class Shown:
    """How the kubelet shows a container of a pod since when; `watch`: which one showed it last.

    `against`: the first list in a row that was requested against it; so many `denials` count.
    `doubt`: what a second answer would confirm. `stale`: it was found to be.
    """

    status: Status
    uid: str
    since: float
    watch: int
    against: float = inf
    denials: int = 0
    doubt: Verdict | None = None
    stale: bool = False


@dataclass(slots=True)
class Dropped:
    """A container that ran when its pod was dropped; by `due` it has to have ended.

    `lists`: how many have denied that since. `found`: it was found to be unknown to the kubelet.
    """

    uid: str
    due: float
    lists: int = 0
    found: bool = False


@dataclass(slots=True)
class Ending:
    """A pod that is to be removed; by `due` it has to have ended.

    `late`: who is by the last list, which denied that `lists` times. `since`: from when on it is
    counted. `found`: what it was found to be.
    """

    pod: Pod
    due: float
    watch: int
    late: Verdict | None = None
    since: float = 0.0
    lists: int = 0
    found: Verdict | None = None


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
        self.dropped: dict[str, Dropped] = {}
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
                self.shown = {i: its for i, its in self.shown.items() if its.stale}
                self.dropped = {i: its for i, its in self.dropped.items() if its.found}
                self.ending = {i: its for i, its in self.ending.items() if its.found}

    def _pod(self, fact: facts.Believed) -> None:
        uid = fact.pod.uid
        for status in fact.changed:
            its = self.shown.get(status.id)
            if its is None or its.status != status:
                self.shown[status.id] = Shown(status, uid, fact.at, self.watch)
            self.shown[status.id].watch = self.watch
            self.dropped.pop(status.id, None)
        for gone in fact.gone:
            its = self.shown.pop(gone, None)
            ran = its is not None and its.status.state is RUNNING
            if fact.removed and ran and self.oracle.life(gone).state is RUNNING:
                self.dropped[gone] = Dropped(uid, fact.at + fact.patience + self.behind)
        if not fact.removed:
            self.dropped = {i: its for i, its in self.dropped.items() if its.uid != uid}
        its_end = self.ending.pop(uid, None)
        if fact.due is not None and not fact.removed:
            self.ending[uid] = its_end or Ending(fact.pod, fact.due, self.watch)
            self.ending[uid].due = min(self.ending[uid].due, fact.due)
            self.ending[uid].watch = self.watch
        if fact.asked and self.complete and uid in self.asked:
            self._confirm(uid)
        for status in fact.changed:
            self._compare(status.id)

    def _confirm(self, uid: str) -> None:
        """It was asked, and what it says of that pod is still to be doubted."""
        self.asked.discard(uid)
        for container_id, its in self.shown.items():
            if its.uid == uid and its.doubt and not its.stale:
                its.stale = its.doubt is Verdict.STALE
                before = its.stale and self.oracle.life(container_id).at_first is EXITED
                self.oracle.find(container_id, DIED, its.doubt, before=before)
                its.doubt = None
        for container_id, left in self.dropped.items():
            if left.uid == uid and left.lists > 1 and not left.found:
                left.found = True
                self.oracle.find(container_id, DIED, Verdict.UNKNOWN_TO_KUBELET)
        its_end = self.ending.get(uid)
        if its_end is not None and its_end.late and its_end.lists > 1 and not its_end.found:
            its_end.found = its_end.late
            lives = self._lives(uid)
            lives.sort(key=lambda it: (it.state is not RUNNING, it.kind is ObjectKind.SANDBOX))
            over = REMOVED if its_end.late is Verdict.OVERDUE_KUBELET else DIED
            shown = sorted(i for i, its in self.shown.items() if its.uid == uid)
            named = [it.id for it in lives] + shown + [uid]
            self.oracle.find(named[0], over, its_end.late)

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
                self._judge_running(container_id, its, requested)
        for container_id, left in list(self.dropped.items()):
            if self.oracle.life(container_id).state is not RUNNING:
                del self.dropped[container_id]
            elif requested > left.due:
                left.lists += 1
        for uid, end in self.ending.items():
            if requested > end.due:
                self._judge_end(end, self._who_is_late(uid), requested)
        doubted = {its.uid for its in self.shown.values() if its.doubt and not its.stale}
        doubted |= {its.uid for its in self.dropped.values() if its.lists > 1 and not its.found}
        doubted |= {i for i, its in self.ending.items() if its.lists > 1 and not its.found}
        self.asked = doubted if self.complete and requested > self.own else set()

    def _judge_end(self, end: Ending, late: Verdict | None, requested: float) -> None:
        if late is None or not self.complete:
            end.late, end.lists, end.found = None, 0, None
            return
        if late is not end.late:
            end.since = end.due if end.late is None else requested
            end.late, end.lists, end.found = late, 0, None
        end.lists += requested > end.since + self.behind

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

    def _judge_running(self, container_id: str, its: Shown, requested: float) -> None:
        life, lives = self.oracle.life(container_id), self.oracle.cgroups.lives(container_id)
        ended = life.state is EXITED or (life.listed and life.state is None)
        if not ended or lives:
            its.against, its.denials, its.stale, its.doubt = inf, 0, False, None
            return
        its.against = min(its.against, requested)
        its.denials += requested > its.against + self.behind
        if its.denials >= IN_A_ROW:
            its.doubt = Verdict.STALE
