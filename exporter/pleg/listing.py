"""What one relist shows: which entries changed or disappeared, and what that proves.

Not here: verdicts that need time (`settle`), facts from the stream (`ledger`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.pleg.entry import PROGRESS, Entry
from exporter.pleg.events import Lifecycle, Listed, ListedState, Relist
from exporter.pleg.exits import Exits
from exporter.pleg.facts import Relisted
from exporter.pleg.findings import Finding, Verdict
from exporter.pleg.memory import Memory
from exporter.pleg.relist import transition
from exporter.pleg.steps import StepState
from exporter.pleg.watch import StreamTrust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(slots=True)
class Listing:
    """One relist compared with what is known.

    `previous`: when the previous relist was requested; None for the baseline, which proves nothing.
    `findings`: appended to. `still_open`: the ledger's entries with something left to judge.
    `exits`: measures how late it shows them. `ask`: called with an entry that may be in doubt.
    """

    relist: Relist
    previous: float | None
    memory: Memory
    trust: StreamTrust
    findings: list[Finding]
    still_open: dict[str, Entry]
    exits: Exits
    ask: Callable[[Entry], None]
    changed: list[Listed] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def forget(self, gone: Iterable[Listed]) -> None:
        """Take items of the last list that this one does not have, before any new ones."""
        for item in gone:
            self.memory.live[item.id].shown = None

    def absent(self) -> list[Entry]:
        """Entries that the relist does not show; call this after all items were taken."""
        return [entry for entry in self.memory.live.values() if entry.shown is None]

    def difference(self) -> Relisted:
        """The relist as a difference from the previous one."""
        relist = self.relist
        return Relisted(
            relist.requested,
            relist.completed,
            relist.requested_wall_ns,
            len(relist.items),
            tuple(self.changed),
            tuple(self.gone),
        )

    def show(self, items: Iterable[Listed]) -> None:
        """Take some listed items that the last list did not have."""
        memory = self.memory
        for item in items:
            entry = memory.live.get(item.id) or memory.recall(item.id)
            if entry is None:
                entry = Entry(item.id)
                memory.admit(entry)
            # A list with two items of one id: the first counts.
            if entry.shown is not None:
                continue
            entry.shown = item
            if entry.describe_listed(item) or entry.state is not item.state:
                self.changed.append(item)
            if entry.state is not item.state:
                self._change(entry, item.state)

    def miss(self, entry: Entry) -> None:
        """Take an entry that is not listed."""
        old, entry.state = entry.state, None
        if old is not None:
            self.gone.append(entry.id)
        elif (old := self._only_announced(entry)) is None:
            return
        died = entry.steps[Lifecycle.DIED]
        if died.proven is None or died.ahead:
            entry.gone_while_running = old is not ListedState.EXITED
        self._note_sandbox(entry)
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
            return
        if old is None:
            entry.undo_removal()
        entry.exit_listed |= state is ListedState.EXITED
        self._prove(entry, old)

    def _note_sandbox(self, entry: Entry) -> None:
        sandbox = self.memory.peek(entry.sandbox_id)
        shown = sandbox.shown if sandbox is not None else None
        entry.sandbox_was_ready = shown is not None and shown.state is ListedState.RUNNING

    def _only_announced(self, entry: Entry) -> ListedState | None:
        """The state of a container that only the stream has named, if this list had to show it."""
        is_open = entry.steps[Lifecycle.REMOVED].state is StepState.OPEN
        if entry.listed or entry.before_baseline or not is_open:
            return None
        named = [step.announced for step in entry.steps if step.announced is not None]
        return entry.announced if self.relist.requested > min(named) else None

    def _prove(self, entry: Entry, old: ListedState | None) -> None:
        at, since = self.relist.completed, self.previous or 0.0
        for event in transition(old, entry.state):
            step = entry.steps[event]
            ahead, step.ahead = step.ahead, False
            if not ahead:
                self.findings.append(entry.finding(Verdict.WITNESSED, event))
            if event is Lifecycle.DIED:
                self.findings += self.exits.listed(entry, self.relist.completed)
                started = entry.steps[Lifecycle.STARTED]
                # Its start is over, too: if only the kernel proved it, it is due now.
                if started.ahead and started.waits:
                    self.trust.prove(entry, Lifecycle.STARTED, started, at, since)
            # CONTAINER_UNKNOWN reflects the runtime's view changing, not the container.
            unannounceable = event is Lifecycle.CHANGED and entry.state is not ListedState.CREATED
            if unannounceable or not self.trust.judging:
                continue
            # The announcement of what the kernel proved is due only now that the runtime knows.
            if step.proven is not None and not (ahead and step.waits):
                continue
            verdict = self.trust.prove(entry, event, step, at, since)
            if verdict is not None:
                self.findings.append(entry.finding(verdict, event))
            self.still_open[entry.id] = entry
        self.ask(entry)
