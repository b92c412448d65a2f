"""Reading what registries write."""

import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition, parser

LIBRARYS = ("process_", "python_")
_BUILD = re.compile(r'(shadow_pleg_build_info)\{python="[^"]+",version="[^"]+"\}')


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
