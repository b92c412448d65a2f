"""One verdict with all its evidence, as a JSON document.

Defines the content and form of an evidence record (docs/evidence.md). Law: bounded; the number of
moments in a record is limited, and no text is longer than `_LONGEST`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from exporter.evidence.clock import Clock, iso
from exporter.evidence.reasons import VerdictContext, announcement_of, why
from exporter.evidence.timeline import Moment, Timeline, remembered
from exporter.pleg.entry import Entry
from exporter.pleg.events import Lifecycle, Pod
from exporter.pleg.facts import RecordedFact
from exporter.pleg.findings import Finding
from exporter.pleg.profiles import Never, Profile
from exporter.pleg.steps import Step, StepState

SCHEMA: Final = 1
_MOMENTS: Final = 60
_LONGEST: Final = 256
_NOBODY: Final = Pod()

# Records are documents: nested, and meant to be read by other programs.
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObserverState:
    """The observer at the moment of a verdict. `versions`: of each component, by name."""

    number: int
    now: float
    clock: Clock
    stream: Document
    queue: Document
    versions: dict[str, str]


def record_of(
    finding: Finding, ground: VerdictContext, facts: Iterable[RecordedFact], scene: ObserverState
) -> Document:
    """The evidence for one finding; long texts are cut, and the oldest moments left out."""
    sandbox_id = ground.entry.sandbox_id if ground.entry is not None else ""
    moments = Timeline(finding.container_id, sandbox_id).read(facts)
    if ground.entry is not None:
        # On a busy node the recorder does not reach back as far as the ledger.
        moments = remembered(ground.entry, moments) + moments
    return {
        "schema": SCHEMA,
        "number": scene.number,
        "at": scene.clock.wall(scene.now),
        "verdict": finding.verdict.value,
        "cause": finding.cause.value if finding.cause is not None else None,
        "event": finding.event.label,
        "object": finding.kind.value,
        "container": _container(finding, sandbox_id),
        "reasons": list(why(finding, ground, scene.now)),
        "witnesses": _witnesses(ground.entry, scene.clock),
        "timeline": [_moment(moment, scene) for moment in moments[-_MOMENTS:]],
        "earlier_moments": max(0, len(moments) - _MOMENTS),
        "grace_seconds": ground.grace,
        "profile": _profile(ground.profile),
        "stream": scene.stream,
        "queue": scene.queue,
        "versions": scene.versions,
    }


def written(record: Document) -> bytes:
    """A record as one line of JSON, without the line end."""
    return json.dumps(record, separators=(",", ":")).encode("ascii")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _container(finding: Finding, sandbox_id: str) -> Document:
    pod = finding.pod or _NOBODY
    return {
        "id": _cut(finding.container_id),
        "name": _cut(finding.name),
        "sandbox_id": _cut(sandbox_id),
        "namespace": _cut(pod.namespace),
        "pod": _cut(pod.name),
        "uid": _cut(pod.uid),
    }


def _witnesses(entry: Entry | None, clock: Clock) -> list[Document]:
    """What each witness reported of each step; null if it reported nothing."""
    if entry is None:
        return []
    return [
        {
            "event": event.label,
            "relist": clock.wall(step.proven) if step.proven is not None else None,
            "announcement": announcement_of(event).name,
            "stream": clock.wall(step.announced) if step.announced is not None else None,
            "created_at": iso(step.created_at_ns) if step.created_at_ns else None,
            "notes": _notes(entry, event, step),
        }
        for event, step in zip(Lifecycle, entry.steps, strict=True)
    ]


def _notes(entry: Entry, event: Lifecycle, step: Step) -> list[str]:
    notes = {
        "before our time": event <= entry.excused_up_to,
        "backlog": step.backlog,
        "stream was down": step.stream_down,
        "events were discarded": step.discarded,
        "missed": step.state in {StepState.MISSED, StepState.LATE},
        "gap": step.state in {StepState.GAP, StepState.GAP_ANNOUNCED},
        f"contradicted by {step.contradictions} relists": step.contradictions > 0,
    }
    return [note for note, applies in notes.items() if applies]


def _moment(moment: Moment, scene: ObserverState) -> Document:
    return {
        "at": scene.clock.wall(moment.at),
        "seconds": round(moment.at - scene.now, 6),
        "witness": moment.witness.value,
        "text": _cut(moment.text),
    }


def _profile(profile: Profile) -> Document:
    return {
        "name": _cut(profile.name),
        "stream": profile.stream.value,
        "why": _cut(profile.why),
        "never_announced": [rule.value for rule in Never if rule in profile.never],
    }
