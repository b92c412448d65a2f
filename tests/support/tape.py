"""Recordings made of facts, in memory or in a file; a node around a ledger, and one without."""

import gzip
import io
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.model.events import Announcement, EventType, Inquiry, Listed, ObjectKind, Pod
from exporter.model.facts import (
    CgroupsRead,
    Fact,
    Inquired,
    Killed,
    KillsCounted,
    ProfileChosen,
    Unread,
)
from exporter.model.findings import Finding, Outcome
from exporter.node.chronicle import Chronicle
from exporter.pleg.ledger import Ledger
from exporter.recording.recorder import Recorder, member
from exporter.recording.rows import Header
from exporter.runtimes.known import profile_of
from replay.reader import Recording
from replay.replayer import Replay
from tests.support.facts import EXITED, RUNNING, Given, Whole, facts_of, relist, up
from tests.support.stories import told

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
    """A listener that keeps all facts and findings in order."""

    facts: list[Fact] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def hear(self, fact: Fact, outcome: Outcome) -> None:
        self.facts.append(fact)
        self.findings += outcome.findings


def fresh() -> Ledger:
    return Ledger(profile_of("", ""), HEADER.grace)


def again(tape: Tape) -> list[Finding]:
    ledger = fresh()
    return [found for fact in tape.facts for found in ledger.judge(fact).findings]


@dataclass(slots=True)
class Deck:
    """A chronicle whose facts go to a file and to a tape."""

    path: Path
    redact: bool = False
    max_bytes: int = PLENTY
    tape: Tape = field(default_factory=Tape)
    ended: list[bool] = field(default_factory=list)
    recorder: Recorder = field(init=False)
    chronicle: Chronicle = field(init=False)

    def __post_init__(self) -> None:
        header = replace(HEADER, redacted=self.redact)
        self.recorder = Recorder(self.path, self.max_bytes, header, lambda: self.ended.append(True))
        self.chronicle = Chronicle(fresh())
        self.chronicle.listen(self.recorder.hear)
        self.chronicle.listen(self.tape.hear)

    def play(self, facts: Iterable[Given]) -> None:
        for fact in facts_of(facts):
            self.chronicle.record(fact)
        self.chronicle.tell_drops()

    def replayed(self) -> tuple[Replay, list[Finding]]:
        self.recorder.end()
        return replayed(self.path.read_bytes())


def replayed(data: bytes) -> tuple[Replay, list[Finding]]:
    heard = Tape()
    done = Replay(Recording(io.BytesIO(data)))
    for fact, outcome in done:
        heard.hear(fact, outcome)
    return done, heard.findings


POD = Pod("shop", "cart-7d9f8", "uid-1")


STORY = told(
    "profile 0 2.1.9; up 0.5; list 1 old=RUNNING; created c1 2; discarded 2.2; discarded 2.4;"
    " started c1 2.5; list 3 old=RUNNING c1=RUNNING c2=EXITED; answer c2 3.5 NEVER_STARTED;"
    " down 4; list 15 old=EXITED c1=RUNNING c2=EXITED; up 16; stopped old 17; deleted c1 18;"
    " list 30 50 c2=EXITED"
)


def recording_of(path: Path, *facts: Given, redact: bool = False) -> tuple[bytes, Deck]:
    deck = Deck(path, redact=redact)
    deck.play(facts or STORY)
    deck.recorder.end()
    return path.read_bytes(), deck


def in_blocks(data: bytes, size: int = 400) -> list[bytes]:
    """The same recording as blocks of lines of about `size` bytes."""
    blocks, text = [], b""
    for line in gzip.decompress(data).splitlines(keepends=True):
        text += line
        if len(text) >= size:
            blocks.append(member(text))
            text = b""
    return [*blocks, member(text)] if text else blocks


IDS = ("0a1b2c3d4e5f", "9f8e7d6c5b4a", "77aa88bb99cc")
SECRETS = (*IDS, "payroll", "salaries-7d9f8", "uid-4711", "exporter-of-secrets", "Zürich")


def secret_story() -> list[Given]:
    pod = Pod("payroll", "salaries-7d9f8", "uid-4711")
    box = Listed(IDS[0], ObjectKind.SANDBOX, RUNNING.state, IDS[0], "", pod)
    app = Listed(IDS[1], ObjectKind.CONTAINER, RUNNING.state, IDS[0], "exporter-of-secrets", pod)
    city = app._replace(id=IDS[2], name="Zürich", state=EXITED.state)
    kind = ObjectKind.CONTAINER
    return [
        ProfileChosen(0.0, "containerd", "2.1.9"),
        up(0.5),
        relist(1),
        Announcement(IDS[1], EventType.CREATED, 1.5, 10**18, kind, IDS[0], pod),
        Whole(2, 2.1, (box, app, city)),
        Inquired(2.5, IDS[2], Inquiry.NEVER_STARTED),
        Unread(2.6, IDS[1]),
        KillsCounted(2.7, 0),
        Killed(2.8, IDS[1], "uid-4711", 1, 1),
        CgroupsRead(20, dead=(IDS[1],), frozen=(IDS[1],)),
        Whole(20, 20.1, (box, app, city)),
        Whole(21, 21.1, ()),
        Whole(40, 40.1, ()),
    ]
