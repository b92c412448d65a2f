"""What a chronicle tells, taken down and played again; in memory, or by way of a real file.

Here: listeners, and recordings made of facts. Not here: what should come of them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from exporter.pleg.chronicle import Chronicle, Listener
from exporter.pleg.facts import Fact, RecordedFact, Relisted
from exporter.pleg.findings import Finding
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of
from exporter.recording.reader import Recording
from exporter.recording.recorder import Recorder
from exporter.recording.replayer import Lists, Replay
from exporter.recording.rows import Header

HEADER = Header(
    shadow_pleg="0.1.0",
    grace=5.0,
    monotonic=1000.0,
    wall_ns=1_700_000_000_000_000_000,
    redacted=False,
    node="",
)
PLENTY = 2**30


@dataclass(slots=True)
class Tape:
    """Everything that was told, in order."""

    facts: list[RecordedFact] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def fact(self, fact: RecordedFact) -> None:
        """Take it down."""
        self.facts.append(fact)

    def found(self, findings: Sequence[Finding]) -> None:
        """Take them down."""
        self.findings += findings


def fresh(grace: float = HEADER.grace) -> Ledger:
    """A ledger that knows nothing, not even the runtime."""
    return Ledger(profile_of("", ""), grace)


def again(tape: Tape, grace: float = HEADER.grace) -> list[Finding]:
    """What another ledger makes of what was told."""
    ledger, lists = fresh(grace), Lists()
    found: list[Finding] = []
    for told in tape.facts:
        fact = lists.relist(told) if isinstance(told, Relisted) else told
        found += ledger.take(fact).findings
    return found


@dataclass(slots=True)
class Deck:
    """A chronicle whose facts go to a file and to a tape."""

    path: Path
    redact: bool = False
    max_bytes: int = PLENTY
    header: Header = HEADER
    tape: Tape = field(default_factory=Tape)
    ended: list[bool] = field(default_factory=list)
    recorder: Recorder = field(init=False)
    chronicle: Chronicle = field(init=False)

    def __post_init__(self) -> None:
        header = msgspec.structs.replace(self.header, redacted=self.redact)
        self.recorder = Recorder(self.path, self.max_bytes, header, lambda: self.ended.append(True))
        self.chronicle = Chronicle(fresh(self.header.grace))
        self.listen(self.chronicle)

    def listen(self, chronicle: Chronicle) -> None:
        """Take down what that one is told, too."""
        chronicle.listen(self.recorder)
        chronicle.listen(self.tape)

    def play(self, facts: Iterable[Fact]) -> None:
        """Tell them all."""
        for fact in facts:
            self.chronicle.take(fact)
        self.chronicle.tell_drops()

    def replayed(self) -> tuple[Replay, list[Finding]]:
        """End the recording; what its replay comes to."""
        self.recorder.end()
        return replayed(self.path.read_bytes())


def replayed(data: bytes, listener: Listener | None = None) -> tuple[Replay, list[Finding]]:
    """What a recording of these bytes comes to."""
    heard = Tape()
    done = Replay(Recording(io.BytesIO(data)))
    done.run(listener or heard)
    return done, heard.findings
