"""The names that other people build on: each metric, its type, its labels and their values.

This table is written out by hand on purpose: a change here is a change to
everybody's dashboards.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from prometheus_client.core import Metric

import exporter
from exporter import metrics
from tests.support.exposition import measured, ours

EVENTS = ("ContainerChanged", "ContainerStarted", "ContainerDied", "ContainerRemoved")
RECEIVED = ("CREATED", "STARTED", "STOPPED", "DELETED")
OBJECTS = ("container", "sandbox")
CAUSES = ("silent", "stream_down", "discarded", "by_design")
STREAM_STATES = ("connecting", "streaming", "backoff", "disabled", "unsupported", "refused")
CODES = (
    *("aborted", "already_exists", "cancelled", "data_loss", "deadline_exceeded"),
    *("failed_precondition", "internal", "invalid_argument", "not_found", "out_of_range"),
    *("permission_denied", "resource_exhausted", "unauthenticated", "unavailable"),
    *("unimplemented", "unknown"),
)
REFUSALS = ("busy", "connections", "credentials", "handshake", "malformed", "rate", "timeout")
FLAWS = ("empty_id", "unknown_state", "unknown_event", "no_metadata", "bad_time", "undecodable")
PROBLEMS = (
    *("absent", "timeout", "tls", "unauthorized", "forbidden", "status", "too_large", "malformed"),
    "credentials",
)
BY_OBJECT: dict[str, tuple[str, ...]] = {"event": EVENTS, "object": OBJECTS}
BY_EVENT: dict[str, tuple[str, ...]] = {"event": EVENTS}
# Type, and each label with all the values that it has from the start.
CONTRACT: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "kube_pod_missed_events_total": ("counter", {**BY_OBJECT, "cause": CAUSES}),
    "shadow_pleg_lifecycle_events_total": ("counter", BY_OBJECT),
    "shadow_pleg_late_events_total": ("counter", BY_OBJECT),
    "shadow_pleg_unseen_events_total": ("counter", BY_OBJECT),
    "shadow_pleg_event_gaps_total": ("counter", BY_OBJECT),
    "shadow_pleg_duplicate_events_total": ("counter", BY_EVENT),
    "shadow_pleg_contradicted_events_total": ("counter", BY_EVENT),
    "shadow_pleg_backlog_events_total": ("counter", BY_EVENT),
    "shadow_pleg_unresolved_events": ("gauge", {}),
    "shadow_pleg_discard_events_total": ("counter", {}),
    "shadow_pleg_discard_events_unreconciled": ("gauge", {}),
    "shadow_pleg_last_seen_seconds": ("gauge", {}),
    "shadow_pleg_stream_last_seen_seconds": ("gauge", {}),
    "shadow_pleg_relist_duration_seconds": ("histogram", {}),
    "shadow_pleg_relist_interval_seconds": ("histogram", {}),
    "shadow_pleg_relist_period_seconds": ("gauge", {}),
    "shadow_pleg_relist_errors_total": ("counter", {"reason": CODES}),
    "shadow_pleg_stream_state": ("gauge", {"state": STREAM_STATES}),
    "shadow_pleg_stream_connections_total": ("counter", {}),
    "shadow_pleg_stream_disconnects_total": (
        "counter",
        {"reason": ("eof", "overflow", "kubelet", *CODES)},
    ),
    "shadow_pleg_events_received_total": ("counter", {"event": RECEIVED, "object": OBJECTS}),
    "shadow_pleg_event_delivery_seconds": ("histogram", {}),
    "shadow_pleg_events_without_status_total": ("counter", {}),
    "shadow_pleg_malformed_messages_total": ("counter", {"reason": FLAWS}),
    "shadow_pleg_event_queue_length": ("gauge", {}),
    "shadow_pleg_event_queue_capacity": ("gauge", {}),
    "shadow_pleg_evidence_records_total": ("counter", {}),
    "shadow_pleg_evidence_dropped_total": ("counter", {"reason": ("rate", "queue", "disk")}),
    "shadow_pleg_pods": ("gauge", {}),
    "shadow_pleg_sandboxes": ("gauge", {"state": ("ready", "notready", "unknown")}),
    "shadow_pleg_containers": (
        "gauge",
        {"state": ("created", "running", "exited", "unknown")},
    ),
    "shadow_pleg_runtime_info": (
        "info",
        {"name": ("",), "version": ("",), "api_version": ("",), "stream": ("none",)},
    ),
    "shadow_pleg_build_info": ("info", {"version": (), "python": ()}),
    "shadow_pleg_kubelet_last_seen_seconds": ("gauge", {}),
    "shadow_pleg_kubelet_errors_total": ("counter", {"reason": PROBLEMS}),
    "shadow_pleg_kubelet_evented_pleg": ("gauge", {"state": ("on", "off", "unlisted", "unknown")}),
    "shadow_pleg_evented_pleg_configuration": (
        "gauge",
        {"state": ("both_on", "both_off", "gate_only", "runtime_only", "unknown")},
    ),
    "shadow_pleg_event_loop_lag_seconds": ("histogram", {}),
    "shadow_pleg_web_refusals_total": ("counter", {"reason": REFUSALS}),
    "shadow_pleg_web_config_last_reload_successful": ("gauge", {}),
}
KUBELETS = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0")
RELIST = (*KUBELETS, "30.0", "60.0", "120.0", "300.0", "+Inf")
BUCKETS = {
    "shadow_pleg_relist_duration_seconds": RELIST,
    "shadow_pleg_relist_interval_seconds": RELIST,
    "shadow_pleg_event_delivery_seconds": (
        *("0.0001", "0.00025", "0.0005", "0.001", "0.0025"),
        *(*KUBELETS, "30.0", "60.0", "+Inf"),
    ),
    "shadow_pleg_event_loop_lag_seconds": ("0.001", "0.0025", *KUBELETS, "+Inf"),
}
# What an operator reads of these names must not depend on whose pods run here.
FORBIDDEN_LABELS = {"pod", "namespace", "container", "container_id", "endpoint", "error", "node"}
PREFIXES = ("shadow_pleg_", "kube_pod_")
SOURCES = sorted(Path(exporter.__file__).parent.rglob("*.py"))


def families() -> dict[str, Metric]:
    """A fresh process' families, by the name that a query uses."""
    suffix = {"counter": "_total", "info": "_info"}
    return {f.name + suffix.get(f.type, ""): f for f in ours(measured().registry)}


