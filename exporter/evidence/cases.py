"""The flight recorder in service: keeps the facts, and writes a record for each notable verdict.

Notable are unexcused misses, gaps and contradictions; what a runtime never announces is not. Law:
records are rate-limited and kept in bounded memory; whatever exceeds a limit is counted, never
waited for.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from exporter.evidence.case import Case, ObserverState, case_of
from exporter.evidence.clock import Clock
from exporter.evidence.reasons import NOTABLE
from exporter.evidence.ring import Ring
from exporter.evidence.timeline import moments_of
from exporter.model.facts import Fact
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.node.state import Node
from exporter.pleg.ledger import Ledger
from exporter.timing.bucket import Bucket


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
    """Listens to a `Chronicle`, and keeps the newest records in memory."""

    def __init__(
        self,
        ledger: Ledger,
        observer: Observer,
        limits: Limits = Limits(),
    ) -> None:
        self._ledger = ledger
        self._observer = observer
        self._kept_bytes = limits.kept_bytes
        self.ring = Ring()
        self._kept: deque[Case] = deque()
        self._size = 0
        # One bucket per kind: a hundred misses of an outage must not hide the silent one after it.
        self._allowances: defaultdict[tuple[Verdict, Cause | None], Bucket] = defaultdict(
            partial(Bucket, limits.per_second, limits.burst)
        )

    @property
    def newest(self) -> tuple[Case, ...]:
        """Records, the latest first; at most `Limits.kept_bytes` of them."""
        return tuple(reversed(self._kept))

    def took(self, fact: Fact, outcome: Outcome) -> None:
        """Keep the fact, and make records of the findings that deserve one."""
        self.ring.take(fact)
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
        entry = self._ledger.known(finding.container_id)
        moments = moments_of(finding.container_id, entry, self.ring)
        observer = self._observed(Clock(now, time.time_ns()))
        case = case_of(finding, entry, self._ledger.profile, moments, observer)
        self._kept.append(case)
        self._size += case.size
        while self._size > self._kept_bytes:
            self._size -= self._kept.popleft().size

    def _observed(self, clock: Clock) -> ObserverState:
        node, runtime = self._observer.node, self._observer.node.runtime
        return ObserverState(
            number=node.evidence_records,
            clock=clock,
            grace=self._observer.grace,
            stream=node.stream,
            note=node.stream_note[:1000],
            connections=node.connections,
            disconnects=tuple(node.disconnects.items()),
            queue=self._observer.queue(),
            discards=node.discards,
            runtime=f"{runtime.name} {runtime.version}"[:200] if runtime is not None else "",
            versions=self._observer.versions,
            kubelet=node.kubelet.generation(clock.monotonic) if node.kubelet else None,
        )
