"""The lines of a recording, version 1, as rows of JSON (docs/evidence.md).

Each row is the schema of its line. Law: a line that does not match its schema exactly is a
`FormError`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import Annotated, Any, Final, NamedTuple, NoReturn, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from exporter.errors import FormError
from exporter.model import facts
from exporter.model.events import (
    Announcement,
    EventType,
    Inquiry,
    Lifecycle,
    ListedState,
    ObjectKind,
)
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Never
from exporter.runtimes.known import profile_of

FORMAT: Final = "shadow-pleg recording"
VERSION: Final = 1
# Items per line: a line is read and written as a whole.
_ITEMS: Final = 256
# json.dumps() would make an encoder for each line.
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
WHAT: Final = {
    facts.StreamAsked: "asked",
    facts.StreamUp: "up",
    facts.StreamUnproven: "unproven",
    facts.StreamDown: "down",
    facts.StreamRefused: "refused",
}


def _one_of(words: Iterable[str]) -> Meta:
    return Meta(pattern=rf"^({'|'.join(words)})\Z")


# Beyond anything that a node's clocks can show.
_Seconds = Annotated[float, Meta(ge=-1e12, le=1e12)]
_Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
PodRow = tuple[str, str, str]


class _ListedRow(NamedTuple):
    """A `Listed`."""

    id: str
    kind: ObjectKind
    state: ListedState
    sandbox_id: str
    name: str
    pod: PodRow | None
    elsewhere: bool = False


class _Version(Struct):
    format: str = ""
    version: _Integer = 0


class Header(_Version, kw_only=True, rename={"wall_ns": "wall"}):
    """A recording's first line. `monotonic` and `wall_ns` are of the same moment."""

    format: str = FORMAT
    version: _Integer = VERSION
    shadow_pleg: str
    grace: Annotated[float, Meta(ge=0, le=1e12)]
    monotonic: _Seconds
    wall_ns: _Integer
    redacted: bool
    node: str


class _Row(Struct, tag_field="f"):
    """A line after the first; `f` says which."""


class EventRow(
    _Row,
    tag="event",
    rename={
        "received": "at",
        "container_id": "id",
        "created_at_ns": "made",
        "sandbox_id": "sandbox",
        "received_wall_ns": "wall",
        "ended_ns": "ended",
    },
):
    """An `Announcement`."""

    received: _Seconds
    container_id: str
    type: Annotated[str, _one_of(EventType.__members__)]
    created_at_ns: _Integer
    kind: ObjectKind | None
    sandbox_id: str
    pod: PodRow | None
    stream: _Integer
    received_wall_ns: _Integer
    ended_ns: _Integer | None = None


class ChangesRow(_Row, tag="changes"):
    """A part of the relist that follows: items newly listed or changed, and ids gone."""

    listed: Sequence[_ListedRow]
    gone: Sequence[str]


class RelistRow(_Row, tag="relist"):
    """The last row of a relist."""

    requested: _Seconds
    completed: _Seconds
    wall: _Integer
    listed: Annotated[int, Meta(ge=0, le=1_000_000)]


class StreamRow(_Row, tag="stream"):
    """A change of the subscription; `began` only if it is asked or up."""

    at: _Seconds
    what: Annotated[str, _one_of(WHAT.values())]
    began: _Integer | UnsetType = UNSET


class DiscardedRow(_Row, tag="discarded"):
    """Events that were discarded."""

    at: _Seconds
    until: _Seconds | None
    events: _Integer


class InquiredRow(_Row, tag="inquired"):
    """An answer of `ContainerStatus`."""

    at: _Seconds
    id: str
    answer: Inquiry


class CgroupRow(
    _Row, tag="cgroup", rename={"container_id": "id", "pod_uid": "pod", "at_wall_ns": "wall"}
):
    """A `CgroupChanged`."""

    container_id: str
    pod_uid: str
    populated: bool
    at: _Seconds
    at_wall_ns: _Integer


class CgroupsRow(_Row, tag="cgroups"):
    """All cgroups were read from `at` on, or cannot be observed any more."""

    at: _Seconds
    what: Annotated[str, _one_of(("read", "lost"))]


class ProfileRow(_Row, tag="profile"):
    """The runtime; `stream` and `never`, of the recorder's profile, are for information."""

    at: _Seconds
    name: str
    version: str
    stream: str
    never: list[Annotated[str, _one_of(Never.__members__)]]


