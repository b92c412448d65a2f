"""What a ledger must find, fact by fact: `docs/how-it-works.md`, read a second time.

Nothing is shared with the ledger but the vocabulary, and nothing is saved: each list judges all
that is known. Blind spots: the ledger's limits on memory, the delays of exits, and twins.
"""

from collections.abc import Iterator
from math import inf

from exporter.model import facts
from exporter.model.events import Announcement, Inquiry, Lifecycle, ListedState, ObjectKind
from exporter.model.findings import Cause, Verdict, Why
from exporter.model.labels import Flaw, Never, StreamKind
from exporter.runtimes.runtime import Profile
from tests.support.oracle_life import DONE, Denial, Life, Step
from tests.support.oracle_witnesses import Beliefs, Cgroups, Ooms

# Of what lasts: whether it stood before, too.
Outcome = tuple[str, Lifecycle, Verdict, Why | None, bool]
CHANGED, STARTED, DIED, REMOVED = Lifecycle
CREATED, RUNNING, EXITED, UNKNOWN = ListedState
SANDBOX = ObjectKind.SANDBOX
# What may explain that nothing was heard: the last one that applies counts.
WHY = (None, Cause.STALLED, Cause.DISCARDED, Cause.STREAM_DOWN)
NO_REASON, STALLED, DISCARDED, DOWN = range(4)
FINAL = {Verdict.CONFIRMED, Verdict.MISSED, Verdict.UNDECIDED, Verdict.UNSEEN, Verdict.GAP}
# Of a step that is not judged.
VOID = Verdict.WITNESSED
SETTLES, PATIENCE = 0.5, 6
NOTICED, LONGEST = 0.1, 600.0


def emitted(old: ListedState | None, new: ListedState | None) -> tuple[Lifecycle, ...]:
    """Generic PLEG, by rule instead of by table."""
    if old is new or {old, new} <= {CREATED, UNKNOWN}:
        return ()
    if new is None:
        return (REMOVED,) if old is EXITED else (DIED, REMOVED)
    return ({RUNNING: STARTED, EXITED: DIED}.get(new, CHANGED),)


