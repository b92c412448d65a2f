"""What the ledger remembers of one container."""

from dataclasses import dataclass, field
from typing import Final

from exporter.model.events import (
    ANNOUNCES,
    EVENTS,
    Announcement,
    Lifecycle,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
)
from exporter.model.findings import Finding, Verdict, Why
from exporter.model.labels import Flaw, Never
from exporter.pleg.steps import Exit, Step, StepInput

# Lifecycle step that a listed state implies. UNKNOWN implies none.
PROGRESS: Final = {
    ListedState.CREATED: Lifecycle.CHANGED,
    ListedState.RUNNING: Lifecycle.STARTED,
    ListedState.EXITED: Lifecycle.DIED,
    None: Lifecycle.REMOVED,
}


@dataclass(slots=True)
class Entry:
    """One container or sandbox."""

    id: str
    # None if unknown: findings then say CONTAINER, which is likelier.
    kind: ObjectKind | None = None
    sandbox_id: str = ""
    name: str = ""
    pod: Pod | None = None
    # The state in the last list, None if not listed; and in the first list.
    state: ListedState | None = None
    at_first: ListedState | None = None
    listed: bool = False
    # The last step that predates observation; -1 for none.
    excused_up_to: int = -1
    # Its first announcement predates observation.
    before_baseline: bool = False
    # Whether it ever ran; None if unknown.
    ran: bool | None = None
    # The kernel saw its processes last: so it ran, unless the runtime says that it did not.
    lasted: bool = False
    # A sandbox whose processes are not in its containers' cgroups.
    elsewhere: bool = False
    deleted_below: bool = False
    exit_listed: bool = False
    # It left the lists without having been listed as exited; its sandbox was listed READY then.
    gone_while_running: bool = False
    sandbox_was_ready: bool = False
    # Its exit, once a list or the stream has shown one.
    exit: Exit | None = None
    # The last step that was announced; -1 for none.
    latest: int = -1
    # One step for each lifecycle event, in order; and whether these objects exist yet.
    steps: list[Step] = field(init=False)
    has_steps: bool = False

    def __getattr__(self, name: str) -> list[Step]:
        """Create the steps when they are first read: until then their slot is empty.

        They take most of an entry's memory, and most containers of a huge node never need them. A
        property would cost a call each time.
        """
        if name != "steps":
            raise AttributeError(name)
        self.steps, self.has_steps = [Step() for _ in EVENTS], True
        self._excuse(self.excused_up_to)
        return self.steps

    @property
    def announced(self) -> ListedState:
        """The state that the announcements imply: EXITED after a STOPPED, else RUNNING.

        Created or running makes no difference: either transition to non-existent is the same.
        """
        if self.steps[Lifecycle.DIED].announced is not None:
            return ListedState.EXITED
        return ListedState.RUNNING

    @property
    def waiting(self) -> int:
        """Number of its events that are proven, unannounced and not yet judged."""
        return sum(step.waits for step in self.steps)

    def due(self, event: Lifecycle) -> float:
        """The time from which the grace of that proven event runs.

        A runtime may make an event only after it has sent the one before. For example, containerd
        lists a sandbox READY before it sends its CREATED.
        """
        times = (self.steps[event].proven, *(step.announced for step in self.steps[:event]))
        return max(time for time in times if time is not None)

    def flaws(self, event: Announcement, *, again: bool, clear: float) -> tuple[Finding, ...]:
        """The flaws of an event. One that came `again` may come in any order.

        WRONG_TIME counts only if the wall clock is known not to have been set since the start.
        """
        step, found = ANNOUNCES[event.type], event.flawed.flaws if event.flawed else ()
        later = (each.stream for each in self.steps[step + 1 :] if each.announced is not None)
        if not again and event.stream in later:
            found = (Flaw.OUT_OF_ORDER, *found)
        if Flaw.WRONG_TIME in found and not self._began_after(clear):
            found = tuple(flaw for flaw in found if flaw is not Flaw.WRONG_TIME)
        return tuple([self.finding(Verdict.FLAWED, step, flaw) for flaw in found])

    def _began_after(self, at: float) -> bool:
        """Whether its creation or start was announced, and neither before `at`."""
        begun = [step for step in self.steps[: Lifecycle.DIED] if step.announced is not None]
        return any(begun) and all(
            not step.backlog and (step.announced or at) >= at for step in begun
        )

    def behind(self, event: Lifecycle) -> bool:
        """Whether the lists still show a state before that event, which they may thus yet prove."""
        return self.state is ListedState.UNKNOWN or PROGRESS[self.state] < event

    def undo_removal(self) -> None:
        """Undo a removal: a later list shows the container again."""
        removed, died = self.steps[Lifecycle.REMOVED], self.steps[Lifecycle.DIED]
        if self.exit is not None:
            self.exit.listed = None
        if removed.waits:
            if died.waits and died.proven == removed.proven:
                died.apply(StepInput.TAKE_BACK)
                died.proven = None
            removed.apply(StepInput.TAKE_BACK)
            removed.proven = None

    def excuse_up_to(self, event: Lifecycle) -> None:
        """Excuse all steps up to `event`: they predate observation.

        A list may still prove such a step: Generic PLEG repeats an event when a state flickers
        (RUNNING, UNKNOWN, RUNNING).
        """
        self.excused_up_to = max(self.excused_up_to, event)
        if self.has_steps:
            self._excuse(event)

    def _excuse(self, last: int) -> None:
        for step in self.steps[: last + 1]:
            step.apply(StepInput.EXCUSE)

    def close_without_verdict(self) -> None:
        """Excuse every step that was proven, announced or skipped."""
        for event, step in zip(EVENTS, self.steps, strict=True):
            if step.proven is not None or event <= self.latest:
                step.apply(StepInput.EXCUSE)

    def describe_listed(self, item: Listed) -> None:
        """Update the identity from a list, the authoritative source."""
        self.kind = item.kind
        self.sandbox_id = item.sandbox_id
        self.name = item.name or self.name
        self.pod = item.pod or self.pod
        self.elsewhere = item.elsewhere
        self.listed = True

    def describe_announced(self, event: Announcement) -> None:
        """Take from an event what no list has provided yet."""
        self.kind = self.kind or event.kind
        self.sandbox_id = self.sandbox_id or event.sandbox_id
        self.pod = self.pod or event.pod

    def finding(
        self,
        verdict: Verdict,
        event: Lifecycle,
        cause: Why | None = None,
        rule: Never | None = None,
    ) -> Finding:
        """Build a finding about this container."""
        kind = self.kind or ObjectKind.CONTAINER
        return Finding(verdict, event, kind, self.id, self.name, self.pod, cause, rule)
