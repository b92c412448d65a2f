"""What was done to a runtime, and what it said: rows in the order in which they were learnt.

A recording of `shadow-pleg record` is one, too, but does not say what was done. What one subscriber
heard is written as a recording, which `replay` explains.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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

# The subscriber that hears the whole history, and one that comes when others are there.
MAIN: Final = "main"
LATER: Final = "shared-later"
_GRACE: Final = 2.0
_MEMBER_LINES: Final = 256
_SHOWN: Final = 16


class Told(NamedTuple):
    """A container's status in an event. `state`: a number of the CRI's ContainerState."""

    id: str
    state: int
    started_ns: int


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
        said += f" as {pb.ContainerState.Name(self.own.state)}" if self.own else ""
        if self.fact.exit_code is not None:
            said += f", exit code {self.fact.exit_code}, reason {self.fact.reason or '(none)'}"
        return said if self.stream == MAIN else f"{said} by {self.stream}"


class Lists(NamedTuple):
    """Both lists."""

    requested: float
    at: float
    items: tuple[Listed, ...]


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
    """What a container or sandbox was made for: a part of the run, and how it has to end.

    `pod`: its sandbox. `ran`: whether it was started. `exit_code`, `reason`: None and "" for any.
    """

    part: str
    pod: str
    ran: bool = False
    exit_code: int | None = None
    reason: str = ""


@dataclass
class History:
    """All of it. `cases`: by id. `skipped`: parts that were not played, and why.

    `figures`: what else was measured. `findings`: a ledger's, of a recording; None if it is none.
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
        for row in self.rows:
            if isinstance(row, Heard) and row.stream == stream and self._is_ours(row):
                yield row

    def _is_ours(self, heard: Heard) -> bool:
        """Of an event that names no pod only its container tells."""
        ours = heard.id in self.cases or heard.fact.sandbox_id in self.cases
        return ours or self.findings is not None

    @cached_property
    def lives(self) -> dict[str, list[Heard]]:
        """What the main subscriber heard of each; only once all is over."""
        found: dict[str, list[Heard]] = {}
        for heard in self.heard():
            found.setdefault(heard.id, []).append(heard)
        return found

    def kinds(self, key: str) -> list[EventType]:
        """What was announced of it, in order."""
        return [heard.fact.type for heard in self.lives[key]]

    def kinds_by_id(self, stream: str = MAIN) -> dict[str, set[EventType]]:
        """What was announced of each."""
        found: dict[str, set[EventType]] = {}
        for heard in self.heard(stream):
            found.setdefault(heard.id, set()).add(heard.fact.type)
        return found

    def acts(self, *calls: str) -> Iterator[Act]:
        """Those calls."""
        return (row for row in self.rows if isinstance(row, Act) and row.call in calls)

    def connected(self) -> list[Connected]:
        """When subscribers came and went."""
        return [row for row in self.rows if isinstance(row, Connected)]

    def streams(self, part: str) -> list[str]:
        """The subscribers of a part."""
        names = dict.fromkeys(each.stream for each in self.connected())
        return [name for name in names if name.startswith(part)]

    def of(self, part: str) -> dict[str, Case]:
        """The containers of a part, without its sandboxes."""
        return {key: c for key, c in self.cases.items() if c.part == part and key != c.pod}

    @cached_property
    def _listed_exited(self) -> set[str]:
        lists = (row for row in self.rows if isinstance(row, Lists))
        return {i.id for each in lists for i in each.items if i.state is ListedState.EXITED}

    def owed(self, key: str, *, over: bool = True) -> list[EventType]:
        """What has to be announced of a container that is gone; `over`: that all is over."""
        kinds = [EventType.CREATED, EventType.STARTED, EventType.STOPPED, EventType.DELETED]
        if not self.cases[key].ran:
            kinds.remove(EventType.STARTED)
            if not over or key not in self._listed_exited:
                kinds.remove(EventType.STOPPED)
        return kinds

    def is_whole(self, key: str) -> bool:
        """Whether that sandbox lived from beginning to end before a single subscriber."""
        if self.findings is None:
            others = ("probe", "shared", "frozen", "leavers", "nobody", "restart", "failed-network")
            return key in self.cases and self.cases[key].part not in others
        lists = [row for row in self.rows if isinstance(row, Lists)]
        shown = [any(item.id == key for item in each.items) for each in lists]
        return any(shown) and not shown[0] and not shown[-1]

    def story(
        self, *ids: str, streams: Sequence[str] = (MAIN,), looks: bool = False
    ) -> tuple[str, ...]:
        """What concerns these, with seconds since the first of it; not the middle of a long one."""
        rows = []
        for row in self.rows:
            if isinstance(row, Connected):
                concerns = row.stream in streams and row.stream != MAIN
            elif isinstance(row, Heard):
                concerns = row.id in ids and row.stream in streams
            else:
                concerns = not isinstance(row, Lists) and row.id in ids
            if concerns and (looks or not isinstance(row, Looked)):
                rows.append((row.at - row.took if isinstance(row, Act) else row.at, row))
        mine = [at for at, _ in rows]
        main = [each for each in self.connected() if each.stream == MAIN]
        rows += [(each.at, each) for each in main if mine and min(mine) < each.at < max(mine)]
        rows.sort(key=lambda timed: timed[0])
        lines = []
        for at, row in rows:
            whose = "" if isinstance(row, Connected | Lists) else row.id[:12]
            lines.append(f"{at - rows[0][0]:8.3f} s  {whose:12}  {row}")
        if len(lines) > _SHOWN:
            half = _SHOWN // 2
            lines[half:-half] = [f"            ... {len(lines) - 2 * half} more lines"]
        return tuple(lines)

    def facts(self) -> Iterator[Fact]:
        """What the main subscriber learnt, as a ledger takes it."""
        before: dict[str, Listed] = {}
        rows = sorted(self.rows, key=lambda row: row.at)
        yield ProfileChosen(rows[0].at if rows else 0.0, self.runtime, self.version)
        for row in rows:
            if isinstance(row, Lists):
                now = {item.id: item for item in row.items}
                changed = tuple(item for key, item in now.items() if before.get(key) != item)
                gone = tuple(key for key in before if key not in now)
                yield Relist(row.requested, row.at, len(now), changed, gone)
                before = now
            elif isinstance(row, Heard):
                if row.stream == MAIN and (row.fact.pod or self._is_ours(row)):
                    yield row.fact
            elif isinstance(row, Connected) and row.stream == MAIN:
                if row.up:
                    yield StreamAsked(row.at)
                yield StreamUp(row.at, row.at) if row.up else StreamDown(row.at)


def write(history: History, path: Path, header: Header) -> None:
    """Write what the main subscriber learnt, and a ledger's findings; ConfigError if it fails."""
    ledger = Ledger(profile_of("", ""), header.grace)
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


def header_of(monotonic: float, wall_ns: int) -> Header:
    """A recording's first line; both clocks at one moment."""
    return Header(
        shadow_pleg=__version__,
        grace=_GRACE,
        monotonic=monotonic,
        wall_ns=wall_ns,
        redacted=False,
        node="",
    )


def of_recording(recording: Recording) -> History:
    """What a recording shows, up to its damage."""
    history, found, listed = History(), list[Finding](), dict[str, Listed]()
    for fact, outcome in Replay(recording):
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
        return [Connected(fact.at, MAIN, up=True)]
    return [Connected(fact.at, MAIN, up=False)] if isinstance(fact, StreamDown) else []
