"""The lines of a recording, version 1, as JSON (docs/evidence.md).

A line is a fact, or what goes with facts: its word, and the fields of its class. Invariant: a line
that does not match its class exactly is a `FormError`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple, NoReturn, cast

import msgspec

from exporter.errors import FormError
from exporter.model import facts
from exporter.model.events import Announcement, Lifecycle, Listed, ObjectKind
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Flaw

FORMAT: Final = "shadow-pleg recording"
VERSION: Final = 1
# Items per line: a line is read and written as a whole.
_ITEMS: Final = 256
# Beyond anything that a node's clocks and counts can show.
_LARGEST: Final = 2**63
_CAUSES: Final = rf"^({'|'.join(each.value for each in (*Cause, *Flaw))})\Z"
# json.dumps() would make an encoder for each line.
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A recording's first line. `monotonic` and `wall_ns` are of the same moment."""

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
    """A part of the relist that follows: items newly listed or changed, and ids gone."""

    changed: tuple[Listed, ...] = ()
    gone: tuple[str, ...] = ()


class RecordedFinding(NamedTuple):
    """One finding as it was reached live, without the fields that only serve a log line."""

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
    """The last line of a recording that ended in an orderly way, and why it ended."""

    why: str


Row = facts.Fact | Changes | Found | End
# Each line's word, which is its field `f`.
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
    facts.Inquired: "inquired",
    facts.CgroupChanged: "cgroup",
    facts.CgroupsRead: "cgroups_read",
    facts.CgroupsLost: "cgroups_lost",
    facts.Believed: "believed",
    facts.BeliefsShown: "beliefs_shown",
    facts.BeliefsLost: "beliefs_lost",
    facts.ProfileChosen: "profile",
    Found: "found",
    End: "end",
}
_KINDS: Final = {word: kind for kind, word in WORDS.items()}


def line_of(row: Row | Header) -> bytes:
    """A row's line, with its end, in ASCII. Lone surrogates are preserved."""
    fields = msgspec.to_builtins(row._asdict() if isinstance(row, Announcement) else row)
    word = {} if isinstance(row, Header) else {"f": WORDS[type(row)]}
    return _encode(word | fields).encode("ascii") + b"\n"


def recorded(finding: Finding) -> RecordedFinding:
    """What a recording keeps of a finding."""
    verdict, event, kind, container_id, *_ = finding
    cause = finding.cause and finding.cause.value
    return RecordedFinding(verdict, event, kind, container_id, cause)


def found_rows(findings: Sequence[Finding]) -> Iterator[Found]:
    """The rows of the preceding fact's findings."""
    for begin in range(0, len(findings), _ITEMS):
        yield Found(tuple(map(recorded, findings[begin : begin + _ITEMS])))


def fact_rows(fact: facts.Fact) -> Iterator[facts.Fact | Changes]:
    """The rows of a fact; of a relist with many changes, its own comes last, without them."""
    if isinstance(fact, facts.Relist) and max(len(fact.changed), len(fact.gone)) > _ITEMS:
        for begin in range(0, len(fact.changed), _ITEMS):
            yield Changes(changed=fact.changed[begin : begin + _ITEMS])
        for begin in range(0, len(fact.gone), _ITEMS):
            yield Changes(gone=fact.gone[begin : begin + _ITEMS])
        fact = replace(fact, changed=(), gone=())
    yield fact


def header_of(line: bytes) -> Header:
    """Parse the first line; FormError names an unsupported format or version."""
    document = _document(line)
    if document.get("format") != FORMAT:
        raise FormError("this is not a shadow-pleg recording")
    if document.get("version") != VERSION:
        raise FormError(f"it has version {document.get('version')}, this program reads {VERSION}")
    header: Header = _converted(document, Header)
    if header.grace < 0:
        raise FormError("its grace is negative")
    return header


def row_of(line: bytes) -> Row:
    """Parse any other line."""
    document = _document(line)
    word = document.get("f")
    kind = _KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise FormError(f"it is no line of a recording: its word is {word!r:.40}")
    if kind is not Announcement:
        return cast("Row", _converted(document, kind))
    if missing := [name for name in Announcement._fields if name not in document]:
        raise FormError(f"Object missing required field `{missing[0]}`")
    event = [document[name] for name in Announcement._fields]
    return cast("Row", _converted(event, kind))


def _document(line: bytes) -> dict[str, Any]:
    try:
        # Not by msgspec, which refuses lone surrogates.
        document = json.loads(
            line, parse_int=_whole, parse_float=_within, parse_constant=_no_number
        )
    except OverflowError as error:
        raise FormError(str(error)) from None
    except (ValueError, RecursionError):
        raise FormError("it is not JSON") from None
    if not isinstance(document, dict):
        raise FormError("it is no JSON object")
    return document


def _converted(document: object, kind: type) -> Any:  # noqa: ANN401 - an instance of `kind`
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise FormError(str(error)) from None


def _whole(text: str) -> int:
    _within(text)
    return int(text)


def _within(text: str) -> float:
    number = float(text)
    if not -_LARGEST <= number <= _LARGEST:
        raise OverflowError(f"its number {text:.40} is out of range")
    return number


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
