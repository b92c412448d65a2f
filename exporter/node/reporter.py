"""Logs each finding that names a fault, and when each condition of the node begins and ends."""

import asyncio
import time
from typing import Final

import structlog

from exporter.conditions.account import LOST
from exporter.conditions.catalogue import BY_NAME
from exporter.conditions.condition import Condition, Mood
from exporter.model.facts import Fact
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.model.labels import OomKill
from exporter.node.judgement import Judge

_log = structlog.get_logger()

_TEXTS: Final = {
    Verdict.MISSED: "missed event",
    Verdict.GHOST: "ghost container",
    Verdict.STRAY: "stray container",
    Verdict.TWIN: "twin container",
    Verdict.FROZEN: "frozen container",
    Verdict.SLOW: "exit announced late",
    Verdict.STALE: "stale status",
    Verdict.DISAGREES: "status disagrees",
    Verdict.UNKNOWN_TO_KUBELET: "container unknown to the kubelet",
    Verdict.OVERDUE_PROCESS: "overdue pod: a process lives",
    Verdict.OVERDUE_RUNTIME: "overdue pod: the runtime lists it running",
    Verdict.OVERDUE_KUBELET: "overdue pod: the kubelet keeps it",
    Verdict.OOM: "OOM kill",
}
# Kubernetes does not show these OOM kills.
_WARNED: Final = (OomKill.SURVIVED, OomKill.ANNOUNCED_AS_ERROR, OomKill.UNANNOUNCED)
_LOOK_SECONDS: Final = 5.0


def report(_fact: Fact, outcome: Outcome) -> None:
    """Log the findings that name a fault; a listener of a `Chronicle`."""
    for finding in outcome.findings:
        if finding.verdict in _TEXTS:
            _report(finding)


def _report(finding: Finding) -> None:
    cause, pod = finding.cause, finding.pod
    write = _log.warning if cause is None or cause in (*LOST, *_WARNED) else _log.info
    if cause is Cause.BY_DESIGN:
        # Each failed start makes one of these.
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
        fields["older" if finding.verdict is Verdict.TWIN else "younger"] = finding.other
    if finding.limit:
        fields["limit" if finding.cause else "oom_killed_at_limit"] = finding.limit.value
    if finding.before:
        fields["since"] = "before the start"
    if finding.seconds is not None:
        fields["seconds_late"] = f"{finding.seconds:.3f}"
    write(_TEXTS[finding.verdict], **fields)


async def say_conditions(judge: Judge) -> None:
    """Judge the node every few seconds until cancelled; log conditions that begin or end.

    A condition that may pass at once, like a lost stream, must hold at two looks in a row.
    """
    said = {BY_NAME["starting"]}
    before: tuple[Condition, ...] = ()
    while True:
        found = judge.look(time.monotonic()).conditions
        for each in found:
            if each not in said and (each.lasting is None or each in before):
                write = _log.warning if each.alert else _log.info
                write("condition holds", condition=each.name, text=each.headline)
                said.add(each)
        for each in said.difference(found):
            if each.mood is not Mood.GOOD and each.name != "starting":
                _log.info("condition is over", condition=each.name, text=each.headline)
        said &= set(found)
        before = found
        await asyncio.sleep(_LOOK_SECONDS)
