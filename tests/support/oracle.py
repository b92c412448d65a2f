"""The verdicts again, from the whole log at once: what the ledger must have found.

Here: a second reading of the rules, offline and declarative; nothing is
remembered from one fact to the next, and nothing is shared with the ledger but
the vocabulary. Blind spots: the ledger's limits on memory, ids that a list
shows twice, times that are equal where the rules say "later", and stalls: the
logs have too few objects for them, and no lease that runs out.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
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
    for proof in life.proofs:
        if proof.event is event:
            yield Verdict.WITNESSED, None
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
    elif settled < inf and _is_unknowable(life, proof, settled):
        yield Verdict.UNDECIDED, None
    elif settled < inf and _is_owed(life, proof, settled):
        cause = _cause(life, proof, settled)
        yield Verdict.MISSED, cause
        if life.said(proof.event) and cause is not Cause.BY_DESIGN:
            yield Verdict.LATE, None


def _settling(life: LoggedLife, proof: Proof) -> float:
    """The relist that judges a proof: the first after the grace that is not told to wait."""
    grace_over = life.log.settling(proof)
    later = (n for n in range(len(life.states)) if n >= grace_over)
    return first(n for n in later if not _waits(life, proof, n))


def _waits(life: LoggedLife, proof: Proof, n: int) -> bool:
    if _is_unknowable(life, proof, n):
        return life.states[n] is not None and not life.answered(Inquiry.DELETED_BELOW, n)
    if _proven_at(life, proof) > _held_after(life.log, n) and _is_silent(life, proof, n):
        return True
    if proof.event is not REMOVED or life.is_sandbox(n):
        return False
    home = life.home(n)
    return (
        Never.REMOVED_WITH_SANDBOX in life.log.profile.never
        and home.states[proof.found] is not ListedState.RUNNING
        and home.states[n] in (ListedState.EXITED, ListedState.UNKNOWN)
        and _cause(life, proof, n) is not Cause.BY_DESIGN
    )


def _held_after(log: Log, n: int) -> float:
    """Since when proofs wait at that relist: several go missing, and nothing younger has come."""
    if n not in log.held_after:
        heard = max(
            (h.event.received for h in log.heard if h.place < log.seen[n].place), default=-inf
        )
        missing = [_missing_since(life, n, heard) for life in log.lives.values()]
        quiet = [at for at in missing if at > heard]
        waits = len(quiet) > 1 and log.seen[n].relist.requested <= max(quiet) + log.grace
        log.held_after[n] = heard if waits else inf
    return log.held_after[n]


def _missing_since(life: LoggedLife, n: int, heard: float) -> float:
    """When the latest proof after `heard` was found that is open then, and may be a loss."""
    proofs = [-inf]
    doubt = life.doubt
    if doubt and doubt.found <= n <= doubt.end and (doubt.proves or n < doubt.end):
        proofs.append(life.log.seen[doubt.found].relist.completed)
    for event in {p.event for p in life.proofs if p.at <= n and _proven_at(life, p) > heard}:
        proof = _stands(life, event, n)
        if proof is None or life.is_history(event) or life.said(event, n):
            continue
        if not _was_settled(life, proof, n) and _is_silent(life, proof, n):
            proofs.append(_proven_at(life, proof))
    return max(proofs)


def _was_settled(life: LoggedLife, proof: Proof, n: int) -> bool:
    over = life.log.settling(proof)
    return over < n and any(not _waits(life, proof, k) for k in range(int(over), n))


def _is_silent(life: LoggedLife, proof: Proof, n: int) -> bool:
    """Whether that relist would call it a silent loss, by what has befallen until then."""
    if not _is_owed(life, proof, n) or _cause(life, proof, n) is Cause.BY_DESIGN:
        return False
    return life.log.excuse(proof, life.log.seen[n].relist.completed) is Cause.SILENT


def _proven_at(life: LoggedLife, proof: Proof) -> float:
    return life.log.seen[proof.found].relist.completed


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
    if proof.event is DIED and not life.is_sandbox(settled):
        return life.exit_listed(settled) or life.ran(settled)
    return True


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


def _stands(life: LoggedLife, event: Lifecycle, by: float) -> Proof | None:
    """The first proof found by then that no list up to then takes back."""
    claims = _claims(life, event)
    return next((p for p in claims if p.at <= by and not _taken_back(life, p, by)), None)


# --- gaps ---------------------------------------------------------------------


def _gap(life: LoggedLife, event: Lifecycle) -> float:
    """The relist after which a step is missing below a later one."""
    return first(n for n in range(len(life.states)) if _is_gap(life, event, n))


def _is_gap(life: LoggedLife, event: Lifecycle, relist: int) -> bool:
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
    return life.log.interruption(witness) or _interruption_of_proof(life, event, relist)


def _interruption_of_proof(life: LoggedLife, event: Lifecycle, relist: int) -> Cause | None:
    """Why the first proof of a later step may have lacked its announcement, until that came."""
    steps = (step for step in Lifecycle if step > event)
    proofs = [proof for step in steps if (proof := _stands(life, step, relist))]
    if not proofs:
        return None
    proof = min(proofs, key=lambda p: p.found)
    completed = life.log.seen[proof.found].relist.completed
    told = (h.event.received for h in life.before(inf) if h.step is proof.event)
    cause = life.log.excuse(proof, end=max(completed, next(told, inf)))
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


def _cause(life: LoggedLife, proof: Proof, settled: float) -> Cause:
    excuses = _sandbox_excuses if life.is_sandbox(settled) else _container_excuses
    if life.log.profile.never & set(excuses(life, proof, settled)):
        return Cause.BY_DESIGN
    return life.log.excuse(proof)


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