def values_of(family: Metric) -> dict[str, set[str]]:
    """Each label's values; those of buckets left out."""
    values: dict[str, set[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != "le":
                values.setdefault(label, set()).add(value)
    return values


def test_the_metrics_are_those_of_the_contract() -> None:
    """None more, none less, none of another type."""
    types = {name: family.type for name, family in families().items()}
    assert types == {name: kind for name, (kind, _) in CONTRACT.items()}


@pytest.mark.parametrize("name", CONTRACT)
def test_every_combination_of_labels_exists_from_the_start(name: str) -> None:
    """All of them, once each, at 0: the first miss is an increase."""
    _, labels = CONTRACT[name]
    family = families()[name]
    if name == "shadow_pleg_build_info":
        assert set(values_of(family)) == set(labels)
        return
    assert values_of(family) == {label: set(values) for label, values in labels.items()}
    expected = 1
    for values in labels.values():
        expected *= len(values)
    if family.type != "histogram":
        combinations = {tuple(sorted(sample.labels.items())) for sample in family.samples}
        assert len(family.samples) == len(combinations) == expected


@pytest.mark.parametrize("name", BUCKETS)
def test_histograms_have_the_kubelets_buckets_and_more(name: str) -> None:
    """Comparable with the kubelet's, and not blind beyond its last one."""
    samples = families()[name].samples
    assert tuple(s.labels["le"] for s in samples if "le" in s.labels) == BUCKETS[name]


def test_counters_begin_at_zero_and_one_stream_state_is_on() -> None:
    """A fresh process has seen nothing, and is connecting."""
    for name, family in families().items():
        if family.type == "counter":
            assert {sample.value for sample in family.samples} == {0}, name
    states = families()["shadow_pleg_stream_state"].samples
    assert [s.labels["state"] for s in states if s.value] == ["connecting"]


def test_no_label_names_a_pod_or_an_error() -> None:
    """Those go to logs, exemplars and the page: a label for each pod is a series for each pod."""
    labels = {label for family in families().values() for label in values_of(family)}
    assert "event" in labels
    assert not labels & FORBIDDEN_LABELS


def test_every_metric_of_the_catalogue_is_exported_and_explained() -> None:
    """What `exporter.metrics` declares is what a scrape has, help and all."""
    kinds = (metrics.CounterSpec, metrics.GaugeSpec, metrics.InfoSpec, metrics.HistogramSpec)
    declared = [spec for spec in vars(metrics).values() if isinstance(spec, kinds)]
    exported = {family.name: family.documentation for family in families().values()}
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
    assert naming == making == {"metrics.py"}
