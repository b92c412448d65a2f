"""Explains in sentences why the ledger reached a verdict.

The sentences are built from the same questions that the ledger asks (`owed`, `settle`). Times in
them are seconds before the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from exporter.pleg.events import EventType, Lifecycle, ObjectKind
from exporter.pleg.findings import Cause, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.pleg.entry import Entry
    from exporter.pleg.findings import Finding
    from exporter.pleg.profiles import Profile

_NOTABLE: Final = frozenset({Verdict.MISSED, Verdict.GAP, Verdict.CONTRADICTED})
# In the order in which they are shown.
CAUSE_MEANINGS: Final = {
    Cause.SILENT: "lost by the runtime or on its way: the subscription was up, nothing discarded",
    Cause.STREAM_DOWN: "the subscription was down at some moment",
    Cause.DISCARDED: "dropped by the exporter, its queue was full",
    Cause.BY_DESIGN: "this runtime never announces them: not a loss, and in no ratio",
}
VERDICT_MEANINGS: Final = {
    Verdict.WITNESSED: "proven by the relist",
    Verdict.CONFIRMED: "proven by the relist, and announced",
    Verdict.LATE: "announced after it had been counted as missed",
    Verdict.UNSEEN: "announced, and no relist could see it within the grace: the state lay between"
    " two of them",
    Verdict.GAP: "never announced, though a later step was",
    Verdict.DUPLICATE: "announced before, on the same subscription or with another created_at",
    Verdict.CONTRADICTED: "announced, but contradicted by two relists in a row",
    Verdict.BACKLOG: "announced again: its created_at is older than the subscription",
    Verdict.OVERFLOW: "announced, but the stream names more unknown containers than are believed",
}


@dataclass(frozen=True, slots=True)
class VerdictContext:
    """What a verdict is based on; `entry` is None if the ledger remembers nothing."""

    entry: Entry | None
    sandbox: Entry | None
    profile: Profile
    grace: float


def is_notable(finding: Finding) -> bool:
    """Whether it is worth a look: a miss without an excuse, a gap or a contradiction."""
    return finding.verdict in _NOTABLE and finding.cause is not Cause.BY_DESIGN


def why(finding: Finding, ground: VerdictContext, now: float) -> tuple[str, ...]:
    """The verdict's reasons, one sentence each, the most telling last."""
    return tuple(_reasons(finding, ground, now))


def _reasons(finding: Finding, ground: VerdictContext, now: float) -> Iterator[str]:
    entry = ground.entry
    if finding.verdict not in _NOTABLE:
        yield VERDICT_MEANINGS[finding.verdict]
    elif entry is None:
        yield "nothing more is remembered of this container"
    elif finding.verdict is Verdict.MISSED:
        yield from _missed(finding, entry, ground, now)
    elif finding.verdict is Verdict.GAP:
        yield from _gap(finding, entry, now)
    else:
        yield from _contradicted(finding, entry, now)


def announcement_of(event: Lifecycle) -> EventType:
    """The type of event that announces it."""
    return EventType(int(event))


def _ago(at: float, now: float) -> str:
    return f"{now - at:.3f} s ago"


def _missed(finding: Finding, entry: Entry, ground: VerdictContext, now: float) -> Iterator[str]:
    step = entry.steps[finding.event]
    announces = announcement_of(finding.event).name
    yield f"the relist that completed {_ago(step.proven or 0.0, now)} proves it"
    yield (
        f"no {announces} came within the grace of {ground.grace:g} s, nor until this relist,"
        " which was requested after that"
    )
    if finding.rule is not None:
        yield f"by_design: {ground.profile.name} never announces {finding.rule.value}"
    else:
        yield "no rule of the runtime's profile excuses it"
        if finding.event is Lifecycle.DIED and _may_never_have_run(entry):
            yield (
                "nobody saw it run, and ContainerStatus did not tell: had its start failed, no exit"
                " would have been owed"
            )
        cause = finding.cause or Cause.SILENT
        yield (
            f"{cause.value}: {CAUSE_MEANINGS[cause]} (between the relist before the proof and the"
            " end of the grace)"
        )


def _may_never_have_run(entry: Entry) -> bool:
    return entry.kind is not ObjectKind.SANDBOX and entry.ran is None


def _gap(finding: Finding, entry: Entry, now: float) -> Iterator[str]:
    for event in Lifecycle:
        announced = entry.steps[event].announced
        if event > finding.event and announced is not None:
            name = announcement_of(event).name
            yield f"{name}, a later step, was announced {_ago(announced, now)}"
    yield (
        f"{announcement_of(finding.event).name} was never announced, no relist proved"
        f" {finding.event.label}, and the grace is over"
    )
    if finding.event is not Lifecycle.CHANGED and entry.ran:
        yield "the container is known to have run, so it must have happened"


def _contradicted(finding: Finding, entry: Entry, now: float) -> Iterator[str]:
    announced = entry.steps[finding.event].announced
    yield f"{announcement_of(finding.event).name} came {_ago(announced or 0.0, now)}"
    shown = entry.state.value if entry.state is not None else "not listed"
    yield f"two relists in a row, both requested after it came, still show the older state: {shown}"
