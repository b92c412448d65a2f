"""Writes the main subscriber's history as a recording, and reads a recording as a history."""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from conformance.history import MAIN, Case, Connected, Heard, History, Life
from exporter import __version__
from exporter.errors import ConfigError, ShadowPlegError
from exporter.model.events import ANNOUNCED_BY, Announcement, Lifecycle, ObjectKind
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

_GRACE: Final = 2.0
# The part of a run that would show the same loss; "": none, or not for certain. Else `plain`.
_PARTS: Final[dict[Cause | Never | None, str]] = {
    Cause.STREAM_DOWN: "restart",
    Cause.DISCARDED: "restart",
    Cause.STALLED: "",
    Cause.SHARED: "",
    Never.DELETED_BELOW: "",
    Never.FAILED_START: "failed-start",
    Never.REMOVED_WITH_SANDBOX: "pod-removal",
    Never.FORCED_REMOVAL: "pod-removal",
}


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
