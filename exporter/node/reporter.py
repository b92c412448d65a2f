"""Logs each MISSED, GHOST, STRAY and SLOW at a bounded rate."""

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from exporter.model.facts import Fact
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.timing.bucket import Bucket

_log = structlog.get_logger()

_BURST: Final = 20.0
_LINES_PER_SECOND: Final = 0.2
_TEXTS: Final = {
    Verdict.MISSED: "missed event",
    Verdict.GHOST: "ghost container",
    Verdict.STRAY: "stray container",
    Verdict.SLOW: "exit announced late",
}

# A kubelet on this node did not get these either; None: what is no miss.
_UNDELIVERED: Final = (Cause.SILENT, Cause.STALLED, None)

_Kind = tuple[Verdict, Cause | None]


@dataclass(slots=True)
class Reporter:
    """Listens to a `Chronicle`."""

    # One bucket per kind, so that none uses up what another may log.
    _allowances: defaultdict[_Kind, Bucket] = field(
        default_factory=lambda: defaultdict(partial(Bucket, _LINES_PER_SECOND, _BURST))
    )
    _withheld: Counter[_Kind] = field(default_factory=Counter)

    def took(self, _fact: Fact, outcome: Outcome) -> None:
        """Log the findings that name a fault."""
        for finding in outcome.findings:
            if finding.verdict in _TEXTS:
                self._log(finding)

    def _log(self, finding: Finding) -> None:
        cause, pod = finding.cause, finding.pod
        kind = finding.verdict, cause
        if not self._allowances[kind].take(time.monotonic()):
            self._withheld[kind] += 1
            return
        write = _log.warning if cause in _UNDELIVERED else _log.info
        fields = {"cause": cause.value} if cause else {}
        fields |= {
            "_event": finding.event.label,
            "object": finding.kind.value,
            "namespace": pod.namespace if pod else "",
            "pod": pod.name if pod else "",
            "container": finding.name,
            "id": finding.container_id,
        }
        if finding.seconds is not None:
            fields["seconds_late"] = f"{finding.seconds:.3f}"
        if withheld := self._withheld.pop(kind, 0):
            fields["lines_withheld"] = str(withheld)
        write(_TEXTS[finding.verdict], **fields)
