"""What was done to a runtime, and what it said: rows in the order in which they were learnt.

A recording of `shadow-pleg record` is one, too, but does not say what was done. What one subscriber
heard is written as a recording, which `replay` explains.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from exporter import __version__
from exporter.cri import runtime_v1_pb2 as pb
from exporter.errors import ConfigError
from exporter.model.events import Announcement, EventType
from exporter.model.facts import Fact, ProfileChosen, Relist, StreamAsked, StreamDown, StreamUp
from exporter.model.findings import Finding
from exporter.pleg.ledger import Ledger
from exporter.recording.recorder import STOPPED, member
from exporter.recording.rows import End, Header, Row, fact_rows, found_rows, line_of
from exporter.runtimes.known import profile_of
from replay.reader import Recording
from replay.replayer import Replay

# The subscriber that hears the whole history, and one that comes when others are there.
MAIN: Final = "main"
LATER: Final = "shared-later"
_GRACE: Final = 2.0
_MEMBER_LINES: Final = 256
# Half of the lines of a story that is too long.
_SHOWN: Final = 8


class Heard(NamedTuple):
    """An event. `statuses`: of all containers of its pod; None where that is not known."""

    at: float
    stream: str
    fact: Announcement
    statuses: tuple[pb.ContainerStatus, ...] | None = None

    @property
    def id(self) -> str:
        """Of its container, or sandbox."""
        return self.fact.container_id

    @property
    def own(self) -> pb.ContainerStatus | None:
        """The status of its own container."""
        return next((each for each in self.statuses or () if each.id == self.id), None)

    def __str__(self) -> str:
        said = f"{self.fact.type.name} is heard"
        said += f" as {pb.ContainerState.Name(self.own.state)}" if self.own else ""
        if self.fact.exit_code is not None:
            said += f", exit code {self.fact.exit_code}, reason {self.fact.reason or '(none)'}"
        return said if self.stream == MAIN else f"{said} by {self.stream}"


class Connected(NamedTuple):
    """A subscriber came, or is gone; `why`: "" if it left by itself."""

    at: float
    stream: str
    up: bool
    why: str = ""

    def __str__(self) -> str:
        how = "is subscribed" if self.up else f"is no longer subscribed: {self.why or 'it left'}"
        return f"the subscriber {self.stream} {how}"


class Act(NamedTuple):
    """A call that changes something, and when it ended; `error`: "" if it succeeded."""

    at: float
    took: float
    call: str
    id: str
    error: str = ""

    def __str__(self) -> str:
        how = f": {self.error}" if self.error else ""
        return f"{self.call} {'fails' if self.error else 'returns'} after {self.took:.3f} s{how}"


class Looked(NamedTuple):
    """What a call showed right after an event; `state`: of the CRI, and 3 for any later one."""

    at: float
    id: str
    type: EventType
    call: str
    state: int

    def __str__(self) -> str:
        return f"after {self.type.name}, {self.call} shows {pb.ContainerState.Name(self.state)}"


class Case(NamedTuple):
    """What a container or sandbox was made for: a part of the run, and how it has to end.

    `pod`: its sandbox. `owed`: what has to be announced. `exit_code`, `reason`: None for any.
    """

    part: str
    pod: str
    owed: tuple[EventType, ...] = ()
    exit_code: int | None = None
    reason: str | None = None


_UNKNOWN: Final = Case("", "")


class Life(NamedTuple):
    """What one subscriber heard of a container or sandbox, and the last call of each name."""

    id: str
    case: Case
    heard: list[Heard]
    acts: dict[str, Act]

    @property
    def kinds(self) -> list[EventType]:
        """What was announced of it, in order."""
        return [heard.fact.type for heard in self.heard]

    @property
    def missing(self) -> list[EventType]:
        """What is owed, and was not heard."""
        return [kind for kind in self.case.owed if kind not in self.kinds]

    @property
    def end(self) -> Heard | None:
        """Its STOPPED."""
        return next((h for h in self.heard if h.fact.type is EventType.STOPPED), None)


@dataclass
class History:
    """All of it. `cases`: by id. `skipped`: parts that were not played, and why.

    `figures`: what else was measured. `findings`: a ledger's, of a recording; None if it is none.
    """

    runtime: str = ""
    version: str = ""
    rows: list[Heard | Relist | Connected | Act | Looked] = field(default_factory=list)
    cases: dict[str, Case] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] | None = None

    def heard(self, stream: str = MAIN) -> Iterator[Heard]:
        """What that subscriber heard of what was made here, in order."""
        rows = (r for r in self.rows if isinstance(r, Heard) and r.stream == stream)
        recorded = self.findings is not None
        return (row for row in rows if recorded or self.case(row) is not _UNKNOWN)

    def case(self, heard: Heard) -> Case:
        """What it is about; of what was never made, what its pod was made for."""
        if case := self.cases.get(heard.id):
            return case
        pod = heard.fact.pod.name if heard.fact.pod else ""
        around = self.cases.get(heard.fact.sandbox_id) or self.cases.get(pod)
        return Case(around.part, around.pod) if around else _UNKNOWN

    def lives(self, stream: str = MAIN) -> dict[str, Life]:
        """What that subscriber heard of each."""
        found = {key: Life(key, case, [], {}) for key, case in self.cases.items()}
        for heard in self.heard(stream):
            empty = Life(heard.id, self.case(heard), [], {})
            found.setdefault(heard.id, empty).heard.append(heard)
        for act in self.acts():
            if act.id in found:
                found[act.id].acts[act.call] = act
        return found

    def of(self, parts: Sequence[str], stream: str = MAIN) -> list[Life]:
        """Those of a part's containers."""
        lives = self.lives(stream).values()
        return [life for life in lives if life.case.part in parts and life.id != life.case.pod]

    def acts(self) -> Iterator[Act]:
        """All that was done."""
        return (row for row in self.rows if isinstance(row, Act))

    def connected(self, name: str = "") -> list[Connected]:
        """When those subscribers came and went whose names begin so."""
        return [r for r in self.rows if isinstance(r, Connected) and r.stream.startswith(name)]

    def is_whole(self, key: str) -> bool:
        """Whether a recording shows it from its beginning to its end."""
        first, *more = (row for row in self.rows if isinstance(row, Relist))
        later = {item.id for row in more for item in row.changed} - {i.id for i in first.changed}
        return key in later and any(key in row.gone for row in more)

    def story(self, *ids: str, stream: str = MAIN) -> tuple[str, ...]:
        """What concerns these, with seconds since the first of it; not the middle of a long one."""
        told: list[tuple[float, str]] = []
        for row in self.rows:
            if isinstance(row, Connected) and row.stream == stream != MAIN:
                told.append((row.at, f"{'':12}  {row}"))
            elif isinstance(row, Act | Heard | Looked) and row.id in ids:
                at = row.at - row.took if isinstance(row, Act) else row.at
                if getattr(row, "stream", stream) == stream:
                    told.append((at, f"{row.id[:12]:12}  {row}"))
        if told:
            begin, end = min(told)[0], max(told)[0]
            main = (row for row in self.connected(MAIN) if begin < row.at < end)
            told += [(row.at, f"{'':12}  {row}") for row in main]
        told.sort(key=lambda line: line[0])
        lines = [f"{at - told[0][0]:8.3f} s  {line}" for at, line in told]
        if (more := len(lines) - 2 * _SHOWN) > 0:
            lines[_SHOWN:-_SHOWN] = [f"            ... {more} more lines"]
        return tuple(lines)

    def facts(self) -> Iterator[Fact]:
        """What the main subscriber learnt, as a ledger takes it."""
        yield ProfileChosen(0.0, self.runtime, self.version)
        for row in self.rows:
            if isinstance(row, Relist):
                yield row
            elif isinstance(row, Heard) and row.stream == MAIN:
                if row.fact.pod or self.case(row) is not _UNKNOWN:
                    yield row.fact
            elif isinstance(row, Connected) and row.stream == MAIN:
                if row.up:
                    yield StreamAsked(row.at)
                yield StreamUp(row.at, row.at) if row.up else StreamDown(row.at)


