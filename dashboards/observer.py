"""Panels of the node's dashboard about the exporter itself: what it costs, and whether it keeps up.

Here: its process. Not here: what it found out.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries

from dashboards import frame, panels
from dashboards.limits import LIMITS
from dashboards.queries import own, quantile, rate
from exporter import metrics


def cpu() -> timeseries.Panel:
    """CPU time."""
    about = "CPU time of shadow-pleg. Good: below 2 % of one core."
    asked = {"exporter": rate(own("process_cpu_seconds_total"))}
    return panels.lines("CPU", about, asked, "percentunit").axis_soft_max(0.05)


def memory() -> timeseries.Panel:
    """Resident memory."""
    about = "Resident memory of shadow-pleg. Good: flat, below 100 MiB."
    asked = {"exporter": f"max({own('process_resident_memory_bytes')})"}
    return panels.lines("Memory", about, asked, "bytes")


def lag() -> timeseries.Panel:
    """How late the loop wakes."""
    about = (
        "How late shadow-pleg's event loop woke up. Good: a p99 of some milliseconds. More: the "
        f"node gives it no CPU time. Beyond the line, {LIMITS.loop_lag:g} s, it is too slow to "
        "measure relists and delivery, and alerts about those do not fire."
    )
    buckets = own(f"{metrics.LOOP_LAG.name}_bucket")
    asked = {"p50": quantile(0.5, buckets), "p99": quantile(0.99, buckets)}
    panel = panels.lines("Event loop lag", about, asked, "s", LIMITS.loop_lag)
    return panel.links([frame.runbook("ShadowPlegEventsDiscarded")])
