"""One verdict with all its evidence: a frozen object, and the JSON document that it is shown as.

Defines the content and form of a record (docs/evidence.md). Law: bounded; the number of moments in
a record is limited, and no text is longer than `_LONGEST`.
"""

import json
from dataclasses import dataclass, replace
from itertools import compress
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from exporter.evidence.clock import Clock, iso
from exporter.evidence.reasons import LOST, why
from exporter.evidence.timeline import Moment
from exporter.model.events import ANNOUNCED_BY, EVENTS, Lifecycle, Pod
from exporter.model.findings import Finding
from exporter.model.labels import Never, StreamState
from exporter.pleg.entry import Entry
from exporter.pleg.kubelets import Generation
from exporter.pleg.profiles import Profile
from exporter.pleg.steps import Excuse, Step, StepState

SCHEMA: Final = 1
_MOMENTS: Final = 60
_LONGEST: Final = 256
_NO_POD: Final = Pod()
# What Python takes, rounded up: a case with its reasons; each moment; each disconnect; each text
# besides its characters, which are counted as JSON has them: that is never less.
_CASE_BYTES: Final = 1024
_MOMENT_BYTES: Final = 96
_DISCONNECT_BYTES: Final = 96
_TEXT_BYTES: Final = 56

# Documents are nested, and meant to be read by other programs.
Document = dict[str, Any]
# When a list and when the kernel proved it, when the stream announced it, its created_at, notes.
_Witnessed = tuple[float | None, float | None, float | None, int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ObserverState:
    """The observer at the moment of a verdict. `queue`: length and capacity.

    `kubelet`: the node's, if it is known and uses events.
    """

    number: int
    clock: Clock
    grace: float
    stream: StreamState
    note: str
    connections: int
    disconnects: tuple[tuple[str, int], ...]
    queue: tuple[int, int]
    discards: int
    runtime: str
    versions: dict[str, str]
    kubelet: Generation | None


@dataclass(frozen=True, slots=True)
class Case:
    """A verdict, and what was known when it was reached.

    `witnessed`: one row for each lifecycle event; empty if the ledger remembers nothing. `size`: an
    upper bound of its bytes in memory, and of those of its JSON.
    """

    finding: Finding
    sandbox_id: str
    reasons: tuple[str, ...]
    witnessed: tuple[_Witnessed, ...]
    moments: tuple[Moment, ...]
    earlier_moments: int
    profile: Profile
    observer: ObserverState
    size: int


def case_of(
    finding: Finding,
    entry: Entry | None,
    profile: Profile,
    moments: list[Moment],
    observer: ObserverState,
) -> Case:
    """The evidence for one finding; long texts are cut, and the oldest moments left out."""
    reasons = why(finding, entry, profile, observer.grace, observer.clock.monotonic)
    if observer.kubelet is not None and (finding.verdict, finding.cause) in LOST:
        reasons = (*reasons, observer.kubelet.loss(ANNOUNCED_BY[finding.event]))
    sandbox_id = _cut(entry.sandbox_id) if entry is not None else ""
    finding = _shortened(finding)
    last = [
        moment if len(moment.text) <= _LONGEST else replace(moment, text=_cut(moment.text))
        for moment in moments[-_MOMENTS:]
    ]
    if max(len(profile.name), len(profile.why)) > _LONGEST:
        profile = replace(profile, name=_cut(profile.name), why=_cut(profile.why))
    texts = [moment.text for moment in last]
    texts += reasons[-1:]
    texts += [finding.container_id, finding.name, *(finding.pod or ()), sandbox_id]
    texts += [profile.name, profile.why, observer.note, observer.runtime]
    return Case(
        finding=finding,
        sandbox_id=sandbox_id,
        reasons=reasons,
        witnessed=_witnessed(entry) if entry is not None else (),
        moments=tuple(last),
        earlier_moments=len(moments) - len(last),
        profile=profile,
        observer=observer,
        size=_CASE_BYTES
        + _MOMENT_BYTES * len(last)
        + _DISCONNECT_BYTES * len(observer.disconnects)
        + _TEXT_BYTES * len(texts)
        + sum(map(len, map(encode_basestring_ascii, texts))),
    )


def summary_of(case: Case) -> Document:
    """What the record says in one line: the verdict, when, and on which container."""
    finding, clock = case.finding, case.observer.clock
    pod = finding.pod or _NO_POD
    return {
        "number": case.observer.number,
        "at": clock.wall(clock.monotonic),
        "verdict": finding.verdict.value,
        "cause": finding.cause.value if finding.cause is not None else None,
        "event": finding.event.label,
        "object": finding.kind.value,
        "container": {
            "id": finding.container_id,
            "name": finding.name,
            "sandbox_id": case.sandbox_id,
            "namespace": pod.namespace,
            "pod": pod.name,
            "uid": pod.uid,
        },
    }


def document_of(case: Case) -> Document:
    """The whole record."""
    observer, clock = case.observer, case.observer.clock
    length, capacity = observer.queue
    return {
        "schema": SCHEMA,
        **summary_of(case),
        "reasons": list(case.reasons),
        "witnesses": [
            _witness(event, witnessed, clock)
            for event, witnessed in zip(EVENTS, case.witnessed, strict=False)
        ],
        "timeline": [_moment(moment, clock) for moment in case.moments],
        "earlier_moments": case.earlier_moments,
        "grace_seconds": observer.grace,
        "profile": _profile(case.profile),
        "stream": {
            "state": observer.stream.value,
            "note": observer.note,
            "connections": observer.connections,
            "disconnects": dict(observer.disconnects),
        },
        "queue": {"length": length, "capacity": capacity, "discards": observer.discards},
        "versions": observer.versions | {"runtime": observer.runtime},
    }


def written(case: Case) -> bytes:
    """The record as one line of JSON, without the line end."""
    return json.dumps(document_of(case), separators=(",", ":")).encode("ascii")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _shortened(finding: Finding) -> Finding:
    pod = finding.pod or _NO_POD
    if max(map(len, (finding.container_id, finding.name, *pod))) <= _LONGEST:
        return finding
    container_id, name = _cut(finding.container_id), _cut(finding.name)
    return finding._replace(container_id=container_id, name=name, pod=Pod(*map(_cut, pod)))


def _witnessed(entry: Entry) -> tuple[_Witnessed, ...]:
    rows = []
    for event, step in zip(EVENTS, entry.steps, strict=True):
        notes = _notes(step, excused=event <= entry.excused_up_to)
        listed = None if step.ahead else step.proven
        rows.append((listed, step.kernel, step.announced, step.created_at_ns, notes))
    return tuple(rows)


def _notes(step: Step, *, excused: bool) -> tuple[str, ...]:
    notes = {
        "before our time": excused,
        "backlog": step.backlog,
        "stream was down": step.excuse is Excuse.DOWN,
        "events were discarded": step.excuse is Excuse.DISCARDED,
        "missed": step.state in {StepState.MISSED, StepState.BY_DESIGN, StepState.LATE},
        "gap": step.state is StepState.GAP,
        "undecided": step.state is StepState.UNDECIDED,
        f"contradicted by {step.contradictions} relists": step.contradictions > 0,
    }
    return tuple(compress(notes, notes.values()))


def _witness(event: Lifecycle, witnessed: _Witnessed, clock: Clock) -> Document:
    """What each witness reported of one step; null if it reported nothing."""
    listed, seen, announced, created_at_ns, notes = witnessed
    return {
        "event": event.label,
        "relist": clock.wall(listed) if listed is not None else None,
        "kernel": clock.wall(seen) if seen is not None else None,
        "announcement": ANNOUNCED_BY[event].name,
        "stream": clock.wall(announced) if announced is not None else None,
        "created_at": iso(created_at_ns) if created_at_ns else None,
        "notes": list(notes),
    }


def _moment(moment: Moment, clock: Clock) -> Document:
    return {
        "at": clock.wall(moment.at),
        "seconds": round(moment.at - clock.monotonic, 6),
        "witness": moment.witness.value,
        "text": moment.text,
    }


def _profile(profile: Profile) -> Document:
    return {
        "name": profile.name,
        "stream": profile.stream.value,
        "why": profile.why,
        "never_announced": [rule.value for rule in Never if rule in profile.never],
    }
