"""An observer without a socket: the exporter's ledger, fed by hand from a simulated runtime.

Here: a clock, a stream that is read when told, relists made when told, and the
comparison of what the ledger counted with what the runtime's truth expects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from exporter.pleg.chronicle import Chronicle, Listener
from exporter.pleg.events import (
    Announcement,
    Inquiry,
    Lifecycle,
    Listed,
    ObjectKind,
    Pod,
    Relist,
)
from exporter.pleg.facts import Inquired, ProfileChosen, StreamDown, StreamUp
from exporter.pleg.findings import Finding, Taken, Verdict
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of
from exporter.simulator.channel import End, Subscriber
from exporter.simulator.options import Options
from exporter.simulator.records import Notice
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.truth import Row

EPOCH_NS = 1_700_000_000_000_000_000
GRACE = 5.0

Key = tuple[str, Lifecycle, ObjectKind]


@dataclass(slots=True)
class Clock:
    """Seconds that pass when told, and the wall clock beside them."""

    now: float = 1000.0

    def wall_ns(self) -> int:
        """The wall clock; never the same twice, as real ones are not."""
        self.now += 0.001
        return EPOCH_NS + int(self.now * 1e9)


class Counts(Counter[Key]):
    """Findings by cause or verdict. One that comes late is taken back: it was no loss."""

    def __init__(self) -> None:
        super().__init__()
        self._missed: dict[tuple[str, Lifecycle], Key] = {}

    def take(self, findings: Iterable[Finding]) -> None:
        """Count these."""
        for finding in findings:
            name = finding.cause.value if finding.cause else finding.verdict.value
            key = name, finding.event, finding.kind
            identity = finding.container_id, finding.event
            if finding.verdict is Verdict.MISSED:
                self._missed[identity] = key
            if finding.verdict is Verdict.LATE:
                key = self._missed.pop(identity)
                self[key] -= 1
            else:
                self[key] += 1


class Witness:
    """A simulated runtime and the ledger that watches it."""

    def __init__(self, options: Options, *listeners: Listener) -> None:
        self.clock = Clock()
        self.runtime = SimulatedRuntime(options, self.clock.wall_ns)
        manners = self.runtime.manners
        self.ledger = Chronicle(Ledger(profile_of("", ""), GRACE))
        for listener in listeners:
            self.ledger.listen(listener)
        self.ledger.take(ProfileChosen(self.clock.now, manners.name, manners.version))
        self.counts = Counts()
        self.findings: list[Finding] = []
        self._doubts: dict[str, None] = {}
        self._stream: Subscriber | None = None

    def subscribe(self) -> None:
        """Open the stream, if it is not."""
        if self._stream is None:
            now_ns = self.clock.wall_ns()
            self._stream = self.runtime.channel.subscribe(now_ns)
            self.ledger.take(StreamUp(self.clock.now, now_ns))

    def disconnect(self) -> None:
        """The runtime ends the stream; what was not read is lost."""
        if self._stream is not None:
            self.runtime.channel.end_all(End.UNAVAILABLE)
            self._stream = None
            self.ledger.take(StreamDown(self.clock.now))

    def leave(self) -> None:
        """The observer ends the stream."""
        if self._stream is not None:
            self.runtime.channel.leave(self._stream)
            self._stream = None
            self.ledger.take(StreamDown(self.clock.now))

    def restart(self) -> None:
        """The runtime dies: what happens until `come_up` is never announced."""
        self.runtime.go_down()
        self.disconnect()

    def back(self) -> None:
        """The runtime is up, and the stream open and read."""
        self.runtime.come_up()
        self.subscribe()
        self.read()

    def read(self) -> None:
        """Take everything that the stream has."""
        self.runtime.outbox.flush(self.clock.wall_ns())
        while self._stream is not None and (notice := self._stream.take()) is not None:
            now_ns = self.clock.wall_ns()
            stream = self._stream
            self.runtime.truth.arrived(notice, stream.number, stream.began_ns, now_ns)
            event = _announcement(notice, self.clock.now, stream.number)
            self._note(self.ledger.take(event))

    def relist(self, seconds: float = 10.0) -> None:
        """Let `seconds` pass, relist, and ask about what is in doubt."""
        self.clock.now += seconds
        requested_ns = self.clock.wall_ns()
        requested = self.clock.now
        items = tuple(self._listed())
        self.read()
        completed_ns = self.clock.wall_ns()
        self.runtime.truth.shown({item.id: item.state for item in items}, requested_ns)
        completed = requested + (completed_ns - requested_ns) / 1e9
        self._note(self.ledger.take(Relist(requested, completed, requested_ns, items)))
        self._inquire()

    def settle(self) -> None:
        """Enough relists for every verdict."""
        self.runtime.outbox.calm()
        for _ in range(5):
            self.read()
            self.relist()

    def _note(self, taken: Taken) -> None:
        self.findings += taken.findings
        self.counts.take(taken.findings)
        self._doubts |= dict.fromkeys(taken.doubts)

    def _inquire(self) -> None:
        doubts, self._doubts = self._doubts, {}
        for container_id in doubts:
            record = self.runtime.container(container_id)
            if record is not None:
                self.runtime.truth.answered(record, found=True)
                answer = Inquiry.STARTED if record.started_at_ns else Inquiry.NEVER_STARTED
                self.ledger.take(Inquired(self.clock.now, container_id, answer))

    def _listed(self) -> list[Listed]:
        items = [
            Listed(one.id, ObjectKind.SANDBOX, one.state, one.id)
            for one in self.runtime.sandboxes()
        ]
        items += [
            Listed(one.id, ObjectKind.CONTAINER, one.state, one.sandbox_id, one.name)
            for one in self.runtime.containers()
        ]
        return items


def _announcement(notice: Notice, now: float, stream: int) -> Announcement:
    status = notice.sandbox
    kind = None
    if status is not None:
        named = status.id == notice.container_id
        kind = ObjectKind.SANDBOX if named else ObjectKind.CONTAINER
    return Announcement(
        container_id=notice.container_id,
        type=notice.type,
        received=now,
        created_at_ns=notice.created_at_ns,
        kind=kind,
        sandbox_id=status.id if status else "",
        pod=Pod(status.namespace, status.name, status.uid) if status else None,
        stream=stream,
    )


COUNTED = {
    "missed": ("silent", "stream_down", "discarded"),
    "by_design": ("by_design",),
    "gaps": ("gap",),
    "witnessed": ("witnessed",),
    "unseen": ("unseen",),
    "duplicates": ("duplicate",),
}


def disagreements(witness: Witness) -> list[str]:
    """Where the runtime's truth and the ledger's counts differ."""
    return compare(witness.runtime.truth.summary().rows, witness.counts)


def compare(rows: tuple[Row, ...], counts: Counter[Key], names: tuple[str, ...] = ()) -> list[str]:
    """Where the truth and the counts differ, in these totals or in all.

    Duplicates are counted by event alone: what an
    id names may not be known when the second copy comes.
    """
    expected: Counter[tuple[str, str]] = Counter()
    counted: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for name in names or COUNTED:
            kind = "" if name == "duplicates" else row.object.value
            key = name, f"{row.event.label} {kind}"
            expected[key] += getattr(row, name)
            counted[key] += sum(counts[word, row.event, row.object] for word in COUNTED[name])
    return [
        f"{name} {what}: {wanted} in truth, {counted[name, what]} counted"
        for (name, what), wanted in expected.items()
        if wanted != counted[name, what]
    ]