def write(history: History, path: Path) -> None:
    """Write what the main subscriber learnt, and a ledger's findings; ConfigError if it fails."""
    ledger = Ledger(profile_of("", ""), _GRACE)
    header = Header(
        shadow_pleg=__version__,
        grace=_GRACE,
        monotonic=time.monotonic(),
        wall_ns=time.time_ns(),
        redacted=False,
        node="",
    )
    rows: list[Header | Row] = [header]
    for fact in history.facts():
        rows += chain(fact_rows(fact), found_rows(ledger.judge(fact).findings))
    lines = [line_of(row) for row in (*rows, End(STOPPED))]
    try:
        with path.open("xb") as file:
            for begin in range(0, len(lines), _MEMBER_LINES):
                file.write(member(b"".join(lines[begin : begin + _MEMBER_LINES])))
    except OSError as error:
        said = f"--history: {str(path)!r} cannot be written ({error.strerror}): name a new file"
        raise ConfigError(said) from None


def of_recording(recording: Recording) -> History:
    """What a recording shows, up to its damage."""
    history, found = History(), list[Finding]()
    for fact, outcome in Replay(recording):
        found += outcome.findings
        if isinstance(fact, Announcement):
            history.rows.append(Heard(fact.received, MAIN, fact))
        elif isinstance(fact, Relist):
            history.rows.append(fact)
        elif isinstance(fact, StreamUp | StreamDown):
            history.rows.append(Connected(fact.at, MAIN, up=isinstance(fact, StreamUp)))
        elif isinstance(fact, ProfileChosen):
            history.runtime, history.version = fact.name, fact.version
    history.findings = tuple(found)
    return history
