"""The flight recorder in service: keeps the facts, and writes a record for each notable verdict.

Notable are unexcused misses, gaps and contradictions; what a runtime never announces is not.
docs/evidence.md describes a record. Law: bounded; records are rate-limited, and whatever exceeds a
limit is counted, never waited for; a record has so many moments at most, and no text is longer
than `_LONGEST`.
"""

import json
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, Final

from exporter.evidence.reasons import LOST, NOTABLE, why
from exporter.evidence.ring import Ring
from exporter.evidence.timeline import Clock, Moment, iso, moments_of
from exporter.model.events import ANNOUNCED_BY, EVENTS, Pod
from exporter.model.facts import Fact
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.model.labels import Never
from exporter.node.state import Node
from exporter.pleg.entry import Entry
from exporter.pleg.ledger import Ledger
from exporter.pleg.steps import Excuse, Step, StepState
from exporter.runtimes.runtime import Profile
from exporter.timing.bucket import Bucket

SCHEMA: Final = 1
_MOMENTS: Final = 60
_LONGEST: Final = 256

# Records are nested, and meant to be read by other programs.
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many records are made of each verdict and cause, and how many bytes of them are kept."""

    burst: float = 20.0
    per_second: float = 0.5
    kept_bytes: int = 256 * 1024


@dataclass(frozen=True, slots=True)
class Observer:
    """What a record says about the observer itself. `queue`: length and capacity."""

    node: Node
    grace: float
    queue: Callable[[], tuple[int, int]]
    versions: dict[str, str]


class Cases:
    """Listens to a `Chronicle`, and keeps the newest records in memory, each as a line of JSON."""

    def __init__(self, ledger: Ledger, observer: Observer, limits: Limits = Limits()) -> None:
        self._ledger = ledger
        self._observer = observer
        self._kept_bytes = limits.kept_bytes
        self._ring = Ring()
        self._kept: deque[bytes] = deque()
        self._size = 0
        # One bucket per kind: a hundred misses of an outage must not hide the silent one after it.
        self._allowances: defaultdict[tuple[Verdict, Cause | None], Bucket] = defaultdict(
            partial(Bucket, limits.per_second, limits.burst)
        )

    @property
    def newest(self) -> tuple[bytes, ...]:
        """Records, the latest first; at most `Limits.kept_bytes` of them."""
        return tuple(reversed(self._kept))

    def first(self, number: int) -> list[Document]:
        """So many of the newest records, to be shown."""
        return [json.loads(line) for line in self.newest[:number]]

    def took(self, fact: Fact, outcome: Outcome) -> None:
        """Keep the fact, and make records of the findings that deserve one."""
        self._ring.take(fact)
        for finding in outcome.findings:
            if (finding.verdict, finding.cause) in NOTABLE:
                self._record(finding)

    def _record(self, finding: Finding) -> None:
        now = time.monotonic()
        node = self._observer.node
        if not self._allowances[finding.verdict, finding.cause].take(now):
            node.evidence_dropped += 1
            return
        node.evidence_records += 1
        record = self._document(finding, Clock(now, time.time_ns()))
        line = json.dumps(record, separators=(",", ":")).encode("ascii")
        self._kept.append(line)
        self._size += len(line)
        while self._size > self._kept_bytes:
            self._size -= len(self._kept.popleft())

    def _document(self, finding: Finding, clock: Clock) -> Document:
        observer, profile = self._observer, self._ledger.profile
        node, runtime = observer.node, observer.node.runtime
        entry = self._ledger.known(finding.container_id)
        moments = moments_of(finding.container_id, entry, self._ring)
        reasons = why(finding, entry, profile, observer.grace, clock.monotonic)
        kubelet = node.kubelet.generation(clock.monotonic) if node.kubelet else None
        if kubelet and (finding.verdict, finding.cause) in LOST:
            reasons = (*reasons, kubelet.loss(ANNOUNCED_BY[finding.event]))
        length, capacity = observer.queue()
        return {
            "schema": SCHEMA,
            "number": node.evidence_records,
            "at": clock.wall(clock.monotonic),
            "verdict": finding.verdict.value,
            "cause": finding.cause.value if finding.cause is not None else None,
            "event": finding.event.label,
            "object": finding.kind.value,
            "container": _container(finding, entry),
            "reasons": list(reasons),
            "witnesses": _witnesses(entry, clock) if entry is not None else [],
            "timeline": [_moment(moment, clock) for moment in moments[-_MOMENTS:]],
            "earlier_moments": max(0, len(moments) - _MOMENTS),
            "grace_seconds": observer.grace,
            "profile": _profile(profile),
            "stream": {
                "state": node.stream.value,
                "note": _cut(node.stream_note),
                "connections": node.connections,
                "disconnects": dict(node.disconnects),
            },
            "queue": {"length": length, "capacity": capacity, "discards": node.discards},
            "versions": observer.versions
            | {"runtime": _cut(f"{runtime.name} {runtime.version}") if runtime else ""},
        }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _container(finding: Finding, entry: Entry | None) -> Document:
    pod = finding.pod or Pod()
    texts = {
        "id": finding.container_id,
        "name": finding.name,
        "sandbox_id": entry.sandbox_id if entry is not None else "",
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
    }
    return {name: _cut(text) for name, text in texts.items()}


def _witnesses(entry: Entry, clock: Clock) -> list[Document]:
    """What each witness reported of each step; null if it reported nothing."""

    def wall(at: float | None) -> str | None:
        return None if at is None else clock.wall(at)

    return [
        {
            "event": event.label,
            "relist": wall(None if step.ahead else step.proven),
            "kernel": wall(step.kernel),
            "announcement": ANNOUNCED_BY[event].name,
            "stream": wall(step.announced),
            "created_at": iso(step.created_at_ns) if step.created_at_ns else None,
            "notes": _notes(step, excused=event <= entry.excused_up_to),
        }
        for event, step in zip(EVENTS, entry.steps, strict=True)
    ]


def _notes(step: Step, *, excused: bool) -> list[str]:
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
    return list(compress(notes, notes.values()))


def _moment(moment: Moment, clock: Clock) -> Document:
    return {
        "at": clock.wall(moment.at),
        "seconds": round(moment.at - clock.monotonic, 6),
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
