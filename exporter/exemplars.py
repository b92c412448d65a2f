"""Exemplars within OpenMetrics' bound of 128 characters for all label names and values."""

from __future__ import annotations

from typing import Final

from prometheus_client.samples import Exemplar

from exporter.pleg.findings import Finding

_BOUND: Final = 128
_SHORT_ID: Final = 13  # as crictl prints it


def exemplar_of(finding: Finding, wall: float) -> Exemplar:
    """Namespace, pod and id within OpenMetrics' 128 runes: the id gives way first."""
    namespace = finding.pod.namespace if finding.pod else ""
    pod = finding.pod.name if finding.pod else ""
    room = _BOUND - len("namespace" + "pod" + "container_id")
    namespace = namespace[: room - _SHORT_ID]
    identity = finding.container_id
    if len(namespace + pod + identity) > room:
        identity = identity[:_SHORT_ID]
    pod = pod[: room - len(namespace + identity)]
    return Exemplar({"namespace": namespace, "pod": pod, "container_id": identity}, 1.0, wall)
