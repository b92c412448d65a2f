"""Explains in sentences why the ledger reached a verdict; the timeline beside has the times."""

from typing import Final

from exporter.evidence.timeline import lasting
from exporter.model.events import ANNOUNCED_BY
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import MEANINGS, Flaw, OomKill
from exporter.runtimes.runtime import Profile

# Verdicts and causes that deserve a record.
NOTABLE: Final = frozenset(
    {
        *((Verdict.MISSED, cause) for cause in Cause if cause is not Cause.BY_DESIGN),
        *((Verdict.FLAWED, flaw) for flaw in Flaw),
        *((Verdict.OOM, kind) for kind in OomKill if kind is not OomKill.UNATTRIBUTED),
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
        (Verdict.OVERDUE_PROCESS, None),
        (Verdict.OVERDUE_RUNTIME, None),
        (Verdict.OVERDUE_KUBELET, None),
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
_ANNOUNCED: Final = "the process ended {} before the runtime said so"
_DELAYS: Final = {
    Verdict.EXIT_ANNOUNCED: _ANNOUNCED,
    Verdict.SLOW: _ANNOUNCED,
    Verdict.EXIT_LISTED: "the process ended {} before a list showed it",
    Verdict.EXIT_BELIEVED: "the kubelet showed it {} after the exit",
    Verdict.EVENT_BELIEVED: "the kubelet showed it {} after the announcement",
}
# SLOW is a verdict, too.
MEASURES: Final = frozenset(_DELAYS) - {Verdict.SLOW}
_PROVEN: Final = (
    "a relist or the kernel proves {event}; no {announcement} came within the grace of {grace:g} s,"
    " and none until a relist that was requested later"
)
_TWICE: Final = "two relists in a row, both requested later than {grace:g} s after"
_ASKED: Final = "asked again, the kubelet shows the same"
_OVER: Final = "the time that the kubelet gives its pod to end is over for half a minute or longer"
_KEPT: Final = "asked again, the kubelet still has that pod"
# Sentences, divided by semicolons.
_WHY: Final = {
    Verdict.WITNESSED: "proven by the relist or the kernel",
    Verdict.CONFIRMED: "proven by the relist or the kernel, and announced",
    Verdict.MISSED: _PROVEN,
    Verdict.UNDECIDED: f"{_PROVEN}; undecided: no witness saw it run, and ContainerStatus can no"
    " longer say: had its start failed, no exit would have been owed",
    Verdict.LATE: "announced after it had been counted as missed",
    Verdict.UNSEEN: "announced, and neither relist nor kernel showed it within the grace: the state"
    " lay between two relists",
    Verdict.GAP: "{announcement} was never announced, though a later step was; no relist proved"
    " {event}, and the grace is over",
    Verdict.DUPLICATE: "announced before, on the same subscription or with another created_at",
    Verdict.CONTRADICTED: "two relists in a row, both requested after {announcement} came, still"
    " show the older state",
    Verdict.BACKLOG: "announced again: its created_at is older than the subscription",
    Verdict.OVERFLOW: "announced, but the stream names more containers than the ledger tracks",
    Verdict.GHOST: f"the kernel shows no process of it; {_TWICE} that, show it running",
    Verdict.STRAY: "the kernel shows processes of it, which last, in a pod that was listed;"
    f" {_TWICE} that, do not show it running",
    Verdict.FROZEN: "the kernel shows that its processes are frozen;"
    f" {_TWICE} that, show it running",
    Verdict.TWIN: f"{_TWICE} the first that did, show it running beside {{other}}, an older"
    " container of the same pod and name",
    Verdict.STALE: "the lists of the last half minute show it ended, or no more; the kubelet's"
    f" status has shown it running all that time; {_ASKED}",
    Verdict.DISAGREES: "the kubelet shows another exit code or reason than the runtime announced;"
    f" {_ASKED}",
    Verdict.UNKNOWN_TO_KUBELET: "the kubelet has dropped its pod, and the time that the pod may"
    " take to end is over; two relists in a row, both requested after that, show it running; asked"
    " again, the kubelet has no such pod",
    Verdict.OVERDUE_PROCESS: f"{_OVER}; two relists in a row show it running, and the kernel its"
    f" processes; {_KEPT}",
    Verdict.OVERDUE_RUNTIME: f"{_OVER}; two relists in a row show it running, and the kernel no"
    f" process; {_KEPT}",
    Verdict.OVERDUE_KUBELET: f"{_OVER}; two relists in a row show nothing of the pod running;"
    f" {_KEPT}",
}
_OOM: Final = {
    OomKill.ANNOUNCED: "the runtime announced its end as OOMKilled",
    OomKill.ANNOUNCED_AS_ERROR: "the container ended by it, and its end was announced as an error",
    OomKill.UNANNOUNCED: "its container has ended, and no announcement says how",
    OomKill.SURVIVED: "its container runs on, or ended otherwise: Kubernetes shows no kill",
    OomKill.REASON_ONLY: "OOMKilled was announced of it, and within {grace:g} s of its end the"
    " kernel counted no OOM kill that made it",
    OomKill.UNATTRIBUTED: "the node counted it, and no container did",
}
_BEFORE: Final = "it stood already when observation began: no counter counts it again"


def why(finding: Finding, profile: Profile, grace: float) -> tuple[str, ...]:
    """The verdict's reasons, one sentence each, the most telling last."""
    verdict, cause, announcement = finding.verdict, finding.cause, ANNOUNCED_BY[finding.event].name
    if verdict in _DELAYS:
        over = f": longer than the grace of {grace:g} s" if verdict is Verdict.SLOW else ""
        return (f"{delay(finding)}{over}",)
    said = _WHY[verdict].split("; ") if verdict in _WHY else []
    if finding.before:
        said.insert(0, _BEFORE)
    if finding.limit is not None:
        counted = "the kernel counted an OOM kill of a process of it"
        said.append(f"{counted}; whose limit it was: {finding.limit.value}")
    if isinstance(cause, OomKill):
        said.append(_OOM[cause])
    elif isinstance(cause, Flaw):
        said.append(f"this {announcement} {MEANINGS[cause].what}")
    elif finding.rule is not None:
        said.append(f"by_design: {{runtime}} never announces {finding.rule.value}")
    elif cause is not None:
        if verdict is Verdict.MISSED:
            said.append("{runtime} announces this: no rule of its profile excuses it")
        whose = f", of {finding.other}" if finding.other else ""
        said.append(f"{cause.value}: {CAUSE_MEANINGS[cause]}{whose}")
    words = {"announcement": announcement, "event": finding.event.label, "grace": grace}
    return tuple(each.format(**words, other=finding.other, runtime=profile.name) for each in said)


def delay(finding: Finding) -> str:
    """How late an exit was noticed, and by whom; of a finding that measures it."""
    return _DELAYS[finding.verdict].format(lasting(finding.seconds or 0.0))
