"""Liveness and readiness in words, for probes and people alike."""

from __future__ import annotations

from typing import Final

from exporter.node.state import Node
from exporter.settings.config import Config

# A relist may take its timeout and then sleep for its period before the next one.
_SLACK: Final = 10.0
_JITTER: Final = 1.1


def not_alive(node: Node, config: Config, now: float) -> str:
    """Why this process does not work at monotonic time `now`; empty if it does."""
    rest = max(config.relist_period, node.relist_period)
    patience = config.relist_timeout + _JITTER * rest + _SLACK
    return "" if node.is_alive(now, patience) else f"no relist was begun for {patience:g} s"


def not_ready(node: Node, config: Config, now: float) -> str:
    """Why the last successful relist is too old to trust the metrics; empty if it is not."""
    if node.is_ready(now, config.relist_threshold):
        return ""
    return node.relist_note or "no relist has succeeded recently"