class Oracle:
    """Takes the facts that a ledger takes, and returns what that must find."""

    def __init__(self, profile: Profile, grace: float) -> None:
        self.profile, self.grace = profile, grace
        self.lives: dict[str, Life] = {}
        self.cgroups = Cgroups(self)
        self.beliefs = Beliefs(self)
        self.ooms = Ooms(self)
        self.judging = True
        # The last list's request, and the first one's.
        self.last, self.horizon = -inf, inf
        # Until when it is in doubt if an event is from before the clock was set back.
        self.doubt = -inf
        # The watch: when it began and its first event came; how far the stream has come.
        self.asked, self.fresh = -inf, False
        self.began, self.first, self.reached = -inf, inf, -inf
        # Where registration cannot be held up, the request is as good as a first event.
        self.registered = inf
        self.down_until, self.dropped = inf, -inf
        self.unread: set[str] = set()
        self.out: list[Outcome] = []

    def judge(self, fact: facts.Fact) -> list[Outcome]:  # noqa: C901, PLR0912, PLR0915
        """Take one fact."""
        self.out = []
        match fact:
            case Announcement():
                self._announced(fact)
            case facts.Relist():
                self._listed(fact)
            case facts.Inquired():
                self._answered(fact)
            case facts.StreamAsked():
                self.asked = fact.at
            case facts.StreamUp():
                self.judging, self.asked = True, fact.asked
                self.down_until = min(self.down_until, fact.at)
                self.began, self.first, self.fresh = fact.at, inf, not self.profile.serves_at_once
                self.registered = inf if self.fresh else fact.at
            case facts.StreamUnproven():
                self._explain(STALLED)
                self.began, self.first, self.fresh = fact.at, inf, False
                self.registered = inf
            case facts.StreamDown():
                self._explain(DOWN)
                self.judging, self.down_until = True, inf
            case facts.StreamRefused():
                self.judging, self.down_until = False, inf
                for life in self.lives.values():
                    for event, step in enumerate(life.steps):
                        if step.proven < inf or any(s.said < inf for s in life.steps[event:]):
                            step.found = step.found or VOID
            case facts.Discarded():
                self._explain(DISCARDED)
                self.dropped = fact.until or fact.at
            case facts.Unread():
                self.unread.add(fact.container_id)
                for step in self.life(fact.container_id).steps:
                    if step.said < inf or step.proven < inf:
                        step.why = max(step.why, DISCARDED)
                        step.unheard = max(step.unheard, DISCARDED)
            case facts.ClockSet():
                passed = max(self.doubt, fact.at) + max(0.0, -fact.seconds)
                self.doubt = min(passed, fact.at + LONGEST)
            case facts.CgroupChanged() | facts.CgroupsRead() | facts.CgroupsLost():
                self.cgroups.apply(fact)
                self.ooms.apply(fact)
            case facts.Killed() | facts.KillsCounted():
                self.ooms.apply(fact)
            case facts.Believed() | facts.BeliefsShown() | facts.BeliefsLost():
                self.beliefs.apply(fact)
        return self.out

    def life(self, object_id: str) -> Life:
        """What is known of it; nothing, if nothing has named it."""
        return self.lives.get(object_id) or Life(object_id)

    def find(
        self,
        of: str,
        event: Lifecycle,
        found: Verdict,
        why: Why | None = None,
        *,
        before: bool = False,
    ) -> None:
        """That is to be found of it."""
        self.out.append((of, event, found, why, before))
        if found in FINAL:
            step = self.lives[of].steps[event]
            step.found, step.cause = found, why

    # --- the stream ---------------------------------------------------------------

    def _announced(self, event: Announcement) -> None:
        stamp, what, over = event.created_at_ns, Lifecycle(event.type.value), event.stream
        age = (event.received_wall_ns - stamp) / 1e9 if stamp else 0.0
        # A clock that had been set back before anybody saw it: long ago, for all that is known.
        made = event.received - max(0.0, age) if age >= -NOTICED else -inf
        early, backlog = made < self.horizon, made < self.asked
        life = self.lives.setdefault(event.container_id, Life(event.container_id, early))
        life.over, life.kind = False, life.kind or event.kind
        life.home = life.home or event.sandbox_id
        step = life.steps[what]
        is_first = step.said == inf
        is_copy = not is_first and step.stamp[0] != over and step.stamp[1] == stamp
        self._hear(event, made)
        if backlog:
            self.find(life.id, what, Verdict.BACKLOG)
        if is_first:
            waited, step.said, step.stamp = step.waits, event.received, (over, stamp)
            step.unheard = NO_REASON if waited else self._excuse_since(life, what, self.last)
            step.backlog, life.ran = backlog, what is STARTED or life.ran
            life.floor = max(life.floor, what) if backlog or early else life.floor
            if waited:
                self.find(life.id, what, Verdict.CONFIRMED)
            elif step.found is Verdict.MISSED and step.cause is not Cause.BY_DESIGN:
                self.find(life.id, what, Verdict.LATE, step.cause)
            self.beliefs.announced(event, life)
            if what is DIED and life.kind is not SANDBOX:
                self.ooms.stopped(life, event.received, event.exit_code, event.reason)
        elif not is_copy:
            self.find(life.id, what, Verdict.DUPLICATE)
        came = {each.stamp[0] for each in life.steps[what + 1 :] if each.said < inf}
        flaws = event.flawed.flaws if event.flawed else ()
        flaws += (Flaw.OUT_OF_ORDER,) if is_first and over in came else ()
        begun = [-inf if each.backlog else each.said for each in life.steps[:DIED]]
        may_lie = min(begun) >= self.doubt and min(begun) < inf
        for flaw in () if is_copy else flaws:
            if may_lie or flaw is not Flaw.WRONG_TIME:
                self.find(life.id, what, Verdict.FLAWED, flaw)
        self.cgroups.weigh(life.id)

    def _hear(self, event: Announcement, made: float) -> None:
        self.reached = max(self.reached, made)
        if self.first < inf or event.received <= self.began:
            return
        self.first = event.received
        for _, step in self._waiting() if self.fresh else ():
            # A new connection counts as up from its first event on.
            step.why = DOWN if step.proven > self.began else step.why

    def _excuse_since(self, life: Life, event: Lifecycle, since: float) -> int:
        """What may explain that an event of that life, made after `since`, has not come by now."""
        follows = any(self.first <= step.said < inf for step in life.steps[:event])
        unserved = min(self.first, self.registered) + SETTLES > since and not follows
        if self.down_until >= since or (unserved and self.fresh and self.first < inf):
            return DOWN
        dropped = self.dropped >= since or life.id in self.unread
        return DISCARDED if dropped else STALLED if unserved else NO_REASON

    def _waiting(self) -> Iterator[tuple[float, Step]]:
        """What waits for its announcement, and when the grace ends."""
        for life in self.lives.values():
            for event in () if life.over else Lifecycle:
                step = life.steps[event]
                if step.waits:
                    pending = step.ahead and life.behind(event)
                    due = max(life.due(event), self.doubt)
                    yield inf if pending else due + self.grace, step

    def _explain(self, why: int) -> None:
        """It may explain that something is missed, unless a younger event came before."""
        for ends, step in self._waiting():
            step.why = max(step.why, why) if ends >= self.reached else step.why

    # --- lists --------------------------------------------------------------------

    def _listed(self, relist: facts.Relist) -> None:
        before = {life.id: life.state for life in self.lives.values()}
        for item in relist.changed:
            life = self.lives.setdefault(item.id, Life(item.id))
            life.listed, life.over, life.kind = True, False, item.kind
            life.home, life.elsewhere = item.sandbox_id, item.elsewhere
            life.uid, life.state = item.pod.uid if item.pod else life.uid, item.state
            life.at_first = item.state if self.horizon == inf else life.at_first
        for gone in relist.gone:
            self.lives[gone].state = None
        for life in self.lives.values():
            old = before.get(life.id) or (None if life.state else self._told(life, relist))
            if life.state is not old:
                self._move(life, old, relist)
        self.last = relist.requested
        self.cgroups.judge(relist.requested)
        self.beliefs.judge(relist.requested)
        self.ooms.judge(relist.requested)
        for life in self.lives.values():
            left = [self._judge(life, event) for event in Lifecycle]
            life.over = life.state is None and not any(left)
        self.horizon = min(self.horizon, relist.requested)

    def _told(self, life: Life, relist: facts.Relist) -> ListedState | None:
        """The state in which the stream left what only it has named, if the list had to show it."""
        had_to = relist.requested > min(step.said for step in life.steps)
        if life.early or not had_to or life.steps[REMOVED] != Step():
            return None
        return RUNNING if life.steps[DIED].said == inf else EXITED

    def _move(self, life: Life, old: ListedState | None, relist: facts.Relist) -> None:
        done, started = DONE.get(life.state, DIED), life.steps[STARTED]
        life.ran = life.state is RUNNING or life.ran
        if not self.judging or self.horizon == inf:
            # It was that far when observation began.
            life.floor = max(life.floor, done)
            for step in life.steps[: done + 1]:
                step.found = step.found or VOID
        if self.horizon == inf:
            return
        died, removed = life.steps[DIED], life.steps[REMOVED]
        if old is None and removed.waits:
            # A list shows it again: its removal was none.
            died.proven = inf if died.waits and died.proven == removed.proven else died.proven
            removed.proven = inf
        if life.state is None:
            shown = died.proven < inf and not died.ahead
            life.gone_running = life.gone_running if shown else old is not EXITED
            life.left_ready = self.life(life.home).state is RUNNING
        life.exit_listed |= life.state is EXITED
        events = emitted(old, life.state)
        # What only a late event has named may have been gone before the subscription began.
        is_late = not life.listed and any(step.backlog for step in life.steps)
        since = -inf if is_late else self.last
        if DIED in events and started.ahead and started.waits:
            self._claim(life, STARTED, relist.completed, since)
        for event in events:
            self.prove(life, event, relist.completed, since)

    def prove(self, life: Life, event: Lifecycle, at: float, since: float) -> None:
        """It is proven at that time, and happened later than `since`."""
        step = life.steps[event]
        is_news = step.proven == inf or (step.ahead and step.waits)
        if not step.ahead:
            self.find(life.id, event, Verdict.WITNESSED)
        step.ahead = False
        from_unknown = event is CHANGED and life.state is not CREATED
        if self.judging and is_news and not from_unknown:
            self._claim(life, event, at, since)

    def _claim(self, life: Life, event: Lifecycle, at: float, since: float) -> None:
        step = life.steps[event]
        before = step.why if step.waits else NO_REASON
        step.why, step.proven = max(before, self._excuse_since(life, event, since)), at
        if step.said < inf and not step.found:
            self.find(life.id, event, Verdict.CONFIRMED)

    def _answered(self, fact: facts.Inquired) -> None:
        life, is_below = self.life(fact.container_id), fact.answer is Inquiry.DELETED_BELOW
        if not life.over:
            life.deleted_below |= is_below
            life.ran = life.ran if is_below else fact.answer is Inquiry.STARTED or bool(life.ran)

    # --- judgement ----------------------------------------------------------------

    def _judge(self, life: Life, event: Lifecycle) -> bool:
        """Judge one event of that life; whether there is more to judge later."""
        step = life.steps[event]
        if step.found or not self.judging:
            return False
        if step.waits:
            over = self.last > step.proven + self.grace
            return not over or self._judge_proven(life, event)
        if step.said < inf:
            return self._judge_said(life, event)
        return self._judge_skipped(life, event)

    def _judge_said(self, life: Life, event: Lifecycle) -> bool:
        step, behind = life.steps[event], life.behind(event)
        if life.state is UNKNOWN:
            step.denial = step.denial if step.denial.stands else Denial()
        elif behind and step.denial.by(self.last, step.said):
            self.find(life.id, event, Verdict.CONTRADICTED)
        if behind or self.last <= step.said + self.grace:
            return True
        step.found = Verdict.UNSEEN
        if not step.backlog:
            self.find(life.id, event, Verdict.UNSEEN)
        return False

    def _judge_skipped(self, life: Life, event: Lifecycle) -> bool:
        later = life.steps[event + 1 :]
        said = [(s.said, n, s.unheard) for n, s in enumerate(later) if s.said < inf]
        if not said:
            return False
        if life.behind(event) or self.last <= min(said)[0] + self.grace:
            return True
        if event > life.floor and self._must_have_happened(life, event):
            # A stall that explains a loss explains what was to come before it.
            whys = [max(s.why, s.cause is Cause.STALLED) for s in later]
            proven = [(s.proven, n, whys[n]) for n, s in enumerate(later) if s.proven < inf]
            why = max(min(said)[2], min(proven, default=(inf, 0, NO_REASON))[2])
            self.find(life.id, event, Verdict.GAP, self._reason(why))
        return False

    def _must_have_happened(self, life: Life, event: Lifecycle) -> bool:
        never = self.profile.never
        sandbox = life.kind is SANDBOX
        failed = sandbox and Never.SANDBOX_FAILED in never and life.may_have_failed
        if event is CHANGED and not failed:
            return not sandbox or Never.SANDBOX_CREATED not in never
        if event is CHANGED and Never.SANDBOX_CREATED in never:
            return False
        if life.ran is not None:
            return life.ran
        hidden = life.listed and failed if sandbox else Never.STOPPED_ONLY_IF_RAN in never
        return not hidden and life.steps[DIED].said < inf

    def _judge_proven(self, life: Life, event: Lifecycle) -> bool:
        step, died, may_fail = life.steps[event], life.steps[DIED], life.kind is not SANDBOX
        # Only `ContainerStatus` can say if it ever ran.
        said = died.said < inf and Never.STOPPED_ONLY_IF_RAN in self.profile.never
        in_doubt = may_fail and life.ran is None and life.state is EXITED and (died.waits or said)
        if step.ahead and (life.behind(event) or in_doubt):
            return True
        if event is DIED and may_fail and life.ran is None and life.exit_listed:
            if life.state is not None and not life.deleted_below:
                return True
            if not life.lasted:
                self.find(life.id, event, Verdict.UNDECIDED)
                return False
        started = life.ran or life.exit_listed or (life.lasted and life.ran is None)
        is_owed = {STARTED: life.ran is not False, DIED: started or not may_fail}.get(event, True)
        if not is_owed or (step.ahead and self.life(life.home).elsewhere):
            return False
        cause = self._cause(life, event)
        if cause is not None:
            self.find(life.id, event, Verdict.MISSED, cause)
        return cause is None

    def _cause(self, life: Life, event: Lifecycle) -> Cause | None:
        """Why it was missed; None while it may still come."""
        died, removed, of_sandbox = event is DIED, event is REMOVED, life.kind is SANDBOX
        # One that no list or event has shown may have gone at the same time, by force.
        home = self.lives.get(life.home) or Life("", gone_running=True)
        swept = home.gone_running and home.steps[DIED].said == inf
        failed = life.ran is False or not (life.ran or life.exit_listed)
        with_home = removed and not of_sandbox and not life.left_ready
        excuses = {
            Never.SANDBOX_REMOVED: removed and of_sandbox,
            Never.SANDBOX_FAILED: died and of_sandbox and life.may_have_failed,
            Never.FORCED_REMOVAL: died and life.gone_running and (of_sandbox or swept),
            Never.FAILED_START: died and not of_sandbox and life.ran is False,
            Never.DELETED_BELOW: removed and not of_sandbox and life.deleted_below,
            Never.REMOVED_WITH_SANDBOX: with_home and home.state is not RUNNING,
            Never.FAILED_START_REMOVED: removed and not of_sandbox and failed,
        }
        rules = {rule for rule in self.profile.never if excuses.get(rule)}
        if rules == {Never.REMOVED_WITH_SANDBOX} and home.state is not None:
            # The sandbox goes, and it may have gone with it.
            return None
        if rules:
            return Cause.BY_DESIGN
        reason, due = self._reason(life.steps[event].why), max(life.due(event), self.doubt)
        if reason not in {None, Cause.STALLED}:
            return reason
        if self.reached > due + self.grace:
            return reason or Cause.SILENT
        return Cause.STALLED if self.last > due + PATIENCE * self.grace else None

    def _reason(self, why: int) -> Cause | None:
        """On an exclusive stream another subscriber may have got what nothing else explains."""
        shared = self.profile.stream is StreamKind.EXCLUSIVE and why <= STALLED
        return Cause.SHARED if shared else WHY[why]
