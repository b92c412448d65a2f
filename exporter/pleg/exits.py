"""When containers ended, and how long it took until stream, list and kubelet said so.

Two witnesses report the time of an exit: the kernel, which saw the last process end, and the
container's own status in its STOPPED. Neither can be early: a stopped shim stamps late, and a read
without notification sees late. So the earlier time counts, if at least one is exact. Blind spots: a
process that leaves its pod's cgroups seems to end; and a step of the clock that is too small to be
noticed changes the delay by as much.
"""

import math
from dataclasses import dataclass
from typing import Final

from exporter.model.events import Announcement, Lifecycle, ListedState, ObjectKind
from exporter.model.facts import Believed
from exporter.model.findings import Finding, Outcome, Untimed, Verdict
from exporter.pleg.belief import Beliefs
from exporter.pleg.clock import WallClock
from exporter.pleg.entry import Entry
from exporter.pleg.kernel import Kernel
from exporter.pleg.memory import RETENTION
from exporter.pleg.steps import Exit
from exporter.pleg.trust import StreamTrust

_CONTAINER: Final = ObjectKind.CONTAINER
_SANDBOX: Final = ObjectKind.SANDBOX
_EXITED: Final = ListedState.EXITED
_DIED: Final = Lifecycle.DIED
_ANNOUNCED: Final = Verdict.EXIT_ANNOUNCED


@dataclass(slots=True)
class Exits:
    """Measures the exits of containers. `grace`: seconds beyond which an announcement is slow."""

    grace: float
    trust: StreamTrust
    clock: WallClock
    kernel: Kernel
    beliefs: Beliefs

    def changed(self, entry: Entry) -> tuple[Finding, ...]:
        """Measure an exit again after its cgroup changed: the time may be known only now."""
        found = self._exit_of(entry)
        return self._measure_list(entry, found) + self._measure_belief(entry, found)

    def believed(self, fact: Believed) -> Outcome:
        """Take what the kubelet shows of a pod; measure those of its containers that have ended."""
        findings = self.beliefs.apply(fact)
        for status in fact.changed:
            entry = self.kernel.memory.peek(status.id)
            if entry is not None and status.state is _EXITED:
                findings += self._measure_belief(entry, self._exit_of(entry))
        return Outcome(findings)

    def listed(self, entry: Entry, at: float) -> tuple[Finding, ...]:
        """Measure an exit that a list, complete at `at`, shows for the first time."""
        if entry.kind is _SANDBOX:
            return ()
        found = self._exit_of(entry)
        if found.listed is None:
            found.listed = at
        return self._measure_list(entry, found) + self._measure_belief(entry, found)

    def announced(
        self, entry: Entry, event: Announcement, *, backlog: bool
    ) -> tuple[tuple[Finding, ...], Untimed | None]:
        """Measure an exit at its first STOPPED; also returns why its delay is unknown, if so."""
        if entry.kind is _SANDBOX:
            return (), None
        found = self._exit_of(entry)
        found.exit_code, found.reason = event.exit_code, event.reason
        findings: tuple[Finding, ...] = ()
        untimed: Untimed | None = Untimed.OUTAGE
        if not backlog:
            found.announced = event.received
            findings, untimed = self._time(entry, found, event)
        return findings + self._measure_belief(entry, found), untimed

    def _time(
        self, entry: Entry, found: Exit, event: Announcement
    ) -> tuple[tuple[Finding, ...], Untimed | None]:
        received, wall_ns, ended_ns = event.received, event.received_wall_ns, event.ended_ns
        if ended_ns:
            reported = self.clock.past(ended_ns, received, wall_ns)
            shown = received if found.listed is None else min(found.listed, received)
            # An older time is wrong: no clean-up takes so long, so the lists are right.
            if reported is not None and reported >= shown - RETENTION:
                found.reported = reported
        ended = found.ended
        if ended is None:
            return (), Untimed.CLOCK if ended_ns else Untimed.NO_TIME
        findings = self._measure_list(entry, found)
        if ended < self.trust.down_until:
            return findings, Untimed.OUTAGE
        seconds = max(0.0, received - ended)
        findings += (_measured(entry, _ANNOUNCED, seconds),)
        if seconds > self.grace:
            findings += (_measured(entry, Verdict.SLOW, seconds),)
        return findings, None

    def _exit_of(self, entry: Entry) -> Exit:
        """What is known of the container's exit by now."""
        found = entry.exit
        if found is None:
            found = entry.exit = Exit()
        cgroup = self.kernel.cgroups.get(entry.id)
        if cgroup is not None and not self.kernel.is_elsewhere(entry):
            # While there are processes, what looked like an exit was none.
            ended = None if cgroup.moved else cgroup.emptied
            found.seen = math.inf if ended is None else ended
            found.exact = cgroup.exact
        return found

    def _measure_list(self, entry: Entry, found: Exit) -> tuple[Finding, ...]:
        if found.measured or found.listed is None or found.ended is None:
            return ()
        found.measured = True
        # Not below 0: a notification may be read after the list, though the exit came before.
        return (_measured(entry, Verdict.EXIT_LISTED, max(0.0, found.listed - found.ended)),)

    def _measure_belief(self, entry: Entry, found: Exit) -> tuple[Finding, ...]:
        """Measure how late the kubelet showed the exit, each delay once, even before the event."""
        belief = self.beliefs.ended(entry.id)
        if belief is None:
            return ()
        findings: tuple[Finding, ...] = ()
        if belief.is_news and not found.timed and found.ended is not None:
            found.timed = True
            seconds = max(0.0, belief.at - found.ended)
            findings += (_measured(entry, Verdict.EXIT_BELIEVED, seconds),)
        if belief.is_news and not found.paired and found.announced is not None:
            found.paired = True
            seconds = max(0.0, belief.at - found.announced)
            findings += (_measured(entry, Verdict.EVENT_BELIEVED, seconds),)
        if not found.compared and found.exit_code is not None:
            found.compared = True
            self.beliefs.compare(entry, found.exit_code, found.reason)
        return findings


def _measured(entry: Entry, verdict: Verdict, seconds: float) -> Finding:
    # `Entry.finding` takes no seconds, and copying its result would double the cost.
    who = entry.id, entry.name, entry.pod
    return Finding(verdict, _DIED, _CONTAINER, *who, None, None, seconds)