class RecordedFinding(NamedTuple):
    """One finding as it was reached live, without the fields that only serve a log line."""

    verdict: Verdict
    event: Annotated[str, _one_of(event.label for event in Lifecycle)]
    kind: ObjectKind
    container_id: str
    cause: Cause | None


class FoundRow(_Row, tag="found"):
    """The findings of the preceding fact."""

    findings: list[RecordedFinding]


class End(_Row, tag="end"):
    """The last line of a recording that ended in an orderly way, and why it ended."""

    why: str


# A row that is a fact by itself.
SingleRow = EventRow | StreamRow | DiscardedRow | InquiredRow | CgroupRow | CgroupsRow | ProfileRow
FactRow = SingleRow | ChangesRow | RelistRow
Row = FactRow | FoundRow | End


# --- writing ------------------------------------------------------------------


def line_of(row: Row | Header) -> bytes:
    """A row's line, with its end, in ASCII. Lone surrogates are preserved."""
    return _encode(msgspec.to_builtins(row)).encode("ascii") + b"\n"


def recorded(finding: Finding) -> RecordedFinding:
    """What a recording keeps of a finding."""
    return RecordedFinding(
        finding.verdict, finding.event.label, finding.kind, finding.container_id, finding.cause
    )


def found_rows(findings: Sequence[Finding]) -> Iterator[FoundRow]:
    """The rows of the preceding fact's findings."""
    for begin in range(0, len(findings), _ITEMS):
        yield FoundRow([recorded(finding) for finding in findings[begin : begin + _ITEMS]])


def fact_rows(fact: facts.Fact) -> Iterator[FactRow]:
    """The rows of a fact; a relist with changes takes several, and its own is the last."""
    match fact:
        case Announcement():
            yield EventRow(**fact._asdict() | {"type": fact.type.name})
        case facts.Relist():
            yield from _relist_rows(fact)
        case facts.StreamAsked(at, began_ns) | facts.StreamUp(at, began_ns):
            yield StreamRow(at, WHAT[type(fact)], began_ns)
        case facts.StreamUnproven(at) | facts.StreamDown(at) | facts.StreamRefused(at):
            yield StreamRow(at, WHAT[type(fact)])
        case facts.Discarded(at, until, events):
            yield DiscardedRow(at, until, events)
        case facts.Inquired(at, container_id, answer):
            yield InquiredRow(at, container_id, answer)
        case facts.CgroupChanged():
            yield CgroupRow(*astuple(fact))
        case facts.CgroupsRead(at) | facts.CgroupsLost(at):
            yield CgroupsRow(at, "read" if isinstance(fact, facts.CgroupsRead) else "lost")
        case facts.ProfileChosen(at, name, version):
            profile = profile_of(name, version)
            never = sorted(rule.name for rule in profile.never)
            yield ProfileRow(at, name, version, profile.stream.value, never)


def _relist_rows(relist: facts.Relist) -> Iterator[FactRow]:
    for begin in range(0, len(relist.changed), _ITEMS):
        items = [_ListedRow(*item) for item in relist.changed[begin : begin + _ITEMS]]
        yield ChangesRow(items, ())
    for begin in range(0, len(relist.gone), _ITEMS):
        yield ChangesRow((), relist.gone[begin : begin + _ITEMS])
    yield RelistRow(relist.requested, relist.completed, relist.requested_wall_ns, relist.listed)


# --- reading ------------------------------------------------------------------


def header_of(line: bytes) -> Header:
    """Parse the first line; FormError names an unsupported format or version."""
    stamp: _Version = _parsed(line, _Version)
    if stamp.format != FORMAT:
        raise FormError("this is no recording of shadow-pleg")
    if stamp.version != VERSION:
        raise FormError(f"it has version {stamp.version}, this program reads {VERSION}")
    header: Header = _parsed(line, Header)
    return header


def row_of(line: bytes) -> Row:
    """Parse any other line."""
    return cast("Row", _parsed(line, Row))


def _parsed(line: bytes, kind: object) -> Any:  # noqa: ANN401 - an instance of `kind`
    try:
        # Not by msgspec, which refuses lone surrogates.
        document = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise FormError("it is not JSON") from None
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise FormError(str(error)) from None


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
