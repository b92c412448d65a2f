"""One relist: the difference of two lists, and what it proves, as Generic PLEG would.

Verdicts that need time are reached in `settle`, facts from the stream are taken by `ledger`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from exporter.model.events import Lifecycle, Listed, ListedState
from exporter.model.facts import Relist
from exporter.model.findings import Finding, Verdict
from exporter.model.labels import IdentityEnum
from exporter.pleg.entry import PROGRESS, Entry
from exporter.pleg.exits import Exits
from exporter.pleg.memory import Memory
from exporter.pleg.steps import StepState
from exporter.pleg.trust import StreamTrust
from exporter.pleg.twins import Twins, place_of


class PlegState(IdentityEnum):
    """The kubelet's `plegContainerState`."""

    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    NON_EXISTENT = "non-existent"


PLEG_STATE: Final = {
    ListedState.CREATED: PlegState.UNKNOWN,
    ListedState.UNKNOWN: PlegState.UNKNOWN,
    ListedState.RUNNING: PlegState.RUNNING,
    ListedState.EXITED: PlegState.EXITED,
    None: PlegState.NON_EXISTENT,
}

_CHANGED = (Lifecycle.CHANGED,)
_STARTED = (Lifecycle.STARTED,)
_DIED = (Lifecycle.DIED,)
_REMOVED = (Lifecycle.REMOVED,)
_DIED_AND_REMOVED = (Lifecycle.DIED, Lifecycle.REMOVED)

# Generic PLEG's. Source: kubelet `pkg/kubelet/pleg/generic.go`, `generateEvents`.
TRANSITIONS: Final[dict[tuple[PlegState, PlegState], tuple[Lifecycle, ...]]] = {
    (PlegState.RUNNING, PlegState.RUNNING): (),
    (PlegState.RUNNING, PlegState.EXITED): _DIED,
    (PlegState.RUNNING, PlegState.UNKNOWN): _CHANGED,
    (PlegState.RUNNING, PlegState.NON_EXISTENT): _DIED_AND_REMOVED,
    (PlegState.EXITED, PlegState.RUNNING): _STARTED,
    (PlegState.EXITED, PlegState.EXITED): (),
    (PlegState.EXITED, PlegState.UNKNOWN): _CHANGED,
    (PlegState.EXITED, PlegState.NON_EXISTENT): _REMOVED,
    (PlegState.UNKNOWN, PlegState.RUNNING): _STARTED,
    (PlegState.UNKNOWN, PlegState.EXITED): _DIED,
    (PlegState.UNKNOWN, PlegState.UNKNOWN): (),
    (PlegState.UNKNOWN, PlegState.NON_EXISTENT): _DIED_AND_REMOVED,
    (PlegState.NON_EXISTENT, PlegState.RUNNING): _STARTED,
    (PlegState.NON_EXISTENT, PlegState.EXITED): _DIED,
    (PlegState.NON_EXISTENT, PlegState.UNKNOWN): _CHANGED,
    (PlegState.NON_EXISTENT, PlegState.NON_EXISTENT): (),
}


def transition(old: ListedState | None, new: ListedState | None) -> tuple[Lifecycle, ...]:
    """The lifecycle events proven by one change in the lists; None means "not listed".

    Blind spot, like the kubelet's: a container that begins and ends between two lists leaves no
    trace in them.
    """
    return TRANSITIONS[PLEG_STATE[old], PLEG_STATE[new]]


@dataclass(slots=True)
class Lists:
    """Consecutive lists, reduced to their differences. `items`: the last one, by id."""

    items: dict[str, Listed] = field(default_factory=dict)

    def difference(self, items: Iterable[Listed]) -> tuple[tuple[Listed, ...], tuple[str, ...]]:
        """Items that are new or changed, and ids that are gone.

        If two items have the same id, the first one counts.
        """
        before, now = self.items, dict[str, Listed]()
        for item in items:
            now.setdefault(item.id, item)
        self.items = now
        changed = tuple([item for key, item in now.items() if before.get(key) != item])
        return changed, tuple([key for key in before if key not in now])


