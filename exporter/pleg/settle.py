"""The verdicts that need time: a relist judges the steps still open on a container.

MISSED, UNSEEN, GAP and CONTRADICTED are each reached by a relist that was requested more than the
grace period after the fact it judges, never by a timer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from exporter.pleg.entry import PROGRESS, Entry
from exporter.pleg.events import Lifecycle, ListedState
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.owed import excuse, is_gap, is_owed
from exporter.pleg.relist import transition
from exporter.pleg.steps import Step, StepInput, StepState

if TYPE_CHECKING:
    from exporter.pleg.profiles import Profile

_CONTRADICTING_RELISTS: Final = 2


@dataclass(slots=True)
class Settlement:
    """One relist's judgement of entries; appends to `findings`."""

    profile: Profile
    grace: float
    requested: float
    findings: list[Finding]

    def settle(self, entry: Entry, sandbox: Entry | None) -> bool:
        """Judge every step that this relist may judge; True while something stays open."""
        still_open = entry.vanish is not None
        for event in Lifecycle:
            still_open |= self._settle_step(entry, event, sandbox)
        return still_open

    def _past_grace(self, since: float) -> bool:
        return self.requested > since + self.grace

    def settle_vanish(self, entry: Entry) -> None:
        """Treat a container that only the stream named and no list shows as removed."""
        vanish = entry.vanish
        if vanish is None or vanish.proven is None:
            return
        if entry.announced is None:
            entry.vanish = None
        elif self._past_grace(vanish.proven):
            entry.vanish = None
            entry.forced = entry.announced is not ListedState.EXITED
            for event in transition(entry.announced, None):
                self.findings.append(entry.finding(Verdict.WITNESSED, event))
                step = entry.steps[event]
                step.proven = vanish.proven
                step.turn(StepInput.PROVE)
                step.stream_down, step.discarded = vanish.stream_down, vanish.discarded

    def _settle_step(self, entry: Entry, event: Lifecycle, sandbox: Entry | None) -> bool:
        step = entry.steps[event]
        match step.state:
            case StepState.PROVEN:
                return self._settle_proven(entry, event, sandbox)
            case StepState.ANNOUNCED | StepState.GAP_ANNOUNCED:
                return self._settle_announced(entry, event, step.announced or 0.0)
            case StepState.OPEN:
                return self._settle_unnamed(entry, event)
            case _:
                return False

    def _settle_proven(self, entry: Entry, event: Lifecycle, sandbox: Entry | None) -> bool:
        step = entry.steps[event]
        if step.proven is None or not self._past_grace(step.proven):
            return True
        owed = is_owed(entry, event)
        verdict = step.turn(StepInput.OVERDUE if owed else StepInput.EXCUSE)
        if verdict is not None:
            rule = excuse(entry, event, sandbox, self.profile)
            cause = Cause.BY_DESIGN if rule is not None else step.cause
            self.findings.append(entry.finding(verdict, event, cause, rule))
        return False

    def _settle_announced(self, entry: Entry, event: Lifecycle, announced: float) -> bool:
        step = entry.steps[event]
        if _behind(entry, event):
            self._contradict(entry, event, step)
            return True
        _interrupt(step)
        if not self._past_grace(announced):
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

    def _settle_unnamed(self, entry: Entry, event: Lifecycle) -> bool:
        step = entry.steps[event]
        later = [
            other.announced
            for other in entry.steps[event + 1 :]
            if other.announced is not None and not other.backlog
        ]
        if not later:
            return False
        if _behind(entry, event) or not self._past_grace(min(later)):
            return True
        verdict = step.turn(StepInput.OVERDUE) if is_gap(entry, event, self.profile) else None
        if verdict is not None:
            self.findings.append(entry.finding(verdict, event))
        return False


def _interrupt(step: Step) -> None:
    """End a run of contradictions; a run that was already reported stays reported."""
    if step.contradictions < _CONTRADICTING_RELISTS:
        step.contradictions = 0


def _behind(entry: Entry, event: Lifecycle) -> bool:
    """Whether the lists still show a state before that event, so that they may yet prove it."""
    if entry.state is ListedState.UNKNOWN:
        return True
    return PROGRESS[entry.state] < event
