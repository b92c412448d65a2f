"""Explains in sentences why the ledger reached a verdict.

The sentences are built from the same questions that the ledger asks (`owed`, `settle`). Times in
them are seconds before the verdict.
"""

import math
from typing import Final

from exporter.evidence.timeline import lasting
from exporter.model.events import ANNOUNCED_BY, EVENTS, Lifecycle
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.flaws import MEANINGS
from exporter.model.labels import Flaw, Limit, OomKill
from exporter.pleg.entry import Entry
from exporter.pleg.steps import Step
from exporter.runtimes.runtime import Profile

# Verdicts and causes that are worth a look.
OVERDUE: Final = (Verdict.OVERDUE_PROCESS, Verdict.OVERDUE_RUNTIME, Verdict.OVERDUE_KUBELET)
NOTABLE: Final = frozenset(
    {
        *((Verdict.MISSED, cause) for cause in Cause if cause is not Cause.BY_DESIGN),
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
        *((late, None) for late in OVERDUE),
        *((Verdict.FLAWED, flaw) for flaw in Flaw),
        *((Verdict.OOM, kind) for kind in OomKill if kind is not OomKill.UNATTRIBUTED),
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
VERDICT_MEANINGS: Final = {
    Verdict.WITNESSED: "proven by the relist or the kernel",
    Verdict.CONFIRMED: "proven by the relist or the kernel, and announced",
    Verdict.LATE: "announced after it had been counted as missed",
    Verdict.UNSEEN: "announced, and neither relist nor kernel showed it within the grace: the state"
    " lay between two relists",
    Verdict.GAP: "never announced, though a later step was",
    Verdict.GHOST: "listed as running, although its last process has ended",
    Verdict.STRAY: "not listed, or listed as ended, although its processes run",
    Verdict.STALE: "ended, and the kubelet still shows it running",
    Verdict.DISAGREES: "the kubelet shows another end of it than the runtime announced",
    Verdict.UNKNOWN_TO_KUBELET: "it runs, and the kubelet has dropped its pod",
    Verdict.FROZEN: "listed as running, and its processes are frozen",
    Verdict.OVERDUE_PROCESS: "its pod should have ended, and a process of it lives",
    Verdict.OVERDUE_RUNTIME: "its pod should have ended, has no process, and it is listed running",
    Verdict.OVERDUE_KUBELET: "its pod has ended, and the kubelet keeps it",
    Verdict.TWIN: "it runs beside another container of the same pod and name",
    Verdict.FLAWED: "announced by an event with a flaw",
    Verdict.EXIT_BELIEVED: "an exit whose time is known was shown by the kubelet",
    Verdict.EVENT_BELIEVED: "an exit that was announced was shown by the kubelet",
    Verdict.EXIT_ANNOUNCED: "an exit whose time is known was announced",
    Verdict.EXIT_LISTED: "an exit whose time is known was listed",
    Verdict.SLOW: "announced later than the grace after the process had ended",
    Verdict.UNDECIDED: "proven by the relist and not announced, but perhaps not owed: it may have"
    " failed to start",
    Verdict.DUPLICATE: "announced before, on the same subscription or with another created_at",
    Verdict.CONTRADICTED: "announced, but contradicted by two relists in a row",
    Verdict.BACKLOG: "announced again: its created_at is older than the subscription",
    Verdict.OOM: "a process was killed for want of memory, or is said to have been",
    Verdict.OVERFLOW: "announced, but the stream names more containers than the ledger tracks",
}
_SEEN: Final = {
    Lifecycle.STARTED: "that its processes last",
    Lifecycle.DIED: "its last process end",
}
_OF_THE_KUBELET: Final = (*(Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET), *OVERDUE)
_OF_ONE_WITNESS: Final = (
    *(Verdict.GHOST, Verdict.STRAY, Verdict.TWIN, Verdict.FROZEN, Verdict.SLOW, Verdict.OOM),
    *_OF_THE_KUBELET,
)
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
# Sentences that every such case shares.
_OWED: Final = "{} announces this: no rule of its profile excuses it"
_NEVER_RAN: Final = (
    "undecided: no witness saw it run, and ContainerStatus can no longer say: had its start"
    " failed, no exit would have been owed"
)
_TWIN: Final = (
    "two relists in a row, both requested later than {:g} s after the first that did, show it"
    " running beside {}, an older container of the same pod and name"
)
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
_FAULTS: Final = {cause: f"{cause.value}: {meaning}" for cause, meaning in CAUSE_MEANINGS.items()}


def why(
    finding: Finding, entry: Entry | None, profile: Profile, grace: float, now: float
) -> tuple[str, ...]:
    """The verdict's reasons, one sentence each, the most telling last.

    `entry`: None if the ledger remembers nothing of the container.
    """
    if (finding.verdict, finding.cause) not in NOTABLE and finding.rule is None:
        return (VERDICT_MEANINGS[finding.verdict],)
    if finding.verdict in _OF_ONE_WITNESS:
        reasons = _of_one_witness(finding, entry, grace, now)
        return (_BEFORE, *reasons) if finding.before else reasons
    if entry is None:
        return ("the ledger no longer has this container",)
    if isinstance(finding.cause, Flaw):
        return _flawed(finding.cause, finding.event, entry, now)
    of_stream = {Verdict.GAP: _gap, Verdict.CONTRADICTED: _contradicted}.get(finding.verdict)
    if of_stream is not None:
        return of_stream(finding, entry, now)
    step, announcement = entry.steps[finding.event], ANNOUNCED_BY[finding.event].name
    ago = lasting(now - (step.proven or 0.0))
    listed = f"the relist that completed {ago} ago proves {finding.event.label}"
    proof = (
        *((listed,) if step.kernel is None else _of_both(step, finding.event, now, listed)),
        (
            f"no {announcement} came within the grace of {grace:g} s, nor until this relist, which"
            " was requested after that"
        ),
    )
    if finding.rule is not None:
        verdict: tuple[str, ...] = (
            f"by_design: {profile.name} never announces {finding.rule.value}",
        )
    elif finding.verdict is Verdict.UNDECIDED:
        verdict = (_NEVER_RAN,)
    else:
        cause = finding.cause if isinstance(finding.cause, Cause) else Cause.SILENT
        verdict = (_OWED.format(profile.name), _FAULTS[cause])
    return (*proof, *verdict)


def _of_both(step: Step, event: Lifecycle, now: float, listed: str) -> tuple[str, ...]:
    """What the kernel proved, and whether a list did after it."""
    seen, at = f"the kernel saw {_SEEN[event]}", step.kernel or 0.0
    if step.kernel_first:
        return (f"{seen} {lasting(now - at)} ago; no list showed it",)
    return f"{seen} {lasting((step.proven or 0.0) - at)} before a list did", listed


def _of_one_witness(
    finding: Finding, entry: Entry | None, grace: float, now: float
) -> tuple[str, ...]:
    """What it knows that the others do not, or have wrong."""
    if finding.verdict in _OF_THE_KUBELET:
        return _of_the_kubelet(finding, entry)
    if isinstance(finding.cause, OomKill):
        return _oom(finding, finding.cause, entry, grace)
    if finding.verdict is Verdict.SLOW:
        return _slow(finding, entry, grace)
    if finding.verdict is Verdict.TWIN:
        return (_TWIN.format(grace, finding.other),)
    lists = f"two relists in a row, both requested later than {grace:g} s after that,"
    if finding.verdict is Verdict.STRAY:
        seen = "the kernel shows processes of it, which last, in a pod that was listed"
        shown = (
            "show it ended" if entry is not None and entry.state is not None else "do not show it"
        )
        return seen, f"{lists} {shown}"
    ended = entry.steps[Lifecycle.DIED].kernel if entry is not None else None
    seen = "the kernel shows no process of it, and did not show when the last one ended"
    if ended is not None:
        seen = f"the kernel saw its last process end {lasting(now - ended)} ago, and none since"
    if finding.verdict is Verdict.FROZEN:
        seen = "the kernel shows that its processes are frozen"
    killed = () if finding.limit is None else (_counted(finding.limit),)
    return (seen, *killed, f"{lists} show it running")


def _counted(limit: Limit | None) -> str:
    """What the kernel counted, of a kill."""
    counted = "the kernel counted an OOM kill of a process of it"
    if limit is Limit.UNKNOWN:
        return f"{counted}; whose limit it was is not known"
    return counted if limit is None else f"{counted}; the limit was {limit.value}"


def _oom(finding: Finding, kind: OomKill, entry: Entry | None, grace: float) -> tuple[str, ...]:
    """What was counted, and what was said."""
    counted = _counted(finding.limit)
    if kind is OomKill.REASON_ONLY:
        counted = f"within {grace:g} s of its end, the kernel counted no OOM kill that made it"
    known = entry.exit if entry is not None else None
    said = "nothing was announced of its end"
    if known is not None and known.exit_code is not None:
        reason = known.reason or "no reason"
        said = f"the runtime announced its end with exit code {known.exit_code} ({reason})"
    return counted, said, _OOM[kind]


def _of_the_kubelet(finding: Finding, entry: Entry | None) -> tuple[str, ...]:
    if finding.verdict in OVERDUE:
        return (
            "the time that the kubelet gives its pod to end is over for half a minute or longer",
            _LATE[finding.verdict],
            "asked again, the kubelet still has that pod",
        )
    if finding.verdict is Verdict.UNKNOWN_TO_KUBELET:
        return (
            "the kubelet has dropped its pod, and the time that the pod may take to end is over",
            "two relists in a row, both requested after that, show it running",
            "asked again, the kubelet has no such pod",
        )
    if finding.verdict is Verdict.DISAGREES:
        known = entry.exit if entry is not None else None
        said = (
            f"exit code {known.exit_code} ({known.reason or 'no reason'})" if known else "another"
        )
        return (
            f"the runtime announced {said}, the kubelet shows another exit code or reason",
            _ASKED,
        )
    shown = "ended" if entry is not None and entry.state is not None else "no more"
    died = entry.steps[Lifecycle.DIED].kernel if entry is not None else None
    seen = "; the kernel saw its last process end" if died is not None else ""
    return (
        f"the lists of the last half minute show it {shown}{seen}",
        "the kubelet's status has shown it running all that time",
        _ASKED,
    )


def delay(finding: Finding) -> str:
    """How late an exit was noticed, and by whom; of a finding that measures it."""
    return _DELAYS[finding.verdict].format(lasting(finding.seconds or 0.0))


def _slow(finding: Finding, entry: Entry | None, grace: float) -> tuple[str, ...]:
    reasons = []
    known = entry.exit if entry is not None else None
    ended = known.ended if known is not None else None
    if known is not None and ended is not None:
        source = "the kernel saw its last process end; the runtime does not say when"
        if known.reported == ended:
            source = "the runtime itself says when it ended: finished_at"
        elif known.reported < math.inf:
            early = f"{lasting(known.reported - ended)} before finished_at"
            source = f"the kernel saw its last process end {early}"
        shown = "no list has shown it yet"
        if known.listed is not None:
            shown = f"a list showed it {lasting(max(0.0, known.listed - ended))} after the end"
        reasons = [source, shown]
    return (*reasons, f"{delay(finding)}: longer than the grace of {grace:g} s")


def _gap(finding: Finding, entry: Entry, now: float) -> tuple[str, ...]:
    reasons = []
    for event, step in zip(EVENTS, entry.steps, strict=True):
        if event > finding.event and step.announced is not None:
            ago = f"{lasting(now - step.announced)} ago"
            reasons.append(f"{ANNOUNCED_BY[event].name}, a later step, was announced {ago}")
    reasons.append(
        f"{ANNOUNCED_BY[finding.event].name} was never announced, no relist proved"
        f" {finding.event.label}, and the grace is over"
    )
    if finding.event is not Lifecycle.CHANGED and entry.ran:
        reasons.append("the container is known to have run, so it must have happened")
    return tuple(reasons)


def _flawed(flaw: Flaw, event: Lifecycle, entry: Entry, now: float) -> tuple[str, ...]:
    said = f"this {ANNOUNCED_BY[event].name} {MEANINGS[flaw].what}"
    if flaw is not Flaw.OUT_OF_ORDER:
        return (said,)
    later = [
        f"{ANNOUNCED_BY[each].name} had come {now - step.announced:.3f} s before"
        for each, step in zip(EVENTS, entry.steps, strict=True)
        if each > event and step.announced is not None
    ]
    return (*later, said)


def _contradicted(finding: Finding, entry: Entry, now: float) -> tuple[str, ...]:
    announced = entry.steps[finding.event].announced or 0.0
    shown = entry.state.value if entry.state is not None else "not listed"
    return (
        f"{ANNOUNCED_BY[finding.event].name} came {lasting(now - announced)} ago",
        f"two relists in a row, both requested after it came, still show the older state: {shown}",
    )
