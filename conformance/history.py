"""What was done to a runtime, and what it announced: rows in the order of their arrival.

The main subscriber's is written as a recording, and a recording is read as a history.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from exporter import __version__
from exporter.cri import runtime_v1_pb2 as pb
from exporter.errors import ConfigError, ShadowPlegError
from exporter.model.events import ANNOUNCED_BY, Announcement, EventType, Lifecycle, ObjectKind
from exporter.model.facts import Fact, ProfileChosen, Relist, StreamAsked, StreamDown, StreamUp
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Never
from exporter.pleg.ledger import Ledger
from exporter.recording.recorder import Recorder
from exporter.recording.rows import Header
from exporter.runtimes.known import profile_of
from exporter.settings.files import open_file
from replay.reader import Recording
from replay.replayer import Replay

# The subscriber that hears the whole history, and one that comes when others are subscribed.
MAIN: Final = "main"
LATER: Final = "shared-later"
# A story that is too long shows only this many of its first lines, and of its last.
_SHOWN: Final = 8
# Of the ledger that a recording is written with, in seconds.
_GRACE: Final = 2.0
# The part of a run that would show the same loss; "": none, or not for certain. Else `plain`.
_PARTS: Final[dict[Cause | Never | None, str]] = {
    Cause.STREAM_DOWN: "restart",
    Cause.DISCARDED: "restart",
    Cause.STALLED: "",
    Cause.SHARED: "",
    Never.DELETED_BELOW: "",
    Never.FAILED_START: "failed-start",
    Never.FAILED_START_REMOVED: "failed-start",
    Never.REMOVED_WITH_SANDBOX: "pod-removal",
    Never.FORCED_REMOVAL: "pod-removal",
}


class Heard(NamedTuple):
    """An event that a subscriber heard. `statuses`: of its pod's containers; None if not known."""

    at: float
    stream: str
    fact: Announcement
    statuses: tuple[pb.ContainerStatus, ...] | None = None

    @property
    def id(self) -> str:
        """The id of the event's container or sandbox."""
        return self.fact.container_id

    @property
    def own(self) -> pb.ContainerStatus | None:
        """The status of the event's own container."""
        return next((each for each in self.statuses or () if each.id == self.id), None)

    def __str__(self) -> str:
        said = f"{self.fact.type.name} is heard"
        said += f" as {pb.ContainerState.Name(self.own.state)}" if self.own else ""
        if self.fact.exit_code is not None:
            said += f", exit code {self.fact.exit_code}, reason {self.fact.reason or '(none)'}"
        return said if self.stream == MAIN else f"{said} by {self.stream}"


class Connected(NamedTuple):
    """The subscriber named `id` came (`up`) or left. `why`: what is unusual about that."""

    at: float
    id: str
    up: bool
    why: str = ""

    def __str__(self) -> str:
        how = "is subscribed" if self.up else "is no longer subscribed"
        return f"{how}{self.why and f': {self.why}'}"


class Act(NamedTuple):
    """A call that changes something. `took`: its seconds. `error`: "" if it succeeded."""

    at: float
    took: float
    call: str
    id: str
    error: str = ""

    def __str__(self) -> str:
        how = f": {self.error}" if self.error else ""
        return f"{self.call} {'fails' if self.error else 'returns'} after {self.took:.3f} s{how}"


class Shown(NamedTuple):
    """An observation that is no event. `of`: its judge. `wrong`: whether it is a breach."""

    at: float
    id: str
    of: str
    text: str
    wrong: bool

    def __str__(self) -> str:
        return self.text


class Case(NamedTuple):
    """What a container or sandbox was made for: a part of the run, and how it has to end.

    `pod`: its sandbox. `owed`: the events that are due. `exit_code`, `reason`: None for any.
    """

    part: str
    pod: str
    owed: tuple[EventType, ...] = ()
    exit_code: int | None = None
    reason: str | None = None


