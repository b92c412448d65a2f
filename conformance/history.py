"""What was done to a runtime, and what it said: rows in the order in which they were learnt.

A recording of `shadow-pleg record` is one too, without what was done; and of a history `replay`
explains what one subscriber heard. Pure but for the file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from exporter import __version__
from exporter.cri import runtime_v1_pb2 as pb
from exporter.errors import ConfigError
from exporter.model.events import Announcement, EventType, Listed, ListedState
from exporter.model.facts import Fact, ProfileChosen, Relist, StreamAsked, StreamDown, StreamUp
from exporter.model.findings import Finding
from exporter.pleg.ledger import Ledger
from exporter.recording.recorder import STOPPED, member
from exporter.recording.rows import End, Header, Row, fact_rows, found_rows, line_of
from exporter.runtimes.known import profile_of
from replay.reader import Recording
from replay.replayer import Replay

# The subscriber that hears the whole history.
MAIN: Final = "main"
GRACE: Final = 2.0
_MEMBER: Final = 256


class Told(NamedTuple):
    """A container's status in an event. `state`: a number of the CRI's ContainerState."""

    id: str
    state: int
    started_ns: int
    finished_ns: int
    code: int
    reason: str


class Heard(NamedTuple):
    """An event. `statuses`: of all containers of its pod; None where that is not known."""

    at: float
    stream: str
    fact: Announcement
    statuses: tuple[Told, ...] | None = None

    @property
    def id(self) -> str:
        """Of its container, or sandbox."""
        return self.fact.container_id

    @property
    def own(self) -> Told | None:
        """The status of its own container."""
        return next((each for each in self.statuses or () if each.id == self.id), None)

    def __str__(self) -> str:
        said = f"{self.fact.type.name} is heard"
        if own := self.own:
            said += f", as {pb.ContainerState.Name(own.state)}"
            if own.state == pb.CONTAINER_EXITED:
                said += f", exit code {own.code}, reason {own.reason or 'none'}"
        return said if self.stream == MAIN else f"{said} by {self.stream}"


class Lists(NamedTuple):
    """Both lists."""

    requested: float
    at: float
    items: tuple[Listed, ...]


class Connected(NamedTuple):
    """A subscriber came (`asked`), is served, or is gone: `why`, "" if it left by itself."""

    at: float
    stream: str
    up: bool
    asked: float = 0.0
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
        how = f"fails after {self.took:.3f} s: {self.error}" if self.error else ""
        return f"{self.call} {how or f'returns after {self.took:.3f} s'}"


class Looked(NamedTuple):
    """What a call showed right after an event; `state`: None if it is gone."""

    at: float
    id: str
    type: EventType
    call: str
    state: ListedState | None

    def __str__(self) -> str:
        shown = self.state.value if self.state else "gone"
        return f"after {self.type.name}, {self.call} shows it {shown}"


Entry = Heard | Lists | Connected | Act | Looked


class Case(NamedTuple):
    """What a container or sandbox was made for: its part of the history, and what it must end with.

    `code`: None if any will do. `ran`: whether its start succeeded; `pod`: its sandbox.
    """

    part: str
    pod: str
    ran: bool = False
    code: int | None = None
    reason: str = ""


@dataclass(slots=True)
class History:
    """All of it. `cases`: by id. `skipped`: parts that were not played, and why.

    `figures`: what else was measured. `findings`: what a ledger made of a recording; None if this
    is none.
    """

    runtime: str = ""
    version: str = ""
    rows: list[Entry] = field(default_factory=list)
    cases: dict[str, Case] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    figures: dict[str, list[float]] = field(default_factory=dict)
    findings: tuple[Finding, ...] | None = None

    def heard(self, stream: str = MAIN) -> Iterator[Heard]:
        """What that subscriber heard of what was made here, in order."""
        rows = (row for row in self.rows if isinstance(row, Heard) and row.stream == stream)
        if self.findings is not None:
            return rows
        return (row for row in rows if row.id in self.cases or row.fact.sandbox_id in self.cases)

    def connected(self) -> list[Connected]:
        """When subscribers came and went."""
        return [row for row in self.rows if isinstance(row, Connected)]

    def acts(self, *calls: str) -> Iterator[Act]:
        """Those calls."""
        return (row for row in self.rows if isinstance(row, Act) and row.call in calls)

    def of(self, part: str) -> dict[str, Case]:
        """The containers of a part, without its sandboxes."""
        return {
            key: case for key, case in self.cases.items() if case.part == part != key != case.pod
        }

    def story(
        self, *ids: str, streams: Sequence[str] = (MAIN,), looks: bool = False
    ) -> tuple[str, ...]:
        """What concerns these, with seconds since the first of it; not the middle of a long one."""
        rows = [row for row in self.rows if _concerns(row, ids, streams)]
        return _lines([row for row in rows if looks or not isinstance(row, Looked)])

    def facts(self) -> Iterator[Fact]:
        """What the main subscriber learnt, as a ledger takes it."""
        before: dict[str, Listed] = {}
        times = [row.at for row in self.rows]
        yield ProfileChosen(min(times, default=0.0), self.runtime, self.version)
        for row in sorted(self.rows, key=lambda row: row.at):
            if isinstance(row, Lists):
                now = {item.id: item for item in row.items}
                changed = tuple(item for key, item in now.items() if before.get(key) != item)
                gone = tuple(key for key in before if key not in now)
                yield Relist(row.requested, row.at, len(now), changed, gone)
                before = now
            elif isinstance(row, Heard) and row.stream == MAIN:
                yield row.fact
            elif isinstance(row, Connected) and row.stream == MAIN:
                if row.up:
                    yield StreamAsked(row.asked)
                yield StreamUp(row.at, row.asked) if row.up else StreamDown(row.at)


def _concerns(row: Entry, ids: tuple[str, ...], streams: Sequence[str]) -> bool:
    if isinstance(row, Lists):
        return False
    if isinstance(row, Connected):
        return row.stream in streams and row.stream != MAIN
    return row.id in ids and (not isinstance(row, Heard) or row.stream in streams)


_SHOWN: Final = 16


def _began(row: Entry) -> float:
    return row.at - row.took if isinstance(row, Act) else row.at


def _lines(rows: Sequence[Entry]) -> tuple[str, ...]:
    timed = sorted((_began(row), number) for number, row in enumerate(rows))
    lines = []
    for at, number in timed:
        row = rows[number]
        whose = "" if isinstance(row, Connected | Lists) else row.id[:12]
        lines.append(f"{at - timed[0][0]:8.3f} s  {whose:12}  {row}")
    if len(lines) > _SHOWN:
        half = _SHOWN // 2
        lines[half:-half] = [f"           ... {len(lines) - _SHOWN} more"]
    return tuple(lines)


def write(history: History, path: Path, wall_ns: int, now: float) -> None:
    """Write what the main subscriber learnt, and a ledger's findings, as a recording."""
    ledger = Ledger(profile_of("", ""), GRACE)
    rows: list[Header | Row] = [
        Header(
            shadow_pleg=__version__,
            grace=GRACE,
            monotonic=now,
            wall_ns=wall_ns,
            redacted=False,
            node="",
        )
    ]
    for fact in history.facts():
        rows += chain(fact_rows(fact), found_rows(ledger.take(fact).findings))
    rows.append(End(STOPPED))
    lines = [line_of(row) for row in rows]
    try:
        with path.open("xb") as file:
            for begin in range(0, len(lines), _MEMBER):
                file.write(member(b"".join(lines[begin : begin + _MEMBER])))
    except OSError as error:
        raise ConfigError(
            f"--history: {str(path)!r} cannot be written ({error.strerror}): name a new file"
        ) from None


def of_recording(recording: Recording) -> History:
    """What a recording shows; its file may be damaged: see `recording.damage`."""
    replay = Replay(recording)
    history, found = History(), list[Finding]()
    listed: dict[str, Listed] = {}
    for fact, outcome in replay:
        found += outcome.findings
        history.rows += _entries(fact, listed)
        if isinstance(fact, ProfileChosen):
            history.runtime, history.version = fact.name, fact.version
    history.findings = tuple(found)
    return history


def _entries(fact: Fact, listed: dict[str, Listed]) -> Iterable[Entry]:
    if isinstance(fact, Announcement):
        return [Heard(fact.received, MAIN, fact)]
    if isinstance(fact, Relist):
        listed.update((item.id, item) for item in fact.changed)
        for key in fact.gone:
            listed.pop(key, None)
        return [Lists(fact.requested, fact.completed, tuple(listed.values()))]
    if isinstance(fact, StreamUp):
        return [Connected(fact.at, MAIN, up=True, asked=fact.asked)]
    if isinstance(fact, StreamDown):
        return [Connected(fact.at, MAIN, up=False)]
    return []
