"""The verdicts again, from the whole log at once: what the ledger must have found.

Here: a second reading of the rules, offline and declarative; nothing is
remembered from one fact to the next, and nothing is shared with the ledger but
the vocabulary. Blind spots: the ledger's limits on memory, ids that a list
shows twice, times that are equal where the rules say "later", and exits that
the kernel proved and a list takes back.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

from exporter.pleg.events import Announcement, Inquiry, Lifecycle, ListedState
from exporter.pleg.facts import Fact
from exporter.pleg.findings import Cause, Verdict
from exporter.pleg.profiles import Never, Profile
from tests.support.facts import Outcome
from tests.support.oracle_log import (
    CHANGED,
    DIED,
    REACHED,
    REMOVED,
    STARTED,
    Heard,
    Log,
    LoggedLife,
    Proof,
    first,
)

Judged = tuple[Verdict, Cause | None]


def classify(facts: Sequence[Fact], profile: Profile, grace: float) -> Counter[Outcome]:
    """Every finding that the ledger owes for this log."""
    log = Log(facts, profile, grace)
    found: Counter[Outcome] = Counter()
    for object_id, life in log.lives.items():
        for event in Lifecycle:
            for verdict, cause in _identity(life, event):
                found[object_id, event, verdict, cause] += 1
    return found


def _identity(life: LoggedLife, event: Lifecycle) -> Iterator[Judged]:
    yield from ((Verdict.WITNESSED, None) for _ in range(_witnessed(life, event)))
    if life.log.refused:
        return
    if life.is_history(event):
        yield from ((v, None) for v in _stream_alone(life, event) if v is not Verdict.CONTRADICTED)
    else:
        yield from ((verdict, None) for verdict in _stream_alone(life, event))
        yield from _paired(life, event)


# --- what announcements are worth by themselves -------------------------------


def _stream_alone(life: LoggedLife, event: Lifecycle) -> Iterator[Verdict]:
    heard = [h for h in life.heard if h.step is event]
    for n, one in enumerate(heard):
        if one.backlog:
            yield Verdict.BACKLOG
        if n and not _is_copy(one.event, heard[0].event):
            yield Verdict.DUPLICATE
    if heard and _is_contradicted(life, heard[0]):
        yield Verdict.CONTRADICTED


def _is_copy(one: Announcement, original: Announcement) -> bool:
    """The overlap of two subscriptions brought the same event twice."""
    return one.created_at_ns == original.created_at_ns and one.stream != original.stream


def _is_contradicted(life: LoggedLife, heard: Heard) -> bool:
    """Whether lists *still* show an older state: none has shown the step, or what follows it."""
    proof = _stands(life, heard.step, inf)
    proven = proof.at if proof and _gap(life, heard.step) == inf else inf
    end = min(_passed(life, heard.step), proven)
    older = [
        seen.relist.requested > heard.event.received
        and n < end
        and life.states[n] not in (None, ListedState.UNKNOWN)
        and life.behind(heard.step, n)
        for n, seen in enumerate(life.log.seen)
    ]
    return any(a and b for a, b in pairwise(older))


# --- one identity, both witnesses ---------------------------------------------


def _paired(life: LoggedLife, event: Lifecycle) -> Iterator[Judged]:
    gap, passed, proof = _gap(life, event), _passed(life, event), _stands(life, event, inf)
    if gap < inf:
        yield Verdict.GAP, _interruption(life, event, int(gap))
    elif proof and proof.at <= passed:
        yield from _proven(life, proof)
        return
    if passed < inf and not _first_heard(life, event).backlog:
        yield Verdict.UNSEEN, None


def _proven(life: LoggedLife, proof: Proof) -> Iterator[Judged]:
    settled = _settling(life, proof)
    if life.said(proof.event, settled):
        yield Verdict.CONFIRMED, None
    elif settled < inf and _is_unknowable(life, proof, settled) and not _lasted(life, settled):
        yield Verdict.UNDECIDED, None
    elif settled < inf and _is_owed(life, proof, settled):
        cause = _cause(life, proof, int(settled))
        yield Verdict.MISSED, cause
        if life.said(proof.event) and cause is not Cause.BY_DESIGN:
            yield Verdict.LATE, cause


def _settling(life: LoggedLife, proof: Proof) -> float:
    """The relist that judges a proof: the first after the grace that is not told to wait."""
    grace_over = life.log.settling(proof)
    later = (n for n in range(len(life.states)) if n >= grace_over)
    return first(n for n in later if not _waits(life, proof, n))


def _waits(life: LoggedLife, proof: Proof, n: int) -> bool:
    if proof.ahead and _is_ahead(life, proof.event, n):
        return True
    if _is_unknowable(life, proof, n):
        if life.states[n] is not None and not life.answered(Inquiry.DELETED_BELOW, n):
            return True
        if not _lasted(life, n):
            return False
    if _may_come(life, proof, n):
        return True
    if proof.event is not REMOVED or life.is_sandbox(n):
        return False
    home = life.home(n)
    return (
        Never.REMOVED_WITH_SANDBOX in life.log.profile.never
        and home.states[proof.found] is not ListedState.RUNNING
        and home.states[n] in (ListedState.EXITED, ListedState.UNKNOWN)
        and not _is_by_design(life, proof, n)
    )


def _may_come(life: LoggedLife, proof: Proof, n: int) -> bool:
    """Whether a younger event has yet to show that the announcement does not come any more."""
    log, place = life.log, life.place(n)
    if not _is_owed(life, proof, n) or _is_by_design(life, proof, n):
        return False
    if log.is_shared or log.excuse(life, proof, place) in (Cause.STREAM_DOWN, Cause.DISCARDED):
        return False
    before = (h.event.received for h in life.before(n) if h.step < proof.event)
    due = max([proof.proven, *before])
    patient = log.seen[n].relist.requested <= due + 6 * log.grace
    return patient and log.may_come(life, proof, place)


def _was_settled(life: LoggedLife, proof: Proof, n: int) -> bool:
    over = life.log.settling(proof)
    return over < n and any(not _waits(life, proof, k) for k in range(int(over), n))


def _is_unknowable(life: LoggedLife, proof: Proof, n: float) -> bool:
    """Whether only `ContainerStatus` could tell if that exit was owed, and it has not."""
    return (
        proof.event is DIED
        and not life.is_sandbox(n)
        and life.exit_listed(n)
        and not life.ran(n)
        and not life.answered(Inquiry.NEVER_STARTED, n)
    )


def _first_heard(life: LoggedLife, event: Lifecycle) -> Heard:
    return next(h for h in life.before(inf) if h.step is event)


def _passed(life: LoggedLife, event: Lifecycle) -> float:
    """The relist that ends the wait for the proof of an announcement.

    The first one asked for after the grace that shows the step done or the container gone.
    """
    if not life.said(event):
        return inf
    deadline = _first_heard(life, event).event.received + life.log.grace
    return first(n for n in life.log.requested_after(deadline) if not life.behind(event, n))


def _is_owed(life: LoggedLife, proof: Proof, settled: float) -> bool:
    failed = life.answered(Inquiry.NEVER_STARTED, settled) and not life.ran(settled)
    if proof.event is DIED and not life.is_sandbox(settled):
        lasted = not failed and _lasted(life, settled)
        return life.exit_listed(settled) or life.ran(settled) or lasted
    return proof.event is not STARTED or not failed


# --- proofs that last ---------------------------------------------------------


def _claims(life: LoggedLife, event: Lifecycle) -> list[Proof]:
    """Proofs that may owe an announcement: "changed to UNKNOWN" tells nothing."""
    return [p for p in life.proofs if p.event is event and p.new is not ListedState.UNKNOWN]


def _taken_back(life: LoggedLife, proof: Proof, by: float = inf) -> bool:
    """Whether a list up to that one shows again what was proven removed, before that was judged."""
    back = first(n for n, s in enumerate(life.states) if n > proof.at and s is not None)
    if proof.new is not None or back > min(by, len(life.states)):
        return False
    if life.said(proof.event, back) or _was_settled(life, proof, int(back)):
        return False
    if proof.event is REMOVED:
        return all(_taken_back(life, p, by) for p in _claims(life, REMOVED) if p.at < proof.at)
    removal = next(p for p in life.proofs if p.at == proof.at and p.event is REMOVED)
    return _taken_back(life, removal, by)


def _listed(life: LoggedLife, event: Lifecycle, by: float) -> Proof | None:
    """The first proof of a list found by then that no list up to then takes back."""
    claims = _claims(life, event)
    return next((p for p in claims if p.at <= by and not _taken_back(life, p, by)), None)


def _stands(life: LoggedLife, event: Lifecycle, by: float) -> Proof | None:
    """The proof that counts by then: the first one, or the list that agrees with the kernel."""
    listed, end = _listed(life, event, by), int(min(by, len(life.states)))
    kernels = _kernel(life, event, end)
    own = (p for p, undone in kernels if undone == inf or life.log.moment(undone) > end)
    kernel = next(own, None)
    if kernel is None or (listed is not None and listed.place < kernel.place):
        return listed
    until = end if listed is None else listed.at - 1
    for n in _agreeing(life, kernel, until):
        if _is_over(life, kernel, n):
            return _excusable(life, kernel, n - 1)
        since = min(kernel.since, life.log.seen[n - 1].relist.requested)
        kernel = replace(kernel, since=since, proven=life.log.seen[n].relist.completed)
    if listed is None or _is_over(life, kernel, listed.at):
        return _excusable(life, kernel, until)
    since = min(kernel.since, listed.since)
    return replace(listed, at=kernel.at, place=kernel.place, since=since)


def _excusable(life: LoggedLife, kernel: Proof, by: int) -> Proof:
    """The same proof: whatever befalls the watch while lists are behind may excuse a miss of it."""
    states = life.states[: by + 1]
    waits = [
        n
        for n in range(kernel.at - 1, len(states))
        if life.behind(kernel.event, n) and not _was_settled(life, kernel, n)
    ]
    ends = [life.log.seen[n + 1].relist.completed for n in waits if n + 1 < len(states)]
    end = inf if waits and waits[-1] + 1 >= len(states) else max(ends, default=-inf)
    said = min((h.event.received for h in life.heard if h.step is kernel.event), default=inf)
    return replace(kernel, told=max(kernel.told, min(end, said)))


def _is_over(life: LoggedLife, kernel: Proof, n: int) -> bool:
    """Whether a proof of the kernel was announced or judged before that relist."""
    return life.said(kernel.event, n) or _was_settled(life, kernel, n)


# --- proofs of the kernel -----------------------------------------------------


def _agreeing(life: LoggedLife, kernel: Proof, by: int) -> Iterator[int]:
    """The lists up to that one that show a start done by showing the exit: they emit no start."""
    if kernel.event is STARTED:
        exits = (p.at for p in life.proofs if p.event is DIED and p.at <= by)
        yield from (n for n in exits if life.log.seen[n].place > kernel.place)


def _is_ahead(life: LoggedLife, event: Lifecycle, n: int) -> bool:
    """Whether the lists may still have to follow the kernel, or `ContainerStatus` to decide."""
    doubt = life.doubt
    if life.behind(event, n) or (doubt and doubt.found <= n < doubt.end):
        return True
    return (
        event is STARTED
        and not life.answered(Inquiry.DELETED_BELOW, n)
        and not life.answered(Inquiry.NEVER_STARTED, n)
        and not life.ran(n)
        and not life.is_sandbox(n)
        and life.states[n] is ListedState.EXITED
        and _is_exit_unexplained(life, n)
    )


def _is_exit_unexplained(life: LoggedLife, n: int) -> bool:
    if life.said(DIED, n):
        return Never.STOPPED_MEANS_RAN in life.log.profile.never
    proof = None if life.is_history(DIED) else _stands(life, DIED, n)
    return proof is not None and not _was_settled(life, proof, n)


def _kernel(life: LoggedLife, event: Lifecycle, n: int) -> list[tuple[Proof, float]]:
    """What the kernel proved before relist `n` was judged, and where each was taken back."""
    key = life.id, event, n
    if n < 1 or event not in (STARTED, DIED):
        return []
    if key not in life.log.kernel:
        proofs = list(_kernel(life, event, n - 1))
        for place in _looks(life, n):
            if any(sight.began[0] == place for sight in life.sights):
                proofs = [(p, _undone(life, p, place, undone)) for p, undone in proofs]
            if all(undone < inf for _, undone in proofs) and _may_prove(life, event, place):
                proofs += [(proof, inf) for proof in _shown(life, event, place)]
        life.log.kernel[key] = proofs
    return life.log.kernel[key]


def _looks(life: LoggedLife, n: int) -> list[int]:
    """Where something new may be proven between relist `n` and the one before: in the log."""
    begin, end = life.place(n - 1), life.place(n if n < len(life.states) else inf)
    places = {p for sight in life.sights for p, _ in (sight.began, sight.ended or sight.began)}
    places |= {sight.lasted[0] for sight in life.sights if sight.lasted}
    places |= {heard.place for heard in life.heard}
    places |= {int(end)} if end < inf else set()
    return sorted(p for p in places if begin < p <= end)


def _undone(life: LoggedLife, proof: Proof, place: int, undone: float) -> float:
    """Where that proof was taken back, if by processes that were seen at that place."""
    n = life.log.moment(place)
    emitted = any(p.event is proof.event and proof.place <= p.place < place for p in life.proofs)
    announced = any(h.step is proof.event and h.place < place for h in life.heard)
    if undone < inf or proof.event is not DIED or emitted or announced:
        return undone
    return undone if _was_settled(life, proof, n) else place


def _may_prove(life: LoggedLife, event: Lifecycle, place: int) -> bool:
    """Whether it is known, and the event neither proven nor from before our time."""
    n = life.log.moment(place)
    now = n < len(life.states) and life.place(n) == place
    listed = _listed(life, event, n if now else n - 1)
    proven = listed is not None and (listed.at < n or listed.at == listed.found)
    return n > 0 and _is_live(life, place) and event > _floor(life, place) and not proven


def _floor(life: LoggedLife, place: int) -> int:
    """The last step before our time, told before that place, or right there."""
    marks = [
        int(h.step)
        for n, h in enumerate(life.heard)
        if h.place <= place
        and (h.backlog or h.early)
        and h.step not in {each.step for each in life.heard[:n]}
    ]
    shown = [(n, s) for n, s in enumerate(life.states) if life.place(n) <= place and s is not None]
    until = len(life.states) if life.log.refused else 1
    marks += [REACHED.get(state, 2) for n, state in shown if n < until]
    return max(marks, default=-1)


def _shown(life: LoggedLife, event: Lifecycle, place: int) -> list[Proof]:
    """What the cgroup proves at that place, given all that is known by then."""
    n = life.log.moment(place)
    known = {h.step for h in life.heard if h.place <= place}
    for sight in life.sights:
        if not sight.began[0] <= place < sight.void:
            continue
        lasted = sight.lasted is not None and sight.lasted[0] <= place
        ran = STARTED in known or _ran_by(life, place)
        told = life.log.learnt(place)
        new = ListedState.EXITED
        if event is STARTED and not sight.old and (lasted or STARTED in known):
            at = sight.lasted[1] if lasted and sight.lasted else sight.began[1]
            return [Proof(event, n, -1, None, new, place, sight.after, at, told, ahead=True)]
        if event is DIED and sight.ended and sight.ended[0] <= place and (lasted or ran):
            since, at = sight.ended_after, sight.ended[1]
            return [Proof(event, n, -1, None, new, place, since, at, told, ahead=True)]
    return []


def _ran_by(life: LoggedLife, place: int) -> bool:
    """Whether a list or an answer had told by that place that it ran."""
    lists = (s for k, s in enumerate(life.states) if life.place(k) <= place)
    answers = (a for p, a in life.answers if p <= place)
    return ListedState.RUNNING in lists or Inquiry.STARTED in answers


def _lasted(life: LoggedLife, n: float) -> bool:
    """Whether the kernel showed by then that it ran."""
    return any(
        sight.lasted is not None
        and any(
            sight.lasted[0] <= place < sight.void and _is_live(life, place)
            for k in range(1, int(min(n, len(life.states))) + 1)
            for place in _looks(life, k)
        )
        for sight in life.sights
    )


def _is_live(life: LoggedLife, place: int) -> bool:
    """Whether a list or the stream named it, and it is listed or a verdict about it is due."""
    n = life.log.moment(place)
    lists = [k for k, s in enumerate(life.states) if s is not None and life.place(k) <= place]
    named = [life.place(k) for k in lists] + [h.place for h in life.heard if h.place <= place]
    if not named:
        return False
    since = max(named)
    return all(_is_due(life, k) for k in range(n) if life.place(k) > since)


def _is_due(life: LoggedLife, n: int) -> bool:
    """Whether any verdict about it is due when that relist has been judged."""
    if life.log.refused:
        return False
    doubt = life.doubt
    pending = doubt is not None and doubt.found <= n < doubt.end
    return pending or any(_is_step_due(life, event, n) for event in Lifecycle)


def _is_step_due(life: LoggedLife, event: Lifecycle, n: int) -> bool:
    if life.is_history(event):
        return False
    said, passed, proof = life.said(event, n), _passed(life, event), _stands(life, event, n)
    if any(_is_gap(life, event, k) for k in range(n + 1)):
        return said and passed > n
    if proof is not None and proof.at <= passed:
        return not said and not _was_settled(life, proof, n + 1)
    if said:
        return passed > n
    later = [h.event.received for h in life.before(n) if h.step > event and not h.backlog]
    over = min(later, default=-inf) + life.log.grace
    return bool(later) and (life.behind(event, n) or life.log.seen[n].relist.requested <= over)


def _witnessed(life: LoggedLife, event: Lifecycle) -> int:
    """How often it is counted: once if the lists only follow the kernel."""
    kernel = [(p.place, 1, p) for p, _ in _kernel(life, event, len(life.states))]
    listed = [(p.place, 2 * (p.at > p.found), p) for p in life.proofs if p.event is event]
    both = sorted([*kernel, *listed], key=lambda each: each[:2])
    before = [None, *(proof for _, _, proof in both)]
    return sum(old is None or not old.ahead for old, _ in zip(before, both, strict=False))


# --- gaps ---------------------------------------------------------------------


def _gap(life: LoggedLife, event: Lifecycle) -> float:
    """The relist after which a step is missing below a later one."""
    return first(n for n in range(len(life.states)) if _is_gap(life, event, n))


def _is_gap(life: LoggedLife, event: Lifecycle, relist: int) -> bool:
    if (event, relist) not in life.gaps:
        life.gaps[event, relist] = _looks_like_gap(life, event, relist)
    return life.gaps[event, relist]


def _looks_like_gap(life: LoggedLife, event: Lifecycle, relist: int) -> bool:
    later = [h for h in life.before(relist) if h.step > event and not h.backlog]
    if not later or life.said(event, relist) or life.behind(event, relist):
        return False
    deadline = min(h.event.received for h in later) + life.log.grace
    return (
        life.log.seen[relist].relist.requested > deadline
        and event > life.floor(relist)
        and _stands(life, event, relist) is None
        and _must_have_happened(life, event, relist)
    )


def _interruption(life: LoggedLife, event: Lifecycle, relist: int) -> Cause | None:
    """What may explain a gap: the watch before the first later announcement, or the first proof."""
    later = [h for h in life.before(relist) if h.step > event and not h.backlog]
    witness = min(later, key=lambda h: h.event.received)
    cause = life.log.interruption(life, witness) or _interruption_of_proof(life, event, relist)
    return Cause.SHARED if life.log.is_shared and cause in (None, Cause.STALLED) else cause


def _interruption_of_proof(life: LoggedLife, event: Lifecycle, relist: int) -> Cause | None:
    """Why the first proof of a later step may have lacked its announcement, until that came."""
    steps = (step for step in Lifecycle if step > event)
    proofs = [proof for step in steps if (proof := _stands(life, step, relist))]
    if not proofs:
        return None
    proof = min(proofs, key=lambda p: p.proven)
    said = (h.place for h in life.before(inf) if h.step is proof.event)
    ends = (life.place(relist), life.place(_settling(life, proof)), next(said, inf))
    cause = life.log.excuse(life, proof, min(ends))
    return None if cause is Cause.SILENT else cause


def _must_have_happened(life: LoggedLife, event: Lifecycle, relist: int) -> bool:
    never = life.log.profile.never
    if event is CHANGED:
        return not (life.is_sandbox(relist) and Never.SANDBOX_CREATED in never)
    if life.answered(Inquiry.NEVER_STARTED, relist) and event is STARTED:
        return False
    sandbox_failed = life.is_sandbox(relist) and Never.SANDBOX_FAILED in never
    if event is STARTED and sandbox_failed and life.first_shown(relist) is ListedState.EXITED:
        return life.ran(relist)
    if event is STARTED:
        telling = life.is_sandbox(relist) or Never.STOPPED_MEANS_RAN not in never
        return life.ran(relist) or (telling and life.said(DIED, relist))
    return life.ran(relist) and life.said(REMOVED, relist)


# --- causes -------------------------------------------------------------------


def _is_by_design(life: LoggedLife, proof: Proof, settled: float) -> bool:
    excuses = _sandbox_excuses if life.is_sandbox(settled) else _container_excuses
    return bool(life.log.profile.never & set(excuses(life, proof, settled)))


def _cause(life: LoggedLife, proof: Proof, settled: int) -> Cause:
    log, place = life.log, life.place(settled)
    if _is_by_design(life, proof, settled):
        return Cause.BY_DESIGN
    cause = log.excuse(life, proof, place)
    if cause in (Cause.STREAM_DOWN, Cause.DISCARDED):
        return cause
    if log.is_shared:
        return Cause.SHARED
    return Cause.STALLED if log.may_come(life, proof, place) else cause


def _sandbox_excuses(life: LoggedLife, proof: Proof, settled: float) -> Iterator[Never]:
    if proof.event is CHANGED:
        yield Never.SANDBOX_CREATED
    if proof.event is REMOVED:
        yield Never.SANDBOX_REMOVED
    if proof.event is DIED:
        if life.first_shown(settled) is ListedState.EXITED and not life.ran(settled):
            yield Never.SANDBOX_FAILED
        if _swept_away(life, settled):
            yield Never.FORCED_REMOVAL


def _container_excuses(life: LoggedLife, proof: Proof, settled: float) -> Iterator[Never]:
    home = life.home(settled)
    if proof.event is DIED:
        if life.answered(Inquiry.NEVER_STARTED, settled):
            yield Never.FAILED_START
        if proof.new is None and _swept_away(home, settled) and not home.said(DIED, settled):
            yield Never.FORCED_REMOVAL
    if proof.event is REMOVED:
        if life.answered(Inquiry.DELETED_BELOW, settled):
            yield Never.DELETED_BELOW
        known = home.before(settled) or home.shown(settled)
        left_ready = home.states[proof.found] is ListedState.RUNNING
        if known and home.states[int(settled)] is None and not left_ready:
            yield Never.REMOVED_WITH_SANDBOX


def _swept_away(life: LoggedLife, settled: float) -> bool:
    """Whether it was removed while it ran, as far as the lists tell by then."""
    exit_ = _stands(life, DIED, settled)
    return exit_ is not None and exit_.new is None