UNKNOWN: Final = Case("", "")


class Life(NamedTuple):
    """What one subscriber heard of a container or sandbox, and the last call of each name."""

    id: str
    case: Case
    heard: list[Heard]
    acts: dict[str, Act]

    @property
    def kinds(self) -> list[EventType]:
        """The types of its events, in order."""
        return [heard.fact.type for heard in self.heard]

    @property
    def missing(self) -> list[EventType]:
        """The events that are due and did not come."""
        return [kind for kind in self.case.owed if kind not in self.kinds]

    @property
    def end(self) -> Heard | None:
        """Its STOPPED."""
        return next((h for h in self.heard if h.fact.type is EventType.STOPPED), None)


@dataclass
class History:
    """All rows of a run. `cases`: by id. `skipped`: parts that were not played, and why.

    `proven`: a recording does not say what was done; this has the lives that a ledger proves, each
    with the event that it owes. None if the history is not from a recording.
    """

    runtime: str = ""
    version: str = ""
    rows: list[Heard | Relist | Connected | Act | Shown] = field(default_factory=list)
    cases: dict[str, Case] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    proven: list[Life] | None = None

    def heard(self, stream: str = MAIN) -> Iterator[Heard]:
        """The events of what was made in this run, in the order that subscriber heard them."""
        rows = (r for r in self.rows if isinstance(r, Heard) and r.stream == stream)
        return (row for row in rows if self.case(row).part)

    def case(self, heard: Heard) -> Case:
        """The case of the event's object; if that was never made, its pod's part."""
        pod = heard.fact.pod.name if heard.fact.pod else ""
        around = self.cases.get(heard.fact.sandbox_id) or self.cases.get(pod, UNKNOWN)
        return self.cases.get(heard.id) or Case(around.part, around.pod)

    def part(self, act: Act) -> str:
        """The part to which the object of a call belongs."""
        return self.cases.get(act.id, UNKNOWN).part

    def lives(self, stream: str = MAIN) -> dict[str, Life]:
        """The life of each container and sandbox, as that subscriber heard it."""
        found = {key: Life(key, case, [], {}) for key, case in self.cases.items()}
        for heard in self.heard(stream):
            empty = Life(heard.id, self.case(heard), [], {})
            found.setdefault(heard.id, empty).heard.append(heard)
        for act in self.acts():
            if act.id in found:
                found[act.id].acts[act.call] = act
        return found

    def of(self, parts: Sequence[str], stream: str = MAIN) -> list[Life]:
        """The lives of the containers of these parts."""
        lives = self.lives(stream).values() if self.proven is None else self.proven
        return [life for life in lives if life.case.part in parts and life.id != life.case.pod]

    def acts(self) -> Iterator[Act]:
        """All calls that changed something."""
        return (row for row in self.rows if isinstance(row, Act))

    def connected(self, name: str) -> list[Connected]:
        """When the subscribers whose names begin with `name` came and left."""
        return [r for r in self.rows if isinstance(r, Connected) and r.id.startswith(name)]

    def story(self, *ids: str, stream: str = MAIN) -> tuple[str, ...]:
        """The rows about these ids, with seconds since the first row; a long story has no middle.

        Rows about the main subscriber itself appear only between the first and the last other row.
        """
        about = (row for row in self.rows if not isinstance(row, Relist))
        told = [
            r for r in about if r.id in (*ids, stream) and getattr(r, "stream", stream) == stream
        ]
        told.sort(key=lambda row: row.at)
        while told and told[0].id == MAIN:
            del told[0]
        while told and told[-1].id == MAIN:
            del told[-1]
        lines = [f"{row.at - told[0].at:8.3f} s  {row.id[:12]:12}  {row}" for row in told]
        if (more := len(lines) - 2 * _SHOWN) > 0:
            lines[_SHOWN:-_SHOWN] = [f"            ... {more} more lines"]
        return tuple(lines)


