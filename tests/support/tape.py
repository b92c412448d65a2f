"""Recordings made of facts, in memory or in a file; a node around a ledger, and one without."""

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from exporter.evidence.cases import Cases
from exporter.model.events import Announcement, EventType, Inquiry, Listed, ObjectKind, Pod
from exporter.model.facts import (
    CgroupsRead,
    Fact,
    Inquired,
    Killed,
    KillsCounted,
    ProfileChosen,
    Relist,
    Unread,
)
from exporter.model.findings import NOTHING, Finding, Outcome, Verdict
from exporter.model.labels import StreamKind
from exporter.node.chronicle import Chronicle
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.state import Node, RuntimeInfo
from exporter.pleg.ledger import Ledger
from exporter.recording.recorder import Recorder, member
from exporter.recording.rows import Header
from exporter.runtimes.known import profile_of
from replay.reader import Recording
from replay.replayer import Replay
from tests.support.facts import (
    EXITED,
    RUNNING,
    Differences,
    Given,
    Whole,
    created,
    facts_of,
    lively,
    relist,
    started,
    up,
)
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


@dataclass(slots=True)
class Stage:
    """A ledger with everything that the daemon puts around it."""

    node: Node = field(default_factory=Node)
    ledger: Ledger = field(default_factory=fresh)
    chronicle: Chronicle = field(init=False)
    cases: Cases = field(init=False)
    _differences: Differences = field(default_factory=Differences)

    def __post_init__(self) -> None:
        self.node.runtime = RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST)
        self.chronicle = Chronicle(self.ledger)
        self.cases = Cases(self.ledger, self.node, 5.0)
        self.chronicle.listen(self.cases.hear)
        self.chronicle.record(ProfileChosen(0.0, "containerd", "2.1.9"))
        self.take(up())

    def take(self, *facts: Given) -> None:
        for line in lively(facts):
            self.chronicle.record(self._differences.fact(line))

    @property
    def records(self) -> list[dict[str, Any]]:
        """Evidence in memory, the oldest first."""
        return [json.loads(line) for line in reversed(self.cases.newest)]

    def lose(self, number: int, name: str = "c") -> None:
        """`number` containers start without an announcement, while others are announced."""
        lost = {f"{name}{each}": RUNNING for each in range(number)}
        begun, later = created(f"{name}0", 0.5), created(f"{name}1", 14)
        self.take(begun, relist(1), relist(2, **lost), later, relist(20, **lost))


class Lived:
    """A node to whose last 15 minutes things happen at chosen times, its history and its judge.

    `standing`: what contradicts now; `fields`: the node's.
    """

    def __init__(
        self, *taken: Fact, standing: Mapping[Verdict, int] | None = None, **fields: object
    ) -> None:
        self.node = Node(**fields)  # type: ignore[arg-type] # its own
        self.history = History(self.node)
        self.standing = Counter(standing or {})
        self.judge = Judge(self.node, self.history, self.standing.__getitem__)
        self.take(*taken)

    def take(self, *taken: Fact) -> None:
        """Facts that lead to nothing."""
        for fact in taken:
            self.history.hear(fact, NOTHING)

    def receive(self, at: float, number: int = 1) -> None:
        """So many events, which the node counts once the ledger has taken them."""
        for _ in range(number):
            self.take(started("c1", at))
            self.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 1

    def relist(self, at: float, *findings: Finding) -> None:
        self.history.hear(Relist(at - 1, at, 3, (), ()), Outcome(findings))


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
