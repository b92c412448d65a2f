"""The ledger: facts of both witnesses in, findings out.

Everything that decides what was missed begins here; `settle` reaches the
verdicts that need time, `owed` applies the runtime's profile. A verdict is
about one identity (container id, lifecycle event): neither order, nor
duplicates, nor delays within the grace change it.

Facts must be handed over in the order in which they were learnt, and all
announcements received before a relist was handed over belong before it.
Nothing that a runtime sends raises. Blind spot: what begins and ends between
two relists unannounced was seen by nobody; and an announcement that comes
more than `RETENTION` after its container is gone is taken for a new one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from exporter.pleg.entry import PROGRESS, Entry, Step
from exporter.pleg.events import EventType, Inquiry, Lifecycle, ListedState, ObjectKind
from exporter.pleg.facts import Changes
from exporter.pleg.findings import Finding, Verdict
from exporter.pleg.memory import UNLISTED, Memory
from exporter.pleg.owed import start_in_doubt
from exporter.pleg.relist import transition
from exporter.pleg.settle import Settlement
from exporter.pleg.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.pleg.events import Announcement, Listed, Relist
    from exporter.pleg.profiles import Profile


class Ledger:
    """Pairs what the relist proves with what the stream announces.

    `grace`: seconds. `profile` may be replaced when the runtime is upgraded.
    `changes`: those of the last relist; whoever has read them may drop them.
    """

    def __init__(self, profile: Profile, grace: float) -> None:
        self.profile = profile
        self._grace = grace
        self._watch = Watch()
        self._memory = Memory()
        self._open: dict[str, Entry] = {}
        self._doubts: dict[str, None] = {}
        self._serial = 0
        self._listed = 0
        # Since the last relist a drop has been noted with all that wait: no later one adds any.
        self._excused = False
        self._previous: float | None = None
        self.changes = Changes()

    @property
    def unresolved(self) -> int:
        """Events proven by the relist, not yet announced, not yet judged."""
        return sum(entry.waiting for entry in self._open.values())

    @property
    def remembered(self) -> int:
        """How many containers and sandboxes the ledger holds, gone ones included."""
        return len(self._memory)

    def kind_of(self, container_id: str) -> ObjectKind:
        """What an id names, as far as anybody has told; a container if nobody has."""
        entry = self._memory.live.get(container_id)
        return entry.object if entry is not None else ObjectKind.CONTAINER

    def take_doubts(self) -> tuple[str, ...]:
        """Containers of which only `ContainerStatus` can tell whether they ran; asked once."""
        doubts = tuple(self._doubts)
        self._doubts.clear()
        return doubts

    def known(self, container_id: str) -> Entry | None:
        """What is remembered of that container, for reading only."""
        return self._memory.peek(container_id)

    def stream_asked(self, began_ns: int) -> None:
        """A subscription begins at wall time `began_ns`: what was made before is backlog."""
        self._watch.began_ns = began_ns

    def stream_up(self, at: float, began_ns: int) -> None:
        """The subscription carries events since `at`; it began at wall time `began_ns`."""
        self._watch.judging = True
        self._watch.down_until = min(self._watch.down_until, at)
        self._watch.began_ns = began_ns

    def stream_down(self, at: float) -> None:
        """The subscription ended, or was never there."""
        self._watch.judging = True
        self._watch.down_until = math.inf
        for step in self._waiting(at):
            step.stream_down = True

    def stream_refused(self) -> None:
        """There is no stream to hold to account: count what the relist sees, judge nothing."""
        self._watch.judging = False
        self._watch.down_until = math.inf
        for entry in self._open.values():
            entry.absolve()
        self._open.clear()

    def discarded(self, at: float) -> None:
        """This process dropped events at `at` because its queue was full."""
        self._watch.discarded_at = at
        if not self._excused:
            self._excused = True
            for step in self._waiting(at):
                step.discarded = True

    def inquired(self, container_id: str, answer: Inquiry) -> None:
        """What `ContainerStatus` said of one container."""
        entry = self._memory.live.get(container_id)
        if entry is None:
            return
        match answer:
            case Inquiry.STARTED:
                entry.ran = True
            case Inquiry.NEVER_STARTED:
                entry.ran = entry.ran or False
            case _:
                entry.deleted_below = True
        # An answer may explain a gap that nothing else would bring up again.
        self._open[entry.id] = entry

    def is_copy(self, event: Announcement) -> bool:
        """Whether it only repeats what another subscription brought: leases overlap."""
        entry = self._memory.peek(event.container_id)
        if entry is None or self._watch.is_backlog(event):
            return False
        return entry.steps[event.type.announces].repeats(event)

    def announced(self, event: Announcement) -> list[Finding]:
        """Take one event of the stream."""
        entry = self._memory.recall(event.container_id)
        if entry is None:
            if len(self._memory.live) >= self._listed + UNLISTED:
                self.discarded(event.received)
                blank = Entry(event.container_id, event.kind)
                return [blank.finding(Verdict.OVERFLOW, event.type.announces)]
            entry = Entry(event.container_id)
            entry.prehistoric = self._watch.is_before_our_time(event)
            self._memory.admit(entry)
        entry.describe_announced(event)
        findings = self._announce(entry, event)
        self._open[entry.id] = entry
        self._ask(entry)
        return findings

    def relisted(self, relist: Relist) -> list[Finding]:
        """Take one successful relist; the first one is the baseline and proves nothing."""
        return [finding for findings in self.relisting(relist) for finding in findings]

    def relisting(self, relist: Relist) -> Iterator[list[Finding]]:
        """The same in small steps. Nothing may be announced before the last one is taken."""
        self._serial += 1
        self.changes = Changes()
        for item in relist.items:
            yield self._list(item, relist)
        absent = [entry for entry in self._memory.live.values() if entry.serial != self._serial]
        for entry in absent:
            yield self._absent(entry, relist)
        yield from self._settle(relist)
        self._memory.bury(absent, self._open, relist.completed)
        self._excused = False
        self._listed = len(relist.items)
        self._previous = relist.requested
        self._watch.relisted(relist.requested_wall_ns)

    def _list(self, item: Listed, relist: Relist) -> list[Finding]:
        entry = self._memory.recall(item.id)
        if entry is None:
            entry = Entry(item.id)
            self._memory.admit(entry)
        if entry.serial == self._serial:
            return []
        entry.serial = self._serial
        if entry.describe_listed(item) or entry.state is not item.state:
            self.changes.listed.append(item)
        return self._change(entry, item.state, relist) if entry.state is not item.state else []

    def _waiting(self, at: float) -> list[Step]:
        """Steps whose deadline had not passed at `at`."""
        return [
            step
            for entry in self._open.values()
            for step in (*entry.steps, entry.vanish)
            if step is not None and step.waits and at <= (step.proven or 0.0) + self._grace
        ]

    def _announce(self, entry: Entry, event: Announcement) -> list[Finding]:
        lifecycle = event.type.announces
        step = entry.steps[lifecycle]
        findings = []
        backlog = self._watch.is_backlog(event)
        if backlog:
            findings.append(entry.finding(Verdict.BACKLOG, lifecycle))
        if step.announced is not None:
            if not step.repeats(event):
                findings.append(entry.finding(Verdict.DUPLICATE, lifecycle))
            return findings
        step.announced, step.stream = event.received, event.stream
        step.created_at_ns, step.backlog = event.created_at_ns, backlog
        if backlog or self._watch.is_before_our_time(event):
            entry.floor = max(entry.floor, lifecycle)
        if event.type is EventType.STARTED:
            entry.ran = True
        return findings + self._pair(entry, lifecycle)

    def _pair(self, entry: Entry, lifecycle: Lifecycle) -> list[Finding]:
        """The verdict, where the announcement brings one at once."""
        step = entry.steps[lifecycle]
        if step.missed:
            return [entry.finding(Verdict.LATE, lifecycle)]
        if step.proven is not None and not step.settled:
            step.settled = True
            return [entry.finding(Verdict.CONFIRMED, lifecycle)]
        return []

    def _change(self, entry: Entry, state: ListedState, relist: Relist) -> list[Finding]:
        old, entry.state = entry.state, state
        if state is ListedState.RUNNING:
            entry.ran = True
        if self._previous is None or not self._watch.judging:
            entry.excuse_up_to(PROGRESS.get(state, Lifecycle.DIED))
        if self._previous is None:
            return []
        if old is None:
            entry.take_back()
        entry.exit_listed |= state is ListedState.EXITED
        return self._prove(entry, old, relist)

    def _absent(self, entry: Entry, relist: Relist) -> list[Finding]:
        old, entry.state = entry.state, None
        if old is not None:
            self.changes.gone.append(entry.id)
            if entry.steps[Lifecycle.DIED].proven is None:
                entry.forced = old is not ListedState.EXITED
            self._note_sandbox(entry)
            return self._prove(entry, old, relist)
        self._doubt_existence(entry, relist)
        return []

    def _note_sandbox(self, entry: Entry) -> None:
        sandbox = self._memory.peek(entry.sandbox_id)
        shown = sandbox.state if sandbox is not None and sandbox.serial == self._serial else None
        entry.left_ready = shown is ListedState.RUNNING

    def _doubt_existence(self, entry: Entry, relist: Relist) -> None:
        """Only the stream named it, and this relist, asked for later, does not show it."""
        if entry.listed or entry.prehistoric or entry.vanish is not None:
            return
        named = [step.announced for step in entry.steps if step.announced is not None]
        settled = entry.steps[Lifecycle.REMOVED].settled
        if entry.announced is not None and not settled and relist.requested > min(named):
            entry.vanish = Step()
            self._note_sandbox(entry)
            self._watch.prove(entry.vanish, relist.completed, self._previous or 0.0)

    def _prove(self, entry: Entry, old: ListedState | None, relist: Relist) -> list[Finding]:
        findings = []
        for event in transition(old, entry.state):
            findings.append(entry.finding(Verdict.WITNESSED, event))
            # CONTAINER_UNKNOWN is a change of the runtime's mind, not of the container.
            unannounceable = event is Lifecycle.CHANGED and entry.state is not ListedState.CREATED
            step = entry.steps[event]
            if unannounceable or not self._watch.judging or step.proven is not None or step.gap:
                continue
            self._watch.prove(step, relist.completed, self._previous or 0.0)
            if step.announced is not None and not step.settled:
                step.settled = True
                findings.append(entry.finding(Verdict.CONFIRMED, event))
            self._open[entry.id] = entry
        self._ask(entry)
        return findings

    def _ask(self, entry: Entry) -> None:
        if start_in_doubt(entry, self.profile):
            self._doubts[entry.id] = None

    def _settle(self, relist: Relist) -> Iterator[list[Finding]]:
        findings: list[Finding] = []
        court = Settlement(self.profile, self._grace, relist.requested, findings)
        # Between two steps others may open a case, or close all of them.
        docket = list(self._open.values())
        for entry in docket:
            court.settle_vanish(entry)
        for entry in docket:
            if court.settle(entry, self._memory.peek(entry.sandbox_id)):
                self._ask(entry)
            else:
                self._open.pop(entry.id, None)
            yield findings
            findings.clear()
