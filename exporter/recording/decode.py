"""Decodes the lines of an untrusted recording into facts and findings.

Law: any input that does not match the form exactly is a `FormError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from exporter.errors import FormError
from exporter.pleg.events import (
    Announcement,
    EventType,
    Inquiry,
    Lifecycle,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
)
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
from exporter.pleg.findings import Cause, Verdict
from exporter.pleg.profiles import Never
from exporter.recording.encode import FORMAT, VERSION, End, Header, RecordedFinding
from exporter.recording.fields import JsonRow

_MOST_LISTED: Final = 1_000_000
_TYPES: Final = dict(EventType.__members__)
_KINDS: Final = {kind.value: kind for kind in ObjectKind}
_STATES: Final = {state.value: state for state in ListedState}
_ANSWERS: Final = {answer.value: answer for answer in Inquiry}
_VERDICTS: Final = {verdict.value: verdict for verdict in Verdict}
_EVENTS: Final = {event.label: event for event in Lifecycle}
_CAUSES: Final = {cause.value: cause for cause in Cause}


def read_header(line: JsonRow) -> Header:
    """Parse the first line; FormError names an unsupported format or version."""
    if line.get("format") != FORMAT:
        raise FormError("this is no recording of shadow-pleg")
    if line.whole("version") != VERSION:
        raise FormError(f"it has version {line.whole('version')}, this program reads {VERSION}")
    return Header(
        shadow_pleg=line.text("shadow_pleg"),
        grace=line.number("grace", least=0.0),
        monotonic=line.number("monotonic"),
        wall_ns=line.whole("wall"),
        redacted=line.truth("redacted"),
        node=line.text("node"),
    )


class Reader:
    """Assembles lines into facts and findings."""

    def __init__(self) -> None:
        # Of the relist whose lines are being read: items newly listed or changed, and ids gone.
        self._changed: list[Listed] = []
        self._gone: list[str] = []

    def take(self, line: JsonRow) -> RecordedFact | list[RecordedFinding] | End | None:
        """What a line contains, or None while a relist is still incomplete."""
        match line.text("f"):
            case "event":
                return _event(line)
            case "changes":
                self._changed += [_listed(row) for row in line.rows("listed", 6)]
                self._gone += line.texts("gone")
                return None
            case "relist":
                return self._relist(line)
            case "found":
                return [_found(row) for row in line.rows("findings", 5)]
            case _:
                return End(line.text("why")) if line.get("f") == "end" else _aside(line)

    def _relist(self, line: JsonRow) -> Relisted:
        changed, gone = tuple(self._changed), tuple(self._gone)
        self._changed.clear()
        self._gone.clear()
        listed = line.whole("listed")
        if not 0 <= listed <= _MOST_LISTED:
            raise FormError("'listed' is no number of items")
        return Relisted(
            line.number("requested"),
            line.number("completed"),
            line.whole("wall"),
            listed,
            changed,
            gone,
        )


def _event(line: JsonRow) -> Announcement:
    return Announcement(
        line.text("id"),
        line.one_of("type", _TYPES),
        line.number("at"),
        line.whole("made"),
        line.maybe("kind", _KINDS),
        line.text("sandbox"),
        _pod(line.get("pod")),
        line.whole("stream"),
        line.whole("wall"),
    )


def _watching(line: JsonRow) -> RecordedFact:
    at = line.number("at")
    match line.text("what"):
        case "asked":
            return StreamAsked(at, line.whole("began"))
        case "up":
            return StreamUp(at, line.whole("began"))
        case "down":
            return StreamDown(at)
        case "refused":
            return StreamRefused(at)
        case _:
            raise FormError("'what' is no change of a stream")


def _aside(line: JsonRow) -> RecordedFact:
    match line.text("f"):
        case "stream":
            return _watching(line)
        case "discarded":
            until = line.number("until") if line.get("until") is not None else None
            return Discarded(line.number("at"), until, line.whole("events"))
        case "inquired":
            return Inquired(line.number("at"), line.text("id"), line.one_of("answer", _ANSWERS))
        case "profile":
            _check_rules(line.texts("never"))
            return ProfileChosen(line.number("at"), line.text("name"), line.text("version"))
        case _:
            raise FormError("'f' is no kind of line")


def _check_rules(names: Iterable[str]) -> None:
    unknown = sorted(set(names) - set(Never.__members__))
    if unknown:
        raise FormError(f"{unknown[0]!r} is no rule of a profile")


def _listed(row: JsonRow) -> Listed:
    return Listed(
        row.text(0),
        row.one_of(1, _KINDS),
        row.one_of(2, _STATES),
        row.text(3),
        row.text(4),
        _pod(row.get(5)),
    )


def _found(row: JsonRow) -> RecordedFinding:
    return RecordedFinding(
        row.one_of(0, _VERDICTS),
        row.one_of(1, _EVENTS),
        row.one_of(2, _KINDS),
        row.text(3),
        row.maybe(4, _CAUSES),
    )


def _pod(value: object) -> Pod | None:
    if value is None:
        return None
    texts = JsonRow({"pod": value}).texts("pod")
    if len(texts) != len(Pod._fields):
        raise FormError("'pod' is not namespace, name and uid")
    return Pod(*texts)
