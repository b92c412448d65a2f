"""Makes a record of each notable verdict from the newest facts (docs/evidence.md).

`reasons.NOTABLE` lists them; flaws that this runtime is known for are left out. Invariant: memory
is bounded; the decoder bounds the texts. Records beyond a rate limit are dropped and counted.
"""

import json
import time
from collections import defaultdict, deque
from collections.abc import Container
from dataclasses import replace
from functools import partial
from typing import Any, Final

from exporter.conditions.account import LOST
from exporter.evidence.reasons import NOTABLE, why
from exporter.evidence.timeline import Clock, container_of, iso, moments_of
from exporter.model.events import ANNOUNCED_BY, Announcement, Flawed, Pod
from exporter.model.facts import Believed, Fact, Relist
from exporter.model.findings import Finding, Outcome, Verdict, Why
from exporter.model.labels import Flaw
from exporter.node.state import Node
from exporter.pleg.ledger import Ledger
from exporter.runtimes.known import known_flaw
from exporter.runtimes.kubelets import BEHAVIOURS
from exporter.timing import Bucket

SCHEMA: Final = 1
# The most moments in a record.
_MOMENTS: Final = 60
# Records of each verdict and cause: how many at once, and how many per second.
BURST: Final = 20.0
_PER_SECOND: Final = 0.5
KEPT_BYTES: Final = 256 * 1024

# Facts plus changes of relists, some 400 bytes each: less than a megabyte with usual names.
CAPACITY: Final = 2000
# Changes kept per relist: a baseline lists thousands and proves nothing.
_CHANGES: Final = 256

Document = dict[str, Any]


class Ring:
    """The flight recorder: facts in order of arrival; the oldest are dropped.

    Events are kept without their pod's names, which are half of their size; the ledger knows them.
    Of a relist with many changes, only the first are kept. `size`: number of facts and changes.
    """

    def __init__(self) -> None:
        self._kept: deque[Fact] = deque()
        self.size = 0

    def about(self, ids: Container[str]) -> list[Fact]:
        """The facts, oldest first; of events, only those of these containers."""
        return [
            kept
            for kept in self._kept
            if not isinstance(kept, Announcement) or kept.container_id in ids
        ]

    def add(self, fact: Fact) -> None:
        """Keep one more fact."""
        if isinstance(fact, Announcement):
            fact = fact._replace(sandbox_id="", pod=None)
        elif isinstance(fact, Relist) and max(len(fact.changed), len(fact.gone)) > _CHANGES:
            fact = replace(fact, changed=fact.changed[:_CHANGES], gone=fact.gone[:_CHANGES])
        self._kept.append(fact)
        self.size += _size(fact)
        while self.size > CAPACITY:
            self.size -= _size(self._kept.popleft())


def _size(kept: Fact) -> int:
    if isinstance(kept, Relist | Believed):
        return 1 + len(kept.changed) + len(kept.gone)
    return 1


class Cases:
    """Listens to a `Chronicle`, and keeps the newest records, each as a line of JSON."""

    def __init__(self, ledger: Ledger, node: Node, grace: float) -> None:
        self._ledger = ledger
        self._node = node
        self._grace = grace
        self._ring = Ring()
        self._kept: deque[bytes] = deque()
        self._size = 0
        # One per kind: a hundred misses of an outage must not hide the silent miss after it.
        self._allowances: defaultdict[tuple[Verdict, Why | None], Bucket] = defaultdict(
            partial(Bucket, _PER_SECOND, BURST)
        )

    @property
    def newest(self) -> tuple[bytes, ...]:
        """The records, the latest first, at most `KEPT_BYTES` in all."""
        return tuple(reversed(self._kept))

    def first(self, number: int) -> list[Document]:
        """The newest records, at most `number` of them."""
        return [json.loads(line) for line in self.newest[:number]]

    def hear(self, fact: Fact, outcome: Outcome) -> None:
        """Keep the fact, and make a record of each notable finding."""
        self._ring.add(fact)
        for finding in outcome.findings:
            if (finding.verdict, finding.cause) in NOTABLE and not self._is_known(finding.cause):
                self._record(fact, finding)

    def _is_known(self, cause: Why | None) -> bool:
        runtime = self._node.runtime
        return (
            isinstance(cause, Flaw)
            and runtime is not None
            and known_flaw(runtime.name, runtime.version, cause) is not None
        )

    def _record(self, fact: Fact, finding: Finding) -> None:
        now, node = time.monotonic(), self._node
        if not self._allowances[finding.verdict, finding.cause].spend(now):
            node.evidence_dropped += 1
            return
        node.evidence_records += 1
        record = self._document(finding, Clock(now, time.time_ns()))
        record["said"] = None
        if finding.verdict is Verdict.FLAWED and isinstance(fact, Announcement):
            record["said"] = _said(fact)
        line = json.dumps(record, separators=(",", ":")).encode("ascii")
        self._kept.append(line)
        self._size += len(line)
        while self._size > KEPT_BYTES:
            self._size -= len(self._kept.popleft())

    def _document(self, finding: Finding, clock: Clock) -> Document:
        entry, now = self._ledger.known(finding.container_id), clock.monotonic
        sandbox_id = entry.sandbox_id if entry is not None else ""
        container = container_of(finding.container_id, sandbox_id, finding.name, finding.pod)
        kept = self._ring.about((finding.container_id, sandbox_id))
        moments = moments_of(finding.container_id, entry, kept)
        reasons = why(finding, self._ledger.profile, self._grace)
        if finding.container_id in self._ledger.kernel.frozen:
            reasons += ("its processes are frozen: nothing of it runs until they are thawed",)
        cause, announcement = finding.cause, ANNOUNCED_BY[finding.event]
        if isinstance(cause, Flaw):
            reasons += tuple(each.flawed(announcement, cause) for each in BEHAVIOURS)
        elif cause in LOST or (finding.verdict, cause) == (Verdict.GAP, None):
            reasons += tuple(each.loss(announcement) for each in BEHAVIOURS)
        return {
            "schema": SCHEMA,
            "number": self._node.evidence_records,
            "at": clock.wall(now),
            "verdict": finding.verdict.value,
            "cause": finding.cause.value if finding.cause is not None else None,
            "event": finding.event.label,
            "object": finding.kind.value,
            "container": container,
            "reasons": list(reasons),
            "timeline": [moment.document(clock, now) for moment in moments[-_MOMENTS:]],
            "earlier_moments": max(0, len(moments) - _MOMENTS),
        }


def _said(event: Announcement) -> Document:
    """The fields of a flawed event; None for each field that it lacks."""
    said, pod = event.flawed or Flawed((), 0), event.pod or Pod()
    return {
        "type": event.type.name,
        "created_at": iso(event.created_at_ns) if event.created_at_ns else None,
        "received": iso(event.received_wall_ns),
        "subscription": event.stream,
        "sandbox_id": event.sandbox_id,
        "uid": pod.uid,
        "statuses": said.statuses if event.flawed else None,
        "state": said.state.value if said.state else None,
        "started_at": iso(said.started_ns) if said.started_ns > 0 else None,
        "finished_at": iso(said.finished_ns) if said.finished_ns > 0 else None,
    }
