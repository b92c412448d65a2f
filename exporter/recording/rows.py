"""The JSON lines of a recording, version 1 (docs/evidence.md): a word, and a class's fields."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, NamedTuple

import msgspec

from exporter.model import facts
from exporter.model.events import Announcement, Lifecycle, Listed, ObjectKind
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Flaw, OomKill

FORMAT: Final = "shadow-pleg recording"
VERSION: Final = 1
# Items per line; a line is read and written as a whole.
_ITEMS: Final = 256
_CAUSES: Final = rf"^({'|'.join(each.value for each in (*Cause, *Flaw, *OomKill))})\Z"
# json.dumps() would create an encoder for each line.
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A recording's first line. `monotonic` and `wall_ns` are the same moment on two clocks."""

    format: str = FORMAT
    version: int = VERSION
    shadow_pleg: str
    grace: float
    monotonic: float
    wall_ns: int
    redacted: bool
    node: str


@dataclass(frozen=True, slots=True)
class Changes:
    """Some of the changes of the relist that follows."""

    changed: tuple[Listed, ...] = ()
    gone: tuple[str, ...] = ()


class RecordedFinding(NamedTuple):
    """A finding without the fields that only serve a log line."""

    verdict: Verdict
    event: Lifecycle
    kind: ObjectKind
    container_id: str
    cause: Annotated[str, msgspec.Meta(pattern=_CAUSES)] | None


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of the preceding fact."""

    findings: tuple[RecordedFinding, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The last line of a complete recording. `why`: the reason for its end."""

    why: str


Row = facts.Fact | Changes | Found | End
# The word that names a line's class, in its field `f`.
WORDS: Final[dict[type, str]] = {
    Announcement: "event",
    Changes: "changes",
    facts.Relist: "relist",
    facts.StreamAsked: "asked",
    facts.StreamUp: "up",
    facts.StreamUnproven: "unproven",
    facts.StreamDown: "down",
    facts.StreamRefused: "refused",
    facts.Discarded: "discarded",
    facts.Unread: "unread",
    facts.Inquired: "inquired",
    facts.CgroupChanged: "cgroup",
    facts.CgroupsRead: "cgroups_read",
    facts.CgroupsLost: "cgroups_lost",
    facts.Killed: "killed",
    facts.KillsCounted: "kills_counted",
    facts.Believed: "believed",
    facts.BeliefsShown: "beliefs_shown",
    facts.BeliefsLost: "beliefs_lost",
    facts.ProfileChosen: "profile",
    facts.ClockSet: "clock_set",
    Found: "found",
    End: "end",
}


def line_of(row: Row | Header) -> bytes:
    """A row as a line of ASCII, with its line break. Lone surrogates are preserved."""
    fields = msgspec.to_builtins(row._asdict() if isinstance(row, Announcement) else row)
    word = {} if isinstance(row, Header) else {"f": WORDS[type(row)]}
    return _encode(word | fields).encode("ascii") + b"\n"


def recorded(finding: Finding) -> RecordedFinding:
    """What a recording keeps of a finding."""
    return RecordedFinding(
        finding.verdict,
        finding.event,
        finding.kind,
        finding.container_id,
        finding.cause and finding.cause.value,
    )


def found_rows(findings: Sequence[Finding]) -> Iterator[Found]:
    """The rows of the preceding fact's findings."""
    for begin in range(0, len(findings), _ITEMS):
        yield Found(tuple(map(recorded, findings[begin : begin + _ITEMS])))


def fact_rows(fact: facts.Fact) -> Iterator[facts.Fact | Changes]:
    """The rows of a fact; if a relist has many changes, their rows come before its own."""
    if isinstance(fact, facts.Relist) and max(len(fact.changed), len(fact.gone)) > _ITEMS:
        for begin in range(0, len(fact.changed), _ITEMS):
            yield Changes(changed=fact.changed[begin : begin + _ITEMS])
        for begin in range(0, len(fact.gone), _ITEMS):
            yield Changes(gone=fact.gone[begin : begin + _ITEMS])
        fact = replace(fact, changed=(), gone=())
    yield fact
