"""Encodes facts and findings as the recording's JSON lines (docs/recording-format.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from exporter.pleg.events import Announcement, Lifecycle, Listed, ObjectKind
from exporter.pleg.facts import (
    Discarded,
    Inquired,
    ProfileChosen,
    RecordedFact,
    Relisted,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUp,
)
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.profiles import profile_of

FORMAT: Final = "shadow-pleg recording"
VERSION: Final = 1
# Items per line: a line is read and written as a whole.
_ITEMS: Final = 256

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Header:
    """A recording's first line. `monotonic` and `wall_ns` are of the same moment."""

    shadow_pleg: str
    grace: float
    monotonic: float
    wall_ns: int
    redacted: bool
    node: str


@dataclass(frozen=True, slots=True)
class End:
    """The last line of a recording that ended in an orderly way, and why it ended."""

    why: str


@dataclass(frozen=True, slots=True)
class RecordedFinding:
    """One finding as it was reached live, with all distinguishing fields."""

    verdict: Verdict
    event: Lifecycle
    kind: ObjectKind
    container_id: str
    cause: Cause | None


def found_of(finding: Finding) -> RecordedFinding:
    """A finding without the fields that only serve a log line."""
    return RecordedFinding(
        finding.verdict, finding.event, finding.kind, finding.container_id, finding.cause
    )


def text_of(document: Document) -> bytes:
    """One line, with its end. Lone surrogates are preserved."""
    return json.dumps(document, separators=(",", ":")).encode("ascii") + b"\n"


def header_line(header: Header) -> Document:
    """The first line."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "shadow_pleg": header.shadow_pleg,
        "grace": header.grace,
        "monotonic": header.monotonic,
        "wall": header.wall_ns,
        "redacted": header.redacted,
        "node": header.node,
    }


def end_line(why: str) -> Document:
    """The last line."""
    return {"f": "end", "why": why}


def found_lines(findings: Sequence[Finding]) -> Iterator[Document]:
    """The findings of the preceding fact."""
    for begin in range(0, len(findings), _ITEMS):
        rows = [
            [
                finding.verdict.value,
                finding.event.label,
                finding.kind.value,
                finding.container_id,
                finding.cause.value if finding.cause is not None else None,
            ]
            for finding in findings[begin : begin + _ITEMS]
        ]
        yield {"f": "found", "findings": rows}


def fact_lines(fact: RecordedFact) -> Iterator[Document]:
    """The lines of a fact; a relist with changes takes several, and its own line is the last."""
    match fact:
        case Announcement():
            yield _event_line(fact)
        case Relisted():
            yield from _relist_lines(fact)
        case StreamAsked(at, began_ns):
            yield {"f": "stream", "at": at, "what": "asked", "began": began_ns}
        case StreamUp(at, began_ns):
            yield {"f": "stream", "at": at, "what": "up", "began": began_ns}
        case StreamDown(at):
            yield {"f": "stream", "at": at, "what": "down"}
        case StreamRefused(at):
            yield {"f": "stream", "at": at, "what": "refused"}
        case Discarded(at, until, events):
            yield {"f": "discarded", "at": at, "until": until, "events": events}
        case Inquired(at, container_id, answer):
            yield {"f": "inquired", "at": at, "id": container_id, "answer": answer.value}
        case ProfileChosen():
            yield _profile_line(fact)


def _event_line(event: Announcement) -> Document:
    return {
        "f": "event",
        "at": event.received,
        "id": event.container_id,
        "type": event.type.name,
        "made": event.created_at_ns,
        "kind": event.kind.value if event.kind is not None else None,
        "sandbox": event.sandbox_id,
        "pod": event.pod,
        "stream": event.stream,
        "wall": event.received_wall_ns,
    }


def _profile_line(fact: ProfileChosen) -> Document:
    profile = profile_of(fact.name, fact.version)
    return {
        "f": "profile",
        "at": fact.at,
        "name": fact.name,
        "version": fact.version,
        "stream": profile.stream.value,
        "never": sorted(rule.name for rule in profile.never),
    }


def _relist_lines(relist: Relisted) -> Iterator[Document]:
    for begin in range(0, len(relist.changed), _ITEMS):
        items = relist.changed[begin : begin + _ITEMS]
        yield {"f": "changes", "listed": [_item(item) for item in items], "gone": []}
    for begin in range(0, len(relist.gone), _ITEMS):
        yield {"f": "changes", "listed": [], "gone": relist.gone[begin : begin + _ITEMS]}
    yield {
        "f": "relist",
        "requested": relist.requested,
        "completed": relist.completed,
        "wall": relist.requested_wall_ns,
        "listed": relist.listed,
    }


def _item(item: Listed) -> list[Any]:
    return [item.id, item.kind.value, item.state.value, item.sandbox_id, item.name, item.pod]
