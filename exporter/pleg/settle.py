"""The verdicts that need time: a relist judges the steps still open on a container.

MISSED, UNSEEN, GAP and CONTRADICTED are each reached by a relist that was requested more than the
grace period after the fact it judges, never by a timer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from exporter.pleg.entry import Entry
from exporter.pleg.events import EVENTS, Lifecycle, ListedState
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.owed import (
    excuse,
    is_gap,
    is_owed,
    is_undecidable,
    waits_for_list,
    waits_for_sandbox,
)
from exporter.pleg.profiles import StreamKind
from exporter.pleg.relist import transition
from exporter.pleg.steps import Step, StepInput, StepState

if TYPE_CHECKING:
    from exporter.pleg.profiles import Profile

_CONTRADICTING_RELISTS: Final = 2
# An event that is younger than the grace must have come within so many times the grace, 30 s by
# default: else the stream stands still.
PATIENCE: Final = 6


@dataclass(slots=True)
class Settlement:
    """One relist's judgement of entries; appends to `findings`.

    `reached`: when the youngest event that the stream has brought so far was made. `stalled`: set
    once something is judged to be missing because the stream stood still.
    """

    profile: Profile
    grace: float
    requested: float
    findings: list[Finding]
    reached: float
    stalled: bool = False

    def settle(self, entry: Entry, sandbox: Entry | None) -> bool:
        """Judge every step that this relist may judge; True while something stays open."""
        still_open = entry.disappearance is not None
        for event, step in zip(EVENTS, entry.steps, strict=True):
            match step.state:
                case StepState.PROVEN:
                    still_open |= self._settle_proven(entry, event, step, sandbox)
                case StepState.ANNOUNCED | StepState.GAP_ANNOUNCED:
                    still_open |= self._settle_announced(entry, event, step)
                case StepState.OPEN:
                    still_open |= self._settle_unnamed(entry, event, step)
                case _:
                    pass
        return still_open

    def _past_grace(self, since: float) -> bool:
        return self.requested > since + self.grace

    def settle_disappearance(self, entry: Entry, gone: Step) -> None:
        """Treat a container that only the stream named and no list shows as removed."""
        if entry.announced is None:
            entry.disappearance = None
        elif gone.proven is not None and self._past_grace(gone.proven):
            entry.disappearance = None
            entry.gone_while_running = entry.announced is not ListedState.EXITED
            for event in transition(entry.announced, None):
                step = entry.steps[event]
                if not step.ahead:
                    self.findings.append(entry.finding(Verdict.WITNESSED, event))
                again, step.ahead, step.proven = step.waits, False, gone.proven
                step.turn(StepInput.PROVE)
                step.stream_down = gone.stream_down or (again and step.stream_down)
                step.discarded = gone.discarded or (again and step.discarded)
                step.unserved = gone.unserved

    def _settle_proven(
        self, entry: Entry, event: Lifecycle, step: Step, sandbox: Entry | None
    ) -> bool:
        if step.proven is None or self.requested <= step.proven + self.grace:
            return True
        cause: Cause | None = None
        rule = None
        if step.ahead and waits_for_list(entry, event, self.profile):
            return True
        elsewhere = step.ahead and sandbox is not None and sandbox.elsewhere
        undecidable = is_undecidable(entry, event)
        if undecidable and entry.state is not None and not entry.deleted_below:
            # ContainerStatus may still tell.
            return True
        if undecidable and not entry.lasted:
            verdict = step.turn(StepInput.UNKNOWABLE)
        elif elsewhere or not is_owed(entry, event):
            verdict = step.turn(StepInput.EXCUSE)
        elif (rule := excuse(entry, event, sandbox, self.profile)) is not None:
            cause = Cause.BY_DESIGN
            verdict = step.turn(StepInput.NEVER_ANNOUNCED)
        elif waits_for_sandbox(entry, event, sandbox, self.profile):
            return True
        else:
            cause = self._cause(entry, event, step)
            if cause is None:
                return True
            self.stalled |= cause is Cause.STALLED
            verdict = step.turn(StepInput.OVERDUE)
        step.missed = cause
        if verdict is not None:
            self.findings.append(entry.finding(verdict, event, cause, rule))
        return False

    def _cause(self, entry: Entry, event: Lifecycle, step: Step) -> Cause | None:
        """Why its announcement is missing; None while it may still be on its way.

        It is lost once an event has come over the same watch that was made after the grace. Until
        then the stream may stand still: if none comes for long, it did.
        """
        cause = step.cause
        if cause in {Cause.STREAM_DOWN, Cause.DISCARDED}:
            return cause
        if self.profile.stream is StreamKind.EXCLUSIVE:
            return Cause.SHARED
        due = entry.due(event, step.proven or 0.0)
        if self.reached > due + self.grace:
            return cause
        silent_for_long = self.requested > due + PATIENCE * self.grace
        return Cause.STALLED if silent_for_long else None

    def _settle_announced(self, entry: Entry, event: Lifecycle, step: Step) -> bool:
        if entry.behind(event):
            self._contradict(entry, event, step)
            return True
        _interrupt(step)
        if not self._past_grace(step.announced or 0.0):
            return True
        verdict = step.turn(StepInput.OVERDUE)
        if verdict is not None and not step.backlog:
            self.findings.append(entry.finding(verdict, event))
        return False

    def _contradict(self, entry: Entry, event: Lifecycle, step: Step) -> None:
        if entry.state is ListedState.UNKNOWN:
            _interrupt(step)
        elif step.announced is not None and self.requested > step.announced:
            step.contradictions += 1
            if step.contradictions == _CONTRADICTING_RELISTS:
                self.findings.append(entry.finding(Verdict.CONTRADICTED, event))

    def _settle_unnamed(self, entry: Entry, event: Lifecycle, step: Step) -> bool:
        first: Step | None = None
        for later in entry.steps[event + 1 :]:
            if later.announced is None or later.backlog:
                continue
            if first is None or later.announced < (first.announced or 0.0):
                first = later
        if first is None:
            return False
        if entry.behind(event) or not self._past_grace(first.announced or 0.0):
            return True
        verdict = step.turn(StepInput.OVERDUE) if is_gap(entry, event, self.profile) else None
        if verdict is not None:
            cause = first.gap_cause or _skipped_by(entry, event)
            if cause in {None, Cause.STALLED} and self.profile.stream is StreamKind.EXCLUSIVE:
                cause = Cause.SHARED
            self.findings.append(entry.finding(verdict, event, cause))
        return False


def _skipped_by(entry: Entry, event: Lifecycle) -> Cause | None:
    """What may explain a gap: why the first proof of a later event may not have been announced.

    A list that shows that one proves that this one happened before.
    """
    proven = [step for step in entry.steps[event + 1 :] if step.proven is not None]
    if not proven:
        return None
    cause = min(proven, key=lambda step: step.proven or 0.0).cause
    return None if cause is Cause.SILENT else cause


def _interrupt(step: Step) -> None:
    """End a run of contradictions; a run that was already reported stays reported."""
    if step.contradictions < _CONTRADICTING_RELISTS:
        step.contradictions = 0
