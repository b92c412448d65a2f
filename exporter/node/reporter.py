"""Logs each MISSED, GHOST, STRAY, TWIN, SLOW, wrong status, and the node's verdict at changes.

The log itself limits the lines of each cause.
"""

import asyncio
import time
from typing import Final

import structlog

from exporter.account import LOST, NodeState
from exporter.model.facts import Fact
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.node.judgement import Judge

_log = structlog.get_logger()

_TEXTS: Final = {
    Verdict.MISSED: "missed event",
    Verdict.GHOST: "ghost container",
    Verdict.STRAY: "stray container",
    Verdict.TWIN: "twin container",
    Verdict.SLOW: "exit announced late",
    Verdict.STALE: "stale status",
    Verdict.DISAGREES: "status disagrees",
    Verdict.UNKNOWN_TO_KUBELET: "container unknown to the kubelet",
}
_LOOK_SECONDS: Final = 5.0
_FINE: Final = (NodeState.STARTING, NodeState.IDLE, NodeState.COMPLETE, NodeState.NOT_WATCHED)


def report(_fact: Fact, outcome: Outcome) -> None:
    """Log the findings that name a fault; a listener of a `Chronicle`."""
    for finding in outcome.findings:
        if finding.verdict in _TEXTS:
            _report(finding)


def _report(finding: Finding) -> None:
    cause, pod = finding.cause, finding.pod
    write = _log.warning if cause is None or cause in LOST else _log.info
    if cause is Cause.BY_DESIGN:
        # Each failed start is one.
        write = _log.debug
    fields = {"cause": cause.value} if cause else {}
    fields |= {
        "_event": finding.event.label,
        "object": finding.kind.value,
        "namespace": pod.namespace if pod else "",
        "pod": pod.name if pod else "",
        "container": finding.name,
        "id": finding.container_id,
    }
    if finding.other:
        fields["older"] = finding.other
    if finding.before:
        fields["since"] = "before the start"
    if finding.seconds is not None:
        fields["seconds_late"] = f"{finding.seconds:.3f}"
    write(_TEXTS[finding.verdict], **fields)


async def say_verdicts(judge: Judge) -> None:
    """Look at the verdict until cancelled; log each new one."""
    said: NodeState | None = NodeState.STARTING
    while True:
        state = judge.at(time.monotonic()).state
        if state is not said:
            write = _log.info if state in _FINE else _log.warning
            write("node verdict", verdict=state.name.lower(), text=state.value)
            said = state
        await asyncio.sleep(_LOOK_SECONDS)
