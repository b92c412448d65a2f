"""The flight recorder in service: keeps the facts, and writes a record for each notable verdict.

Notable are unexcused misses, gaps and contradictions; what a runtime never announces is not. Law:
records are rate-limited and kept in bounded memory; whatever exceeds a limit is counted, never
waited for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from exporter.evidence.clock import Clock
from exporter.evidence.document import Document, ObserverState, record_of, written
from exporter.evidence.reasons import VerdictContext, is_notable
from exporter.evidence.ring import Ring
from exporter.node.state import Dropped, Node
from exporter.pleg.facts import RecordedFact
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.ledger import Ledger
from exporter.timing.bucket import Buckets

KEPT: Final = 256 * 1024
_BURST: Final = 20.0
_PER_SECOND: Final = 0.5


class CaseSink(Protocol):
    """A destination for records that outlive this process."""

    def put(self, line: bytes) -> None:
        """Keep one record, without blocking."""


@dataclass(frozen=True, slots=True)
class Observer:
    """What a record says about the observer itself. `queue`: length and capacity."""

    node: Node
    grace: float
    queue: Callable[[], tuple[int, int]]
    versions: dict[str, str]


class Cases:
    """Listens to a `Chronicle`; `newest` are the records in memory, the latest first."""

    def __init__(self, ledger: Ledger, observer: Observer, shelf: CaseSink | None = None) -> None:
        self._ledger = ledger
        self._observer = observer
        self._shelf = shelf
        self.ring = Ring()
        # Facts go to the ring without a wrapper call in between.
        self.fact: Callable[[RecordedFact], None] = self.ring.take
        self._kept: deque[bytes] = deque()
        self._size = 0
        # One bucket per kind: a hundred misses of an outage must not hide the silent one after it.
        self._allowances: Buckets[tuple[Verdict, Cause | None]] = Buckets(_PER_SECOND, _BURST)

    @property
    def newest(self) -> tuple[bytes, ...]:
        """Records as JSON, at most `KEPT` bytes of them."""
        return tuple(reversed(self._kept))

    def found(self, findings: Sequence[Finding]) -> None:
        """Make records of the findings that deserve one."""
        for finding in findings:
            if is_notable(finding):
                self._record(finding)

    def _record(self, finding: Finding) -> None:
        now = time.monotonic()
        node = self._observer.node
        if not self._allowances.take((finding.verdict, finding.cause), now):
            node.evidence_dropped[Dropped.RATE] += 1
            return
        node.evidence_records += 1
        line = written(record_of(finding, self._ground(finding), self.ring, self._scene(now)))
        self._kept.append(line)
        self._size += len(line)
        while self._size > KEPT:
            self._size -= len(self._kept.popleft())
        if self._shelf is not None:
            self._shelf.put(line)

    def _ground(self, finding: Finding) -> VerdictContext:
        entry = self._ledger.known(finding.container_id)
        sandbox = self._ledger.known(entry.sandbox_id) if entry is not None else None
        return VerdictContext(entry, sandbox, self._ledger.profile, self._observer.grace)

    def _scene(self, now: float) -> ObserverState:
        node, runtime = self._observer.node, self._observer.node.runtime
        length, capacity = self._observer.queue()
        stream: Document = {
            "state": node.stream.value,
            "note": node.stream_note[:1000],
            "connections": node.connections,
            "disconnects": dict(node.disconnects),
        }
        queue = {"length": length, "capacity": capacity, "discards": node.discards}
        versions = self._observer.versions | {
            "runtime": f"{runtime.name} {runtime.version}"[:200] if runtime is not None else "",
        }
        clock = Clock(now, time.time_ns())
        number = node.evidence_records
        return ObserverState(number, now, clock, stream, queue, versions)
