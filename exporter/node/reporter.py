"""Logs each MISSED, GHOST, STRAY and SLOW; the log itself limits the lines of each cause."""

from typing import Final

import structlog

from exporter.model.facts import Fact
from exporter.model.findings import Cause, Finding, Outcome, Verdict

_log = structlog.get_logger()

_TEXTS: Final = {
    Verdict.MISSED: "missed event",
    Verdict.GHOST: "ghost container",
    Verdict.STRAY: "stray container",
    Verdict.SLOW: "exit announced late",
}
# A kubelet on this node did not get these either; None: what is no miss.
_UNDELIVERED: Final = (Cause.SILENT, Cause.STALLED, None)


class Reporter:
    """Listens to a `Chronicle`."""

    def took(self, _fact: Fact, outcome: Outcome) -> None:
        """Log the findings that name a fault."""
        for finding in outcome.findings:
            if finding.verdict in _TEXTS:
                _report(finding)


def _report(finding: Finding) -> None:
    cause, pod = finding.cause, finding.pod
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
    write(_TEXTS[finding.verdict], **fields)
