"""Explains in sentences why the ledger reached a verdict; times in them are before the verdict."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from exporter.evidence.timeline import lasting
from exporter.model.events import ANNOUNCED_BY, EVENTS, Lifecycle
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.flaws import MEANINGS
from exporter.model.labels import Flaw, Limit, OomKill
from exporter.pleg.entry import Entry
from exporter.pleg.steps import Exit
from exporter.runtimes.runtime import Profile

OVERDUE: Final = (Verdict.OVERDUE_PROCESS, Verdict.OVERDUE_RUNTIME, Verdict.OVERDUE_KUBELET)
# Verdicts and causes that deserve a record.
NOTABLE: Final = frozenset(
    {
        *((Verdict.MISSED, cause) for cause in Cause if cause is not Cause.BY_DESIGN),
        *((Verdict.FLAWED, flaw) for flaw in Flaw),
        *((Verdict.OOM, kind) for kind in OomKill if kind is not OomKill.UNATTRIBUTED),
        *((late, None) for late in OVERDUE),
        (Verdict.GAP, None),
        (Verdict.UNDECIDED, None),
        (Verdict.CONTRADICTED, None),
        (Verdict.GHOST, None),
        (Verdict.STRAY, None),
        (Verdict.TWIN, None),
        (Verdict.FROZEN, None),
        (Verdict.SLOW, None),
        (Verdict.STALE, None),
        (Verdict.DISAGREES, None),
        (Verdict.UNKNOWN_TO_KUBELET, None),
    }
)
# In the order in which they are shown.
CAUSE_MEANINGS: Final = {
    Cause.SILENT: "lost by the runtime or on its way: a younger event came over the same"
    " subscription",
    Cause.STALLED: "the subscription was open and delivered nothing in time: lost or delayed, and"
    " by whom is unknown",
    Cause.STREAM_DOWN: "the subscription was down, or had only begun, at some moment before a"
    " younger event came",
    Cause.DISCARDED: "dropped by the exporter: its queue was full, or it could not read it",
    Cause.SHARED: "another subscriber of this exclusive stream may have received it",
    Cause.BY_DESIGN: "this runtime never announces them: not a loss, and in no ratio",
}
# Of verdicts that are not notable.
_MEANINGS: Final = {
    Verdict.WITNESSED: "proven by the relist or the kernel",
    Verdict.CONFIRMED: "proven by the relist or the kernel, and announced",
    Verdict.LATE: "announced after it had been counted as missed",
    Verdict.UNSEEN: "announced, and neither relist nor kernel showed it within the grace: the state"
    " lay between two relists",
    Verdict.GAP: "never announced, though a later step was",
    Verdict.DUPLICATE: "announced before, on the same subscription or with another created_at",
    Verdict.BACKLOG: "announced again: its created_at is older than the subscription",
    Verdict.OOM: "a process was killed for want of memory, or is said to have been",
    Verdict.OVERFLOW: "announced, but the stream names more containers than the ledger tracks",
}
BY_THE_KUBELET: Final = "the kubelet showed it "
_ANNOUNCED: Final = "the process ended {} before the runtime said so"
_DELAYS: Final = {
    Verdict.EXIT_ANNOUNCED: _ANNOUNCED,
    Verdict.SLOW: _ANNOUNCED,
    Verdict.EXIT_LISTED: "the process ended {} before a list showed it",
    Verdict.EXIT_BELIEVED: f"{BY_THE_KUBELET}{{}} after the exit",
    Verdict.EVENT_BELIEVED: f"{BY_THE_KUBELET}{{}} after the announcement",
}
# SLOW is a verdict, too.
MEASURES: Final = frozenset(_DELAYS) - {Verdict.SLOW}
_PROVEN_BY_KERNEL: Final = {
    Lifecycle.STARTED: "the kernel saw that its processes last",
    Lifecycle.DIED: "the kernel saw its last process end",
}
_LATE: Final = {
    Verdict.OVERDUE_PROCESS: "two relists in a row show it running, and the kernel its processes",
    Verdict.OVERDUE_RUNTIME: "two relists in a row show it running, and the kernel no process",
    Verdict.OVERDUE_KUBELET: "two relists in a row show nothing of the pod running",
}
_ASKED: Final = "asked again, the kubelet shows the same"
_OOM: Final = {
    OomKill.ANNOUNCED: "the runtime announced its end as OOMKilled",
    OomKill.ANNOUNCED_AS_ERROR: "the container ended by it, and its end was announced as an error",
    OomKill.UNANNOUNCED: "its container has ended, and no announcement says how",
    OomKill.SURVIVED: "its container runs on, or ended otherwise: Kubernetes shows no kill",
    OomKill.REASON_ONLY: "OOMKilled was announced of it, and no kill made that end",
}
_BEFORE: Final = "it stood already when observation began: no counter counts it again"

_Reasons = tuple[str, ...]


class _Case(NamedTuple):
    finding: Finding
    entry: Entry | None
    profile: Profile
    grace: float
    now: float

    @property
    def exit(self) -> Exit | None:
        return self.entry.exit if self.entry is not None else None


def why(
    finding: Finding, entry: Entry | None, profile: Profile, grace: float, now: float
) -> _Reasons:
    """The verdict's reasons, one sentence each, the most telling last.

    `entry`: None if the ledger remembers nothing of the container.
    """
    verdict = finding.verdict
    if verdict in MEASURES:
        return (delay(finding),)
    if (verdict, finding.cause) not in NOTABLE and finding.rule is None:
        return (_MEANINGS[verdict],)
    case = _Case(finding, entry, profile, grace, now)
    if verdict in _OF_ONE_WITNESS:
        reasons = _OF_ONE_WITNESS[verdict](case)
        return (_BEFORE, *reasons) if finding.before else reasons
    if entry is None:
        return ("the ledger no longer has this container",)
    return _OF_THE_STREAM.get(verdict, _missed)(case, entry)


def delay(finding: Finding) -> str:
    """How late an exit was noticed, and by whom; of a finding that measures it."""
    return _DELAYS[finding.verdict].format(lasting(finding.seconds or 0.0))


def _missed(case: _Case, entry: Entry) -> _Reasons:
    finding, profile, now = case.finding, case.profile, case.now
    step, announcement = entry.steps[finding.event], ANNOUNCED_BY[finding.event].name
    proven = step.proven or 0.0
    proof = [f"the relist that completed {lasting(now - proven)} ago proves {finding.event.label}"]
    if step.kernel is not None:
        seen = _PROVEN_BY_KERNEL[finding.event]
        if step.kernel_first:
            proof = [f"{seen} {lasting(now - step.kernel)} ago; no list showed it"]
        else:
            proof.insert(0, f"{seen} {lasting(proven - step.kernel)} before a list did")
    proof.append(
        f"no {announcement} came within the grace of {case.grace:g} s, and none until this relist,"
        " which was requested later"
    )
    if finding.rule is not None:
        return *proof, f"by_design: {profile.name} never announces {finding.rule.value}"
    if finding.verdict is Verdict.UNDECIDED:
        never_ran = (
            "undecided: no witness saw it run, and ContainerStatus can no longer say: had its start"
            " failed, no exit would have been owed"
        )
        return *proof, never_ran
    cause = finding.cause if isinstance(finding.cause, Cause) else Cause.SILENT
    owed = f"{profile.name} announces this: no rule of its profile excuses it"
    return *proof, owed, f"{cause.value}: {CAUSE_MEANINGS[cause]}"


def _gap(case: _Case, entry: Entry) -> _Reasons:
    finding, reasons = case.finding, []
    for event, step in zip(EVENTS, entry.steps, strict=True):
        if event > finding.event and step.announced is not None:
            ago = f"{lasting(case.now - step.announced)} ago"
            reasons.append(f"{ANNOUNCED_BY[event].name}, a later step, was announced {ago}")
    reasons.append(
        f"{ANNOUNCED_BY[finding.event].name} was never announced, no relist proved"
        f" {finding.event.label}, and the grace is over"
    )
    if finding.event is not Lifecycle.CHANGED and entry.ran:
        reasons.append("the container is known to have run, so it must have happened")
    return tuple(reasons)


def _flawed(case: _Case, entry: Entry) -> _Reasons:
    flaw, event = cast("Flaw", case.finding.cause), case.finding.event
    said = f"this {ANNOUNCED_BY[event].name} {MEANINGS[flaw].what}"
    if flaw is not Flaw.OUT_OF_ORDER:
        return (said,)
    later = [
        f"{ANNOUNCED_BY[each].name} had come {case.now - step.announced:.3f} s before"
        for each, step in zip(EVENTS, entry.steps, strict=True)
        if each > event and step.announced is not None
    ]
    return (*later, said)


def _contradicted(case: _Case, entry: Entry) -> _Reasons:
    event = case.finding.event
    announced = entry.steps[event].announced or 0.0
    shown = entry.state.value if entry.state is not None else "not listed"
    return (
        f"{ANNOUNCED_BY[event].name} came {lasting(case.now - announced)} ago",
        f"two relists in a row, both requested after it came, still show the older state: {shown}",
    )


def _mislisted(case: _Case) -> _Reasons:
    entry, verdict = case.entry, case.finding.verdict
    shown = "it running"
    if verdict is Verdict.FROZEN:
        seen = "the kernel shows that its processes are frozen"
    elif verdict is Verdict.STRAY:
        seen = "the kernel shows processes of it, which last, in a pod that was listed"
        shown = "it ended" if entry is not None and entry.state is not None else ""
    elif entry is not None and (ended := entry.steps[Lifecycle.DIED].kernel) is not None:
        seen = (
            f"the kernel saw its last process end {lasting(case.now - ended)} ago, and none since"
        )
    else:
        seen = "the kernel shows no process of it, and did not show when the last one ended"
    show = f"show {shown}" if shown else "do not show it"
    limit = case.finding.limit
    killed = () if limit is None else (_counted(limit),)
    return (
        seen,
        *killed,
        f"two relists in a row, both requested later than {case.grace:g} s after that, {show}",
    )


def _twin(case: _Case) -> _Reasons:
    since = f"two relists in a row, both requested later than {case.grace:g} s after the first"
    other = f"{case.finding.other}, an older container of the same pod and name"
    return (f"{since} that did, show it running beside {other}",)


def _counted(limit: Limit | None) -> str:
    counted = "the kernel counted an OOM kill of a process of it"
    if limit is Limit.UNKNOWN:
        return f"{counted}; whose limit it was is not known"
    return counted if limit is None else f"{counted}; the limit was {limit.value}"


def _oom(case: _Case) -> _Reasons:
    kind, counted = cast("OomKill", case.finding.cause), _counted(case.finding.limit)
    if kind is OomKill.REASON_ONLY:
        counted = f"within {case.grace:g} s of its end, the kernel counted no OOM kill that made it"
    said, known = "nothing was announced of its end", case.exit
    if known is not None and known.exit_code is not None:
        reason = known.reason or "no reason"
        said = f"the runtime announced its end with exit code {known.exit_code} ({reason})"
    return counted, said, _OOM[kind]


def _slow(case: _Case) -> _Reasons:
    late = f"{delay(case.finding)}: longer than the grace of {case.grace:g} s"
    known = case.exit
    if known is None or known.ended is None:
        return (late,)
    source = "the kernel saw its last process end; the runtime does not say when"
    if known.reported == known.ended:
        source = "the runtime itself says when it ended: finished_at"
    elif known.reported < math.inf:
        early = f"{lasting(known.reported - known.ended)} before finished_at"
        source = f"the kernel saw its last process end {early}"
    shown = "no list has shown it yet"
    if known.listed is not None:
        shown = f"a list showed it {lasting(max(0.0, known.listed - known.ended))} after the end"
    return source, shown, late


def _overdue(case: _Case) -> _Reasons:
    return (
        "the time that the kubelet gives its pod to end is over for half a minute or longer",
        _LATE[case.finding.verdict],
        "asked again, the kubelet still has that pod",
    )


def _unknown(_case: _Case) -> _Reasons:
    return (
        "the kubelet has dropped its pod, and the time that the pod may take to end is over",
        "two relists in a row, both requested after that, show it running",
        "asked again, the kubelet has no such pod",
    )


def _disagrees(case: _Case) -> _Reasons:
    known = case.exit
    said = f"exit code {known.exit_code} ({known.reason or 'no reason'})" if known else "another"
    return f"the runtime announced {said}, the kubelet shows another exit code or reason", _ASKED


def _stale(case: _Case) -> _Reasons:
    entry = case.entry
    shown = "ended" if entry is not None and entry.state is not None else "no more"
    if entry is not None and entry.steps[Lifecycle.DIED].kernel is not None:
        shown += "; the kernel saw its last process end"
    return (
        f"the lists of the last half minute show it {shown}",
        "the kubelet's status has shown it running all that time",
        _ASKED,
    )


_OF_THE_STREAM: Final[dict[Verdict, Callable[[_Case, Entry], _Reasons]]] = {
    Verdict.GAP: _gap,
    Verdict.CONTRADICTED: _contradicted,
    Verdict.FLAWED: _flawed,
}
_OF_ONE_WITNESS: Final[dict[Verdict, Callable[[_Case], _Reasons]]] = {
    Verdict.GHOST: _mislisted,
    Verdict.STRAY: _mislisted,
    Verdict.FROZEN: _mislisted,
    Verdict.TWIN: _twin,
    Verdict.OOM: _oom,
    Verdict.SLOW: _slow,
    Verdict.STALE: _stale,
    Verdict.DISAGREES: _disagrees,
    Verdict.UNKNOWN_TO_KUBELET: _unknown,
    **dict.fromkeys(OVERDUE, _overdue),
}
