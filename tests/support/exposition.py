"""Registries as the daemon builds them, and reading what they write."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition, parser

from exporter.metrics.collector import Histograms, NodeCollector, new_registry
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.state import Node
from exporter.pleg.ledger import Ledger
from exporter.runtimes.known import profile_of

CAPACITY = 1000
LIBRARYS = ("process_", "python_")
_BUILD = re.compile(r'(shadow_pleg_build_info)\{python="[^"]+",version="[^"]+"\}')


@dataclass(frozen=True, slots=True)
class Measured:
    """A node, and what measures it."""

    node: Node
    ledger: Ledger
    registry: CollectorRegistry


def measured(node: Node | None = None) -> Measured:
    """A node's registry, as the daemon builds it; it is judged as at its start."""
    node, registry = node or Node(), new_registry()
    ledger = Ledger(profile_of("", ""), grace=5.0)
    judge = Judge(node, History(node), ledger.number)
    Histograms(registry)
    registry.register(
        NodeCollector(node, ledger, lambda: judge.at(0.0), lambda: (0, CAPACITY), lambda: 0)
    )
    return Measured(node, ledger, registry)


def ours(registry: CollectorRegistry) -> list[Metric]:
    return [family for family in registry.collect() if not family.name.startswith(LIBRARYS)]


def text_of(registry: CollectorRegistry) -> str:
    """Our metrics in the text format, without what differs from build to build."""
    # In the order in which the daemon registers them.
    alone: Any = SimpleNamespace(collect=lambda: ours(registry))
    text = generate_latest(alone).decode()
    return _BUILD.sub(r'\1{python="...",version="..."}', text)


def openmetrics_of(registry: CollectorRegistry) -> str:
    return bytes(exposition.generate_latest(registry)).decode()  # type: ignore[no-untyped-call] # the library's own gap


def openmetrics(text: str) -> list[Metric]:
    families: Iterable[Metric] = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call] # as above
    return list(families)
