"""Counts refused clients, and tracks whether the web configuration matches the disk."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from exporter import metrics


class Refusal(Enum):
    """Why a client got no page."""

    CONNECTIONS = "connections"
    CREDENTIALS = "credentials"
    HANDSHAKE = "handshake"
    RATE = "rate"


@dataclass(slots=True)
class WebState:
    """`reloaded`: whether the web configuration in force is the one on disk."""

    refusals: Counter[Refusal] = field(default_factory=Counter)
    reloaded: bool = True


class WebCollector(Collector):
    """Metrics of the HTTP server itself."""

    def __init__(self, state: WebState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """All families."""
        refusals = {(why.value,): self._state.refusals[why] for why in Refusal}
        yield metrics.WEB_REFUSALS.family(refusals)
        yield metrics.WEB_RELOADED.family({(): self._state.reloaded})
