"""The verdicts that need time: a relist judges the steps that are still open.

A relist that was requested more than the grace period after a fact decides MISSED, UNDECIDED,
UNSEEN or GAP; a timer never does. CONTRADICTED is a `Standing`.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from exporter.model.events import EVENTS, Lifecycle, ListedState
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Never, StreamKind
from exporter.pleg import owed
from exporter.pleg.entry import Entry
from exporter.pleg.steps import Excuse, Standing, Step, StepInput, StepState
from exporter.pleg.trust import StreamTrust
from exporter.runtimes.runtime import Profile

_ANNOUNCED_AT: Final = attrgetter("announced")
_PROVEN_AT: Final = attrgetter("proven")
# If no event newer than the grace comes within PATIENCE times the grace, the stream has
# stalled.
PATIENCE: Final = 6


@dataclass(slots=True)
class Settlement:
    """One relist's judgement of entries; appends to `findings`."""

    profile: Profile
    grace: float
    requested: float
    findings: list[Finding]
    trust: StreamTrust
    # Since when the wall clock, which the times of events come from, has not been set.
    clear: float
    # Set once an announcement is missing because the stream stalled.
    stalled: bool = False

    def settle(self, entry: Entry, sandbox: Entry | None) -> bool:
        """Judge every step that this relist may judge; True while something stays open."""
        still_open = False
        for event, step in zip(EVENTS, entry.steps, strict=True):
            match step.state:
                case StepState.PROVEN:
                    still_open |= self._settle_proven(entry, event, step, sandbox)
                case StepState.ANNOUNCED:
                    still_open |= self._settle_announced(entry, event, step)
                case StepState.OPEN:
                    still_open |= self._settle_unnamed(entry, event, step)
                case _:
                    pass
        return still_open

    def _past_grace(self, since: float | None) -> bool:
        return since is not None and self.requested > since + self.grace

    def _settle_proven(
        self, entry: Entry, event: Lifecycle, step: Step, sandbox: Entry | None
    ) -> bool:
        if self._is_early(entry, event, step):
            return True
        if owed.is_undecidable(entry, event) and not entry.lasted:
            step.apply(StepInput.UNKNOWABLE)
            self.findings.append(entry.finding(Verdict.UNDECIDED, event))
            return False
        elsewhere = step.kernel_first and sandbox is not None and sandbox.elsewhere
        if elsewhere or not owed.is_owed(entry, event):
            # A late STARTED makes it owed: it is judged then.
            return False
        rule = owed.never_rule(entry, event, sandbox, self.profile)
        if rule is not None:
            self._miss(entry, event, StepInput.NEVER_ANNOUNCED, Cause.BY_DESIGN, rule)
            return False
        waits = owed.waits_for_sandbox(entry, event, sandbox, self.profile)
        cause = None if waits else self._cause(entry, event, step)
        if cause is Cause.STALLED:
            # The stall may explain a gap before this step, too.
            self.stalled, step.excuse = True, max(step.excuse, Excuse.UNSERVED)
        if cause is not None:
            self._miss(entry, event, StepInput.OVERDUE, cause)
        return cause is None

    def _is_early(self, entry: Entry, event: Lifecycle, step: Step) -> bool:
        """Whether its announcement may still come, or may yet turn out not to be owed."""
        if not self._past_grace(step.proven):
            return True
        if step.kernel_first and owed.waits_for_list(entry, event, self.profile):
            return True
        # `ContainerStatus` or a list may still show whether the container ran.
        asking = entry.state is not None and not entry.deleted_below
        return asking and owed.is_undecidable(entry, event)

    def _miss(
        self,
        entry: Entry,
        event: Lifecycle,
        what: StepInput,
        cause: Cause,
        rule: Never | None = None,
    ) -> None:
        step = entry.steps[event]
        step.missed = cause
        step.apply(what)
        proof = self.trust.youngest if cause is Cause.SILENT else ""
        found = entry.finding(Verdict.MISSED, event, cause, rule)
        self.findings.append(found._replace(other=proof))

    def _cause(self, entry: Entry, event: Lifecycle, step: Step) -> Cause | None:
        """Why its announcement is missing; None while that may still be on its way.

        It is lost once the same watch has brought an event that was made after the grace. If no
        such event comes for `PATIENCE` times the grace, the stream has stalled.
        """
        if step.excuse >= Excuse.DISCARDED:
            return step.excuse.cause
        if self.profile.stream is StreamKind.EXCLUSIVE:
            return Cause.SHARED
        due = max(entry.due(event), self.clear)
        if self.trust.reached > due + self.grace:
            return step.excuse.cause or Cause.SILENT
        silent_for_long = self.requested > due + PATIENCE * self.grace
        return Cause.STALLED if silent_for_long else None

    def _settle_announced(self, entry: Entry, event: Lifecycle, step: Step) -> bool:
        standing = step.standing
        if entry.state is ListedState.UNKNOWN:
            # A contradiction that stands does not end here, so that it is counted once.
            step.standing = standing if standing and standing.verdict else None
        elif entry.behind(event) and step.announced is not None:
            step.standing = standing or Standing(Verdict.CONTRADICTED, step.announced, 0.0)
            if step.standing.shown(self.requested):
                self.findings.append(entry.finding(Verdict.CONTRADICTED, event))
        if entry.behind(event) or not self._past_grace(step.announced):
            return True
        step.apply(StepInput.OVERDUE)
        if not step.backlog:
            self.findings.append(entry.finding(Verdict.UNSEEN, event))
        return False

    def _settle_unnamed(self, entry: Entry, event: Lifecycle, step: Step) -> bool:
        announced = [later for later in entry.steps[event + 1 :] if later.announced is not None]
        if not announced:
            return False
        first = min(announced, key=_ANNOUNCED_AT)
        if entry.behind(event) or not self._past_grace(first.announced):
            return True
        verdict = step.apply(StepInput.OVERDUE) if owed.is_gap(entry, event, self.profile) else None
        if verdict is not None:
            cause = max(first.gap_excuse, _excuse_of_proof(entry, event)).cause
            if cause in {None, Cause.STALLED} and self.profile.stream is StreamKind.EXCLUSIVE:
                cause = Cause.SHARED
            self.findings.append(entry.finding(verdict, event, cause))
        return False


def _excuse_of_proof(entry: Entry, event: Lifecycle) -> Excuse:
    """The excuse of the first proof of a later event: this event happened before that proof."""
    proven = [step for step in entry.steps[event + 1 :] if step.proven is not None]
    first = min(proven, key=_PROVEN_AT, default=None)
    return first.excuse if first is not None else Excuse.NONE
