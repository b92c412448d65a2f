"""Adds findings to the tally, and logs each MISSED at a bounded rate.

Metrics read the tally on scrape.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from exporter.node.state import Node
from exporter.pleg.facts import RecordedFact
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.timing.bucket import Bucket

_log = structlog.get_logger()

_BURST: Final = 20.0
_LINES_PER_SECOND: Final = 0.2


@dataclass(slots=True)
class Reporter:
    """The first listener of a `Chronicle`."""

    node: Node
    # One bucket per cause, so that no cause uses up what another may log.
    _allowances: defaultdict[Cause | None, Bucket] = field(
        default_factory=lambda: defaultdict(partial(Bucket, _LINES_PER_SECOND, _BURST))
    )
    _withheld: Counter[Cause | None] = field(default_factory=Counter)

    def fact(self, fact: RecordedFact) -> None:
        """Ignore facts; other listeners use them."""

    def found(self, findings: Iterable[Finding]) -> None:
        """Count every finding; log the missed ones."""
        wall = time.time()
        for finding in findings:
            self.node.tally.add(finding, wall)
            if finding.verdict is Verdict.MISSED:
                self._log(finding)
            elif finding.verdict is Verdict.OVERFLOW:
                self.node.count_discard()

    def _log(self, finding: Finding) -> None:
        cause = finding.cause
        if not self._allowances[cause].take(time.monotonic()):
            self._withheld[cause] += 1
            return
        pod = finding.pod
        write = _log.warning if cause is Cause.SILENT else _log.info
        fields = {
            "namespace": pod.namespace if pod else "",
            "pod": pod.name if pod else "",
            "container": finding.name,
            "id": finding.container_id,
            "_event": finding.event.label,
            "object": finding.kind.value,
            "cause": cause.value if cause else "",
        }
        if withheld := self._withheld.pop(cause, 0):
            fields["lines_withheld"] = str(withheld)
        write("missed event", **fields)
