"""The catalogue of metrics: complete, explained, and the only place that names one.

Names, types, labels, their values and buckets are a contract with all users' dashboards: it is
`golden/fresh.prom`, with which `test_collector.py` compares a fresh process.
"""

import ast
from math import prod
from pathlib import Path

import pytest
from prometheus_client.core import Metric

import exporter
from exporter import metrics
from exporter.specs import CounterSpec, GaugeSpec, HistogramSpec, InfoSpec
from tests.support.exposition import measured, ours

pytestmark = pytest.mark.quick

# No label may depend on which pods run on the node.
FORBIDDEN_LABELS = {"pod", "namespace", "container", "container_id", "endpoint", "error", "node"}
PREFIXES = ("shadow_pleg_", "kube_pod_")
SOURCES = sorted(Path(exporter.__file__).parent.rglob("*.py"))


def families() -> list[Metric]:
    """A fresh process' families."""
    return ours(measured().registry)


def values_of(family: Metric) -> dict[str, set[str]]:
    """Each label's values; those of buckets left out."""
    values: dict[str, set[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != "le":
                values.setdefault(label, set()).add(value)
    return values


def test_every_combination_of_label_values_exists_once_from_the_start() -> None:
    """At 0: the first miss is an increase."""
    for family in families():
        if family.type in {"counter", "gauge"}:
            combinations = {tuple(sorted(sample.labels.items())) for sample in family.samples}
            expected = prod(map(len, values_of(family).values()))
            assert len(family.samples) == len(combinations) == expected, family.name


def test_no_label_names_a_pod_or_an_error() -> None:
    """Those go to logs, exemplars and the page: a label for each pod is a series for each pod."""
    labels = {label for family in families() for label in values_of(family)}
    assert "event" in labels
    assert not labels & FORBIDDEN_LABELS


def test_every_metric_of_the_catalogue_is_exported_and_explained() -> None:
    """What `exporter.metrics` declares is what a scrape has, help and all."""
    kinds = (CounterSpec, GaugeSpec, HistogramSpec, InfoSpec)
    declared = [spec for spec in vars(metrics).values() if isinstance(spec, kinds)]
    exported = {family.name: family.documentation for family in families()}
    assert {spec.name: spec.help for spec in declared} == exported
    assert len(declared) == len(exported)
    assert all(text.endswith(".") for text in exported.values())


def test_only_the_catalogue_names_and_makes_metrics() -> None:
    """One place to look, and one to keep compatible."""
    makers = {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"}
    naming, making = set(), set()
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and any(each in str(node.value) for each in PREFIXES):
                naming.add(source.name)
            if isinstance(node, ast.ImportFrom) and "prometheus_client" in str(node.module):
                made = {each.name for each in node.names if each.name.endswith("MetricFamily")}
                if made | makers.intersection(each.name for each in node.names):
                    making.add(source.name)
    assert naming == {"metrics.py"}
    assert making == {"specs.py"}
