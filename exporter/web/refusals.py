"""Counts refused requests, and tracks whether the web configuration matches the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from exporter import metrics
from exporter.collector import one_label


class Refusal(Enum):
    """Why a client got no page."""

    BUSY = "busy"
    CONNECTIONS = "connections"
    CREDENTIALS = "credentials"
    HANDSHAKE = "handshake"
    MALFORMED = "malformed"
    RATE = "rate"
    TIMEOUT = "timeout"


@dataclass(slots=True)
class FaceState:
    """`reloaded`: whether the web configuration in force is the one on disk."""

    refusals: Counter[Refusal] = field(default_factory=Counter)
    reloaded: bool = True

    def refuse(self, why: Refusal) -> None:
        """Count one refusal."""
        self.refusals[why] += 1


class FaceCollector(Collector):
    """Metrics of the HTTP server itself."""

    def __init__(self, state: FaceState) -> None:
        self._state = state

    def describe(self) -> Iterable[Metric]:
        """The same families as `collect`."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """All families."""
        refusals = {why.value: self._state.refusals[why] for why in Refusal}
        yield one_label(metrics.WEB_REFUSALS, refusals)
        reloaded = metrics.WEB_RELOADED.family()
        reloaded.add_metric((), self._state.reloaded)
        yield reloaded