@dataclass(slots=True)
class Listing:
    """One relist compared with what is known."""

    relist: Relist
    # When the previous relist was requested; None for the baseline, which proves nothing.
    previous: float | None
    memory: Memory
    trust: StreamTrust
    # Output: findings are appended.
    findings: list[Finding]
    # The ledger's entries with something left to judge.
    still_open: dict[str, Entry]
    exits: Exits
    twins: Twins

    def prove(self) -> list[Entry]:
        """Prove the events that the difference shows; returns the live entries not listed."""
        live = self.memory.live
        for item in self.relist.changed:
            self._show(item)
        left: dict[str, ListedState | None] = {}
        for gone in self.relist.gone:
            if gone in live:
                self.twins.moved(gone, place_of(live[gone]), None)
                left[gone], live[gone].state = live[gone].state, None
        absent = [entry for entry in live.values() if entry.state is None]
        for entry in absent:
            self._miss(entry, left.get(entry.id))
        return absent

    def _show(self, item: Listed) -> None:
        memory = self.memory
        entry = memory.recall(item.id)
        if entry is None:
            entry = Entry(item.id)
            memory.admit(entry)
        before = place_of(entry)
        entry.describe_listed(item)
        self._change(entry, item.state)
        self.twins.moved(entry.id, before, place_of(entry))

    def _miss(self, entry: Entry, old: ListedState | None) -> None:
        """Take an entry that is not listed any more, or that only the stream has named."""
        old = old or self._only_announced(entry)
        if old is None:
            return
        died = entry.steps[Lifecycle.DIED]
        if died.proven is None or died.kernel_first:
            entry.gone_while_running = old is not ListedState.EXITED
        sandbox = self.memory.peek(entry.sandbox_id)
        entry.sandbox_was_ready = sandbox is not None and sandbox.state is ListedState.RUNNING
        if not self.trust.judging:
            entry.excuse_up_to(Lifecycle.REMOVED)
        self._prove(entry, old)

    def _change(self, entry: Entry, state: ListedState) -> None:
        old, entry.state = entry.state, state
        if state is ListedState.RUNNING:
            entry.ran = True
        if self.previous is None or not self.trust.judging:
            entry.excuse_up_to(PROGRESS.get(state, Lifecycle.DIED))
        if self.previous is None:
            entry.at_first = state
            return
        if old is None:
            entry.undo_removal()
        entry.exit_listed |= state is ListedState.EXITED
        self._prove(entry, old)

    def _only_announced(self, entry: Entry) -> ListedState | None:
        """The announced state of a container that this list lacks, and had to show; else None."""
        is_open = entry.steps[Lifecycle.REMOVED].state is StepState.OPEN
        if entry.before_baseline or not is_open:
            return None
        named = [step.announced for step in entry.steps if step.announced is not None]
        return entry.announced if self.relist.requested > min(named) else None

    def _prove(self, entry: Entry, old: ListedState | None) -> None:
        at, since = self.relist.completed, self.previous or 0.0
        if not entry.listed and any(step.backlog for step in entry.steps):
            # The events that named it predate the subscription, and so may this one.
            since = -math.inf
        for event in transition(old, entry.state):
            step = entry.steps[event]
            counted_already, step.kernel_first = step.kernel_first, False
            if not counted_already:
                self.findings.append(entry.finding(Verdict.WITNESSED, event))
            if event is Lifecycle.DIED:
                self.findings += self.exits.listed(entry, self.relist.completed)
                started = entry.steps[Lifecycle.STARTED]
                # Its start is over, too: if only the kernel proved the start, that is due now.
                if started.kernel_first and started.waits:
                    self.trust.prove(entry, Lifecycle.STARTED, started, at, since)
            # CONTAINER_UNKNOWN reflects the runtime's view changing, not the container.
            has_no_event = event is Lifecycle.CHANGED and entry.state is not ListedState.CREATED
            if has_no_event or not self.trust.judging:
                continue
            # The runtime knows of it now, so an event that only the kernel had proved is due now.
            due_anew = counted_already and step.waits
            if step.proven is not None and not due_anew:
                continue
            verdict = self.trust.prove(entry, event, step, at, since)
            if verdict is not None:
                self.findings.append(entry.finding(verdict, event))
            self.still_open[entry.id] = entry
