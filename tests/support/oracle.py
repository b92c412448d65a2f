"""What a ledger must find, fact by fact: `docs/how-it-works.md`, read a second time.

Nothing is shared with the ledger but the vocabulary, and nothing is saved: each list judges all
that is known. Blind spots: the ledger's limits on memory, and the delays of exits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from exporter.model import facts
from exporter.model.events import Announcement, Inquiry, Lifecycle, ListedState, ObjectKind
from exporter.model.findings import Cause, Verdict, Why
from exporter.model.labels import Flaw, Never, StreamKind
from exporter.runtimes.runtime import Profile
from tests.support.oracle_belief import Beliefs

Outcome = tuple[str, Lifecycle, Verdict, Why | None]
CHANGED, STARTED, DIED, REMOVED = Lifecycle
CREATED, RUNNING, EXITED, UNKNOWN = ListedState
SANDBOX = ObjectKind.SANDBOX
# The last step that a list with this state shows done; UNKNOWN may hide any but the removal.
DONE = {CREATED: CHANGED, RUNNING: STARTED, EXITED: DIED, None: REMOVED}
# What may explain that nothing was heard: the last one that applies counts.
WHY = (None, Cause.STALLED, Cause.DISCARDED, Cause.STREAM_DOWN)
NO_REASON, STALLED, DISCARDED, DOWN = range(4)
FINAL = {Verdict.CONFIRMED, Verdict.MISSED, Verdict.UNDECIDED, Verdict.UNSEEN, Verdict.GAP}
# Of a step that is not judged.
VOID = Verdict.WITNESSED
SETTLES, PATIENCE, LASTS, IN_A_ROW = 0.5, 6, 2.0, 2


def emitted(old: ListedState | None, new: ListedState | None) -> tuple[Lifecycle, ...]:
    """Generic PLEG, by rule instead of by table."""
    if old is new or {old, new} <= {CREATED, UNKNOWN}:
        return ()
    if new is None:
        return (REMOVED,) if old is EXITED else (DIED, REMOVED)
    return ({RUNNING: STARTED, EXITED: DIED}.get(new, CHANGED),)


@dataclass(slots=True)
class Step:
    """One event of one container: what was said of it, what proves it, what was found.

    `said`: when first; `stamp`: by which subscription, made when; `unheard`: why nothing before it
    may have been. `proven`: when the grace began; `ahead`: only the kernel proves it, `witnessed`:
    it did once; `why`: what may explain a miss. `denials`: lists against it.
    """

    said: float | None = None
    stamp: tuple[int, int] = (0, 0)
    backlog: bool = False
    unheard: int = NO_REASON
    proven: float | None = None
    ahead: bool = False
    witnessed: bool = False
    why: int = NO_REASON
    found: Verdict | None = None
    cause: Cause | None = None
    denials: int = 0

    @property
    def waits(self) -> bool:
        """Whether it is proven, and neither announced nor judged."""
        return self.proven is not None and self.said is None and not self.found


@dataclass(slots=True)
class Life:
    """One container or sandbox.

    `early`: named before observation; `floor`: its last step from then. `over`: gone and judged.
    `came`: how many were shown running before it.
    """

    id: str
    early: bool = False
    kind: ObjectKind | None = None
    home: str = ""
    uid: str = ""
    name: str = ""
    came: int = 0
    listed: bool = False
    elsewhere: bool = False
    state: ListedState | None = None
    floor: int = -1
    ran: bool | None = None
    lasted: bool = False
    deleted_below: bool = False
    exit_listed: bool = False
    gone_running: bool = False
    left_ready: bool = False
    over: bool = False
    steps: tuple[Step, ...] = field(default_factory=lambda: tuple(Step() for _ in Lifecycle))

    def behind(self, event: Lifecycle) -> bool:
        """Whether the lists may yet show that step."""
        return self.state is UNKNOWN or DONE[self.state] < event

    def due(self, event: Lifecycle) -> float:
        """When it had to be announced, at the earliest: after what comes before it."""
        before = [step.said for step in self.steps[:event] if step.said is not None]
        return max([self.steps[event].proven or 0.0, *before])


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


class Oracle:
    """Takes the facts that a ledger takes, and returns what that must find."""

    def __init__(self, profile: Profile, grace: float) -> None:
        self.profile, self.grace = profile, grace
        self.shared = profile.stream is StreamKind.EXCLUSIVE
        self.lives: dict[str, Life] = {}
        self.processes: dict[str, Processes] = {}
        self.beliefs = Beliefs(self)
        self.judging = True
        # Since which list several of a pod's uid and a name run; infinite once that was found.
        self.pairs: dict[tuple[str, str], float] = {}
        self.came = 0
        # The last list's request, the first one's by the wall clock; the last read of all cgroups.
        self.last: float | None = None
        self.horizon_ns: int | None = None
        self.read: float | None = None
        # The watch: when it began and its first event came; how far the stream has come.
        self.asked_ns, self.fresh = 0, False
        self.began, self.first, self.reached = -inf, inf, -inf
        self.down_until, self.dropped = inf, -inf
        self.out: list[Outcome] = []

    def take(self, fact: facts.Fact) -> list[Outcome]:  # noqa: C901, PLR0912
        """Take one fact."""
        self.out = []
        match fact:
            case Announcement():
                self._announced(fact)
            case facts.Relist():
                self._listed(fact)
            case facts.StreamAsked():
                self.asked_ns = fact.began_ns
            case facts.StreamUp():
                self.judging, self.asked_ns = True, fact.began_ns
                self.down_until = min(self.down_until, fact.at)
                self.began, self.first, self.fresh = fact.at, inf, True
            case facts.StreamUnproven():
                self._explain(STALLED)
                self.began, self.first, self.fresh = fact.at, inf, False
            case facts.StreamDown():
                self._explain(DOWN)
                self.judging, self.down_until = True, inf
            case facts.StreamRefused():
                self.judging, self.down_until = False, inf
                for step in (step for life in self.lives.values() for step in life.steps):
                    if step.proven is not None or step.said is not None:
                        step.found = step.found or VOID
            case facts.Discarded():
                self._explain(DISCARDED)
                self.dropped = fact.until or fact.at
            case facts.Inquired():
                self._answered(fact)
            case facts.CgroupChanged():
                self._changed(fact)
            case facts.CgroupsRead():
                self.read = fact.requested
                for object_id, its in self.processes.items():
                    if its.lasted is its.ended is None and self.read > its.since + LASTS:
                        its.lasted = self.read
                        self._weigh(object_id)
            case facts.CgroupsLost():
                self.read = None
                self.processes = {i: its for i, its in self.processes.items() if its.ghost}
            case facts.Believed() | facts.BeliefsShown() | facts.BeliefsLost():
                self.beliefs.take(fact)
        return self.out

    def _find(self, life: Life, event: Lifecycle, found: Verdict, why: Why | None = None) -> None:
        self.out.append((life.id, event, found, why))
        if found in FINAL and not isinstance(why, Flaw):
            life.steps[event].found, life.steps[event].cause = found, why

    # --- the stream ---------------------------------------------------------------

    def _announced(self, event: Announcement) -> None:
        made, what = event.created_at_ns, Lifecycle(event.type.value)
        early = self.horizon_ns is None or 0 < made < self.horizon_ns
        backlog = 0 < made < self.asked_ns
        life = self.lives.setdefault(event.container_id, Life(event.container_id, early))
        life.over, life.kind = False, life.kind or event.kind
        life.home = life.home or event.sandbox_id
        self._hear(event)
        step = life.steps[what]
        if backlog:
            self._find(life, what, Verdict.BACKLOG)
        self._find_flaws(life, step, event)
        if step.said is None:
            waited, missed = step.waits, step.found is Verdict.MISSED
            step.unheard = NO_REASON if waited else self._befell(life, what, self.last)
            step.said, step.stamp, step.backlog = event.received, (event.stream, made), backlog
            life.ran = True if what is STARTED else life.ran
            life.floor = max(life.floor, what) if backlog or early else life.floor
            if waited:
                self._find(life, what, Verdict.CONFIRMED)
            elif missed and step.cause is not Cause.BY_DESIGN:
                self._find(life, what, Verdict.LATE, step.cause)
            if what is DIED:
                self.beliefs.announced(event, life)
        elif step.stamp[0] == event.stream or step.stamp[1] != made:
            self._find(life, what, Verdict.DUPLICATE)
        self._weigh(life.id)

    def _find_flaws(self, life: Life, step: Step, event: Announcement) -> None:
        """A copy says nothing new; only what comes for the first time can be out of order."""
        what, over = Lifecycle(event.type.value), event.stream
        if step.said is not None and step.stamp[0] != over and step.stamp[1] == event.created_at_ns:
            return
        came = {each.stamp[0] for each in life.steps[what + 1 :] if each.said is not None}
        late = (Flaw.OUT_OF_ORDER,) if step.said is None and over in came else ()
        for flaw in (*late, *(event.flawed.flaws if event.flawed else ())):
            self._find(life, what, Verdict.FLAWED, flaw)

    def _hear(self, event: Announcement) -> None:
        timed = event.created_at_ns > 0 and event.received_wall_ns > 0
        age = (event.received_wall_ns - event.created_at_ns) / 1e9 if timed else 0.0
        self.reached = max(self.reached, event.received - max(0.0, age))
        if self.first < inf or event.received <= self.began:
            return
        self.first = event.received
        for _, step in self._waiting() if self.fresh else ():
            # A new connection counts as up from its first event on.
            step.why = DOWN if (step.proven or 0.0) > self.began else step.why

    def _befell(self, life: Life, event: Lifecycle, since: float | None) -> int:
        """What may explain that an event of that life, made after `since`, has not come by now."""
        since = -inf if since is None else since
        follows = any((s.said or -inf) >= self.first for s in life.steps[:event])
        unserved = self.first + SETTLES > since and not follows
        if self.down_until >= since or (unserved and self.fresh and self.first < inf):
            return DOWN
        return DISCARDED if self.dropped >= since else STALLED if unserved else NO_REASON

    def _waiting(self) -> Iterator[tuple[float, Step]]:
        """What waits for its announcement, and when the grace ends."""
        for life in self.lives.values():
            for event in () if life.over else Lifecycle:
                step = life.steps[event]
                if step.waits:
                    pending = step.ahead and life.behind(event)
                    yield inf if pending else life.due(event) + self.grace, step

    def _explain(self, why: int) -> None:
        """It may explain that something is missed, unless a younger event came before."""
        for ends, step in self._waiting():
            step.why = max(step.why, why) if ends >= self.reached else step.why

    def _answered(self, fact: facts.Inquired) -> None:
        life = self.lives.get(fact.container_id)
        if life is not None and not life.over:
            life.deleted_below |= fact.answer is Inquiry.DELETED_BELOW
            if fact.answer is not Inquiry.DELETED_BELOW:
                life.ran = fact.answer is Inquiry.STARTED or life.ran or False

    # --- lists --------------------------------------------------------------------

    def _listed(self, relist: facts.Relist) -> None:
        before = {life.id: life.state for life in self.lives.values()}
        for item in relist.changed:
            life = self.lives.setdefault(item.id, Life(item.id))
            if item.state is RUNNING and life.state is not RUNNING:
                self.came += 1
                life.came = self.came
            life.name = item.name or life.name
            life.listed, life.over, life.kind = True, False, item.kind
            life.home, life.elsewhere = item.sandbox_id, item.elsewhere
            life.uid, life.state = item.pod.uid if item.pod else life.uid, item.state
        for gone in relist.gone:
            self.lives[gone].state = None
        for life in self.lives.values():
            old = before.get(life.id) or (None if life.state else self._told(life, relist))
            if life.state is not old:
                self._move(life, old, relist)
        self._pair(relist.requested)
        for object_id, its in list(self.processes.items()):
            if object_id in self.lives and self.lives[object_id].state is CREATED:
                self._set_up(self.lives[object_id], its, relist.requested)
            self._weigh(object_id)
            self._haunt(object_id, relist.requested)
        self.beliefs.judge(relist.requested)
        for life in self.lives.values():
            left = [self._judge(life, event, relist.requested) for event in Lifecycle]
            life.over = life.state is None and not any(left)
        self.last, self.horizon_ns = relist.requested, self.horizon_ns or relist.requested_wall_ns

    def _pair(self, requested: float) -> None:
        """Two of one pod and name run, in sandboxes that have not ended, in two lists in a row."""
        places: dict[tuple[str, str], list[Life]] = {}
        for life in self.lives.values():
            home = self.lives.get(life.home)
            running = life.state is RUNNING and life.kind is not SANDBOX
            its = self.processes.get(life.id)
            ending = (home and home.state is EXITED) or (its and its.ended is not None)
            if running and life.uid and life.name and not ending:
                places.setdefault((life.uid, life.name), []).append(life)
        several = {place: lives for place, lives in places.items() if len(lives) > 1}
        pairs = {place: self.pairs.get(place, requested) for place in several}
        for place in [each for each, since in pairs.items() if since + self.grace < requested]:
            newest = max(several[place], key=lambda life: life.came)
            self._find(newest, STARTED, Verdict.TWIN)
            pairs[place] = inf
        self.pairs = pairs

    def _move(self, life: Life, old: ListedState | None, relist: facts.Relist) -> None:
        life.ran = True if life.state is RUNNING else life.ran
        if not self.judging or self.last is None:
            # It was that far when observation began.
            life.floor = max(life.floor, DONE.get(life.state, DIED))
            for step in life.steps[: DONE.get(life.state, DIED) + 1]:
                step.found = step.found or VOID
        if self.last is None:
            return
        died, removed = life.steps[DIED], life.steps[REMOVED]
        if old is None and removed.waits:
            # A list shows it again: its removal was none.
            died.proven = None if died.waits and died.proven == removed.proven else died.proven
            removed.proven = None
        if life.state is None:
            shown = died.proven is not None and not died.ahead
            life.gone_running = life.gone_running if shown else old is not EXITED
            life.left_ready = life.home in self.lives and self.lives[life.home].state is RUNNING
        life.exit_listed |= life.state is EXITED
        for event in emitted(old, life.state):
            self._prove(life, event, relist.completed, self.last)

    def _prove(
        self, life: Life, event: Lifecycle, at: float, since: float, *, by_kernel: bool = False
    ) -> None:
        """It is proven at that time, and happened later than `since`."""
        step, started = life.steps[event], life.steps[STARTED]
        again = step.ahead and step.waits and not by_kernel
        if not step.ahead:
            self._find(life, event, Verdict.WITNESSED)
        if event is DIED and started.ahead and started.waits and not by_kernel:
            self._claim(life, STARTED, at, since)
        step.ahead, step.witnessed = by_kernel, step.witnessed or by_kernel
        from_unknown = event is CHANGED and life.state is not CREATED
        if self.judging and not from_unknown and (again or step.proven is None):
            self._claim(life, event, at, since)

    def _claim(self, life: Life, event: Lifecycle, at: float, since: float) -> None:
        step = life.steps[event]
        before = step.why if step.waits else NO_REASON
        step.why, step.proven = max(before, self._befell(life, event, since)), at
        if step.said is not None and not step.found:
            self._find(life, event, Verdict.CONFIRMED)

    def _told(self, life: Life, relist: facts.Relist) -> ListedState | None:
        """The state in which the stream left what only it has named, if the list had to show it."""
        said = {s.said: n for n, s in enumerate(life.steps) if s.said is not None}
        gone = life.steps[REMOVED]
        over = gone.said or gone.proven or gone.found
        if life.listed or life.early or over or not said or relist.requested <= min(said):
            return None
        return (CREATED, RUNNING, EXITED)[max(said.values())]

    # --- cgroups ------------------------------------------------------------------

    def _changed(self, fact: facts.CgroupChanged) -> None:
        its, life = self.processes.get(fact.container_id), self.lives.get(fact.container_id)
        over = its is None or its.ended is not None
        after = -inf if self.read is None else self.read
        if fact.populated and over:
            died = life.steps[DIED] if life is not None and not life.over else Step()
            if died.ahead and died.waits:
                died.proven, died.witnessed = None, False
            new = Processes(fact.pod_uid, fact.at, after, self.read is None)
            self.processes[fact.container_id] = new
        elif its is not None and not over and not fact.populated:
            its.ended, its.ended_after, its.denials, its.ghost = fact.at, after, 0, False
            if its.lasted is None and fact.at_wall_ns > 0 and fact.at > its.since + LASTS:
                its.lasted = fact.at
        self._weigh(fact.container_id)

    def _weigh(self, object_id: str) -> None:
        """What its processes prove, given all that is known of it."""
        its, life = self.processes.get(object_id), self.lives.get(object_id)
        if its is None or life is None or life.over or self.horizon_ns is None:
            return
        if self._is_elsewhere(life):
            return
        lasted = None if self.profile.sets_up_early else its.lasted
        shown = {}
        if not its.old and (lasted is not None or life.steps[STARTED].said is not None):
            shown[STARTED] = its.since if lasted is None else lasted, its.after
        if its.ended is not None and (lasted is not None or life.ran):
            shown[DIED] = its.ended, its.ended_after
        life.lasted |= lasted is not None
        for event, (at, after) in shown.items():
            step = life.steps[event]
            if event > life.floor and step.proven is None and not step.witnessed:
                self._prove(life, event, at, after, by_kernel=True)

    def _is_elsewhere(self, life: Life | None) -> bool:
        home = self.lives.get(life.home) if life is not None else None
        return home is not None and home.elsewhere

    def _set_up(self, life: Life, its: Processes, requested: float) -> None:
        """It was not started when that list was requested: only what lasts from then counts."""
        its.since, its.after = max(its.since, requested), max(its.after, requested)
        if its.lasted is not None and its.lasted <= its.since + LASTS:
            its.lasted, life.lasted = None, False
            for step in life.steps[STARTED:REMOVED]:
                if step.ahead and step.waits:
                    step.proven, step.witnessed = None, False

    def _haunt(self, object_id: str, requested: float) -> None:
        """Whether that list and the processes contradict each other."""
        its, life = self.processes[object_id], self.lives.get(object_id)
        state = life.state if life is not None else None
        here, since = not self._is_elsewhere(life), its.since
        first = requested if its.disowned is None else its.disowned
        its.disowned = first if state is EXITED and its.ended is None else None
        if its.ended is not None:
            since, denied = its.ended, state is RUNNING and here
        elif state is EXITED:
            since, denied = max(since, first), its.lasted is not None and here
        else:
            # Of a sandbox that was listed, and keeps its processes in its pod.
            pods = [each for each in self.lives.values() if each.listed and each.uid == its.uid]
            known = its.uid and pods and not any(each.elsewhere for each in pods)
            denied = state is None and its.lasted is not None and bool(known)
        past = requested > since + self.grace
        if not denied:
            its.denials, its.ghost = 0, False
            if past and its.ended is not None and state in {EXITED, None}:
                del self.processes[object_id]
        elif past and self.read is not None and self.read >= requested:
            its.denials += 1
            if its.denials == IN_A_ROW:
                its.ghost = its.ended is not None
                verdict = Verdict.GHOST if its.ghost else Verdict.STRAY
                event = REMOVED if state is None else DIED
                self.out.append((object_id, event, verdict, None))

    # --- judgement ----------------------------------------------------------------

    def _judge(self, life: Life, event: Lifecycle, requested: float) -> bool:
        """Judge one event of that life; whether there is more to judge later."""
        step = life.steps[event]
        if step.found or not self.judging:
            return False
        if step.waits:
            over = requested > (step.proven or 0.0) + self.grace
            return not over or self._judge_proven(life, event, step, requested)
        if step.said is not None:
            return self._judge_said(life, event, step, requested)
        return self._judge_skipped(life, event, requested)

    def _judge_said(self, life: Life, event: Lifecycle, step: Step, requested: float) -> bool:
        said = step.said or 0.0
        if not life.behind(event) or life.state is UNKNOWN:
            step.denials = step.denials if step.denials >= IN_A_ROW else 0
        elif requested > said:
            step.denials += 1
            if step.denials == IN_A_ROW:
                self._find(life, event, Verdict.CONTRADICTED)
        if life.behind(event) or requested <= said + self.grace:
            return True
        step.found = Verdict.UNSEEN
        if not step.backlog:
            self._find(life, event, Verdict.UNSEEN)
        return False

    def _judge_skipped(self, life: Life, event: Lifecycle, requested: float) -> bool:
        later = life.steps[event + 1 :]
        said = {s.said: s for s in reversed(later) if s.said is not None and not s.backlog}
        if not said:
            return False
        if life.behind(event) or requested <= min(said) + self.grace:
            return True
        if event > life.floor and self._must_have_happened(life, event):
            proven = {s.proven: s.why for s in reversed(later) if s.proven is not None}
            why = max(said[min(said)].unheard, proven[min(proven)] if proven else NO_REASON)
            shared = self.shared and why <= STALLED
            self._find(life, event, Verdict.GAP, Cause.SHARED if shared else WHY[why])
        return False

    def _must_have_happened(self, life: Life, event: Lifecycle) -> bool:
        never = self.profile.never
        if event is CHANGED:
            return not (life.kind is SANDBOX and Never.SANDBOX_CREATED in never)
        if life.ran is not None:
            return life.ran
        failed = life.listed and Never.SANDBOX_FAILED in never
        decides = not failed if life.kind is SANDBOX else Never.STOPPED_MEANS_RAN not in never
        return decides and life.steps[DIED].said is not None

    def _judge_proven(self, life: Life, event: Lifecycle, step: Step, requested: float) -> bool:
        of_sandbox, died = life.kind is SANDBOX, life.steps[DIED]
        said = died.said is not None and Never.STOPPED_MEANS_RAN in self.profile.never
        # Only `ContainerStatus` can say if it ever ran.
        failed = life.state is EXITED and life.ran is None and (died.waits or said)
        if step.ahead and (life.behind(event) or (failed and not of_sandbox)):
            return True
        exits = event is DIED and not of_sandbox
        unknown = exits and life.ran is None and life.exit_listed
        if unknown and life.state is not None and not life.deleted_below:
            return True
        if unknown and not life.lasted:
            self._find(life, event, Verdict.UNDECIDED)
            return False
        owed = event is not STARTED or life.ran is not False
        if exits:
            owed = life.ran is True or life.exit_listed or (life.lasted and life.ran is None)
        if (step.ahead and self._is_elsewhere(life)) or not owed:
            return False
        cause = self._cause(life, event, step, requested)
        if cause is not None:
            self._find(life, event, Verdict.MISSED, cause)
        return cause is None

    def _cause(self, life: Life, event: Lifecycle, step: Step, requested: float) -> Cause | None:
        """Why it was missed; None while it may still come."""
        # One that no list or event has shown may have gone at the same time, by force.
        home = self.lives.get(life.home) or Life("", gone_running=True)
        died, removed, of_sandbox = event is DIED, event is REMOVED, life.kind is SANDBOX
        swept = home.gone_running and home.steps[DIED].said is None
        with_home = removed and not of_sandbox and not life.left_ready
        excuses = {
            Never.SANDBOX_REMOVED: of_sandbox and removed,
            Never.SANDBOX_FAILED: of_sandbox and died and life.ran is None,
            Never.FORCED_REMOVAL: died and life.gone_running and (of_sandbox or swept),
            Never.FAILED_START: not of_sandbox and died and life.ran is False,
            Never.DELETED_BELOW: not of_sandbox and removed and life.deleted_below,
            Never.REMOVED_WITH_SANDBOX: with_home and home.state is None,
        }
        # The sandbox goes, and it may have gone with it.
        goes = {EXITED, UNKNOWN} if Never.REMOVED_WITH_SANDBOX in self.profile.never else set()
        if any(excuses.get(rule) for rule in self.profile.never):
            return Cause.BY_DESIGN
        if with_home and home.state in goes:
            return None
        if step.why > STALLED or self.shared:
            return WHY[step.why] if step.why > STALLED else Cause.SHARED
        due = life.due(event)
        if self.reached > due + self.grace:
            return WHY[step.why] or Cause.SILENT
        return Cause.STALLED if requested > due + PATIENCE * self.grace else None