def write(facts: Iterable[Fact], path: Path) -> None:
    """Write the facts, and a ledger's findings about them; ConfigError if that fails."""
    ledger = Ledger(profile_of("", ""), _GRACE)
    header = Header(
        shadow_pleg=__version__,
        grace=_GRACE,
        monotonic=time.monotonic(),
        wall_ns=time.time_ns(),
        redacted=False,
        node="",
    )
    try:
        recorder = Recorder(path, sys.maxsize, header, on_end=lambda: None)
    except ConfigError as error:
        # The message names flags of `record`.
        said = str(error).removeprefix("--output").removesuffix(", or add --force")
        raise ConfigError(f"--history{said}") from None
    for fact in facts:
        recorder.hear(fact, ledger.judge(fact))
    recorder.end()
    if recorder.failure:
        raise ConfigError(f"--history: {str(path)!r}: {recorder.failure}")


def facts_of(history: History) -> Iterator[Fact]:
    """The lists, and the events of the main subscriber, as facts."""
    begin = next((row.requested for row in history.rows if isinstance(row, Relist)), 0.0)
    yield ProfileChosen(begin, history.runtime, history.version)
    for row in history.rows:
        if isinstance(row, Relist):
            yield row
        elif isinstance(row, Heard) and row.stream == MAIN:
            if row.fact.pod or history.case(row).part:
                yield row.fact
        elif isinstance(row, Connected) and row.id == MAIN:
            if row.up:
                yield StreamAsked(row.at)
            yield StreamUp(row.at, row.at) if row.up else StreamDown(row.at)


def read(path: Path) -> History:
    """The history in a recording; ConfigError if it cannot be read to its end."""
    try:
        with open_file(path) as file:
            recording = Recording(file)
            history = _history(Replay(recording))
    except (OSError, ValueError, ShadowPlegError) as error:
        raise ConfigError(f"--recording: {str(path)!r} cannot be read: {error}") from None
    if recording.damage:
        raise ConfigError(f"--recording: {str(path)!r} is damaged: {recording.damage}")
    return history


def _history(replay: Replay) -> History:
    history, findings = History(), list[Finding]()
    for fact, outcome in replay:
        findings += outcome.findings
        if isinstance(fact, Announcement):
            history.rows.append(Heard(fact.received, MAIN, fact))
            history.cases[fact.container_id] = Case("plain", "")
        elif isinstance(fact, StreamUp | StreamDown):
            history.rows.append(Connected(fact.at, MAIN, up=isinstance(fact, StreamUp)))
        elif isinstance(fact, ProfileChosen):
            history.runtime, history.version = fact.name, fact.version
    seen = {(f.container_id, f.event, f.kind) for f in findings if f.verdict is Verdict.WITNESSED}
    for key, event, kind in seen:
        # Lists showed both its beginning and its end.
        is_whole = event is Lifecycle.REMOVED and (key, Lifecycle.STARTED, kind) in seen
        if is_whole and kind is ObjectKind.SANDBOX:
            history.cases[key] = Case("plain", key)
    history.proven = [*_proven(history.lives(), findings)]
    return history


def _proven(lives: dict[str, Life], findings: list[Finding]) -> Iterator[Life]:
    """A life for each event that the ledger judged; it owes the event, unless that came."""
    for each in findings:
        part = _PARTS.get(each.rule, "plain") if each.kind is ObjectKind.CONTAINER else ""
        if isinstance(each.cause, Cause):
            part = _PARTS.get(each.cause, part)
        if part and each.verdict in (Verdict.MISSED, Verdict.GAP, Verdict.CONFIRMED):
            owed = () if each.verdict is Verdict.CONFIRMED else (ANNOUNCED_BY[each.event],)
            heard = lives[each.container_id].heard if each.container_id in lives else []
            yield Life(each.container_id, Case(part, "", owed), heard, {})
