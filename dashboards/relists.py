"""Panels of the node's dashboard about ours and the kubelet's: relists, and what was dropped."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import stat, timeseries

from dashboards import frame, panels
from dashboards.limits import LIMITS
from dashboards.panels import GOOD, above
from dashboards.queries import age, counted, kubelet, mean, own, quantile, runtime
from exporter import metrics

_OURS, _OURS_LIGHT, _THEIRS, _THEIRS_LIGHT = "blue", "light-blue", "orange", "light-orange"
_DURATION: Final = metrics.RELIST_DURATION.name
_INTERVAL: Final = metrics.RELIST_INTERVAL.name
# Renamed in Kubernetes, and by OpenTelemetry's receiver.
_KUBELETS_DISCARDS: Final = ("kubelet_pleg_discard_events", "kubelet_pleg_discard_events_total")
_CONTAINERD_DROPS: Final = "containerd_cri_container_events_dropped_total"
_CRIO_DROPS: Final = "container_runtime_crio_containers_events_dropped_total"


def relist_age() -> stat.Panel:
    """How fresh the relist is."""
    limit = LIMITS.relist_stale_seconds
    about = (
        "Age of the last successful relist when it was scraped. Good: at most the relist period, "
        f"10 s by default. Red: {limit:g} s, where the alert begins."
    )
    expr = age(own(metrics.LAST_SEEN.name), "")
    panel = panels.stat_panel("Relist age", about, expr, "s", above(limit)).decimals(0)
    return panel.links([frame.runbook("ShadowPlegRelistStale")])


def duration() -> timeseries.Panel:
    """How long relists take."""
    about = (
        "How long relists take. Good: well below a second, and as long as the kubelet's. While a "
        "relist hangs, only its age grows. The kubelet's highest bucket is 10 s, so its relists "
        f"never show more. The alert begins at the line, {LIMITS.relist_slow_seconds:g} s."
    )
    theirs = kubelet("kubelet_pleg_relist_duration_seconds_bucket")
    asked = {
        "p50": quantile(0.5, own(f"{_DURATION}_bucket")),
        "p99": quantile(0.99, own(f"{_DURATION}_bucket")),
        "kubelet p50": quantile(0.5, theirs),
        "kubelet p99": quantile(0.99, theirs),
    }
    panel = panels.lines("Relist duration", about, asked, "s", LIMITS.relist_slow_seconds)
    colours = (_OURS_LIGHT, _OURS, _THEIRS_LIGHT, _THEIRS)
    panels.coloured(panel, dict(zip(asked, colours, strict=True)))
    return panel.links([frame.runbook("ShadowPlegRelistSlow")])


def interval() -> timeseries.Panel:
    """How often relists begin."""
    about = (
        "Mean time between the starts of two relists. Good: flat; ours 10 s, the kubelet's 1 s, or "
        "300 s while it uses events (before 1.37). A kubelet that falls from 300 s to 1 s has "
        "given up its events. Ours is longer where the runtime is slow; beyond the line, "
        f"{LIMITS.relist_stretched_seconds:g} s, little is left of the comparison."
    )
    theirs = "kubelet_pleg_relist_interval_seconds"
    asked = {
        "relist": mean(own(f"{_INTERVAL}_sum"), own(f"{_INTERVAL}_count")),
        "kubelet": mean(kubelet(f"{theirs}_sum"), kubelet(f"{theirs}_count")),
        "pause in use": f"max({own(metrics.RELIST_PERIOD.name)})",
    }
    limit = LIMITS.relist_stretched_seconds
    panel = panels.lines("Relist interval", about, asked, "s", limit)
    panels.coloured(panel, {"relist": _OURS, "kubelet": _THEIRS, "pause in use": _OURS_LIGHT})
    return panel.links([frame.runbook("ShadowPlegRelistSlow")])


def discards() -> timeseries.Panel:
    """Who dropped events on the way."""
    about = (
        "Events that shadow-pleg, the kubelet or the runtime dropped. Good: nothing. The kubelet "
        "notices what it dropped only at its next relist. containerd drops events only while it "
        "has no subscriber."
    )
    asked = {
        "shadow-pleg": counted(own(f"{metrics.DISCARDS.name}_total")),
        "kubelet": counted(kubelet(*_KUBELETS_DISCARDS), of=kubelet),
        "containerd": counted(runtime(_CONTAINERD_DROPS), of=runtime),
        "CRI-O": counted(runtime(_CRIO_DROPS), of=runtime),
    }
    panel = panels.bars("Discarded events", about, asked)
    colours = (_OURS, _THEIRS, "purple", GOOD)
    panels.coloured(panel, dict(zip(asked, colours, strict=True)))
    return panel.links([frame.runbook("ShadowPlegKubeletDiscards")])


def lag() -> timeseries.Panel:
    """How late the loop wakes."""
    about = (
        "How late shadow-pleg's event loop woke up. Good: a p99 of some milliseconds. More: the "
        f"node gives it no CPU time. Beyond the line, {LIMITS.loop_lag_seconds:g} s, it is too "
        "slow to measure relists and delivery, and alerts about those do not fire."
    )
    buckets = own(f"{metrics.LOOP_LAG.name}_bucket")
    asked = {"p50": quantile(0.5, buckets), "p99": quantile(0.99, buckets)}
    panel = panels.lines("Event loop lag", about, asked, "s", LIMITS.loop_lag_seconds)
    return panel.links([frame.runbook("ShadowPlegEventsDiscarded")])
