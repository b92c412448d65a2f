"""Panels that both dashboards show, of the nodes that are chosen there.

Here: those that are the same on both. Not here: where they stand.
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import heatmap, stat, timeseries

from dashboards import frame, panels
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, IDLE, PLAIN, WARN, above
from dashboards.queries import MISSED, bound, increase, own, silent
from exporter import metrics

DELIVERY: Final = f"{metrics.EVENT_DELIVERY.name}_bucket"
EVENT_COLOURS: Final = {
    "ContainerChanged": PLAIN,
    "ContainerStarted": GOOD,
    "ContainerDied": BAD,
    "ContainerRemoved": "purple",
}
BUDGET: Final = f"{LIMITS.budget * 100:g} %"


def firing() -> frame.Annotation:
    """Alerts of this project that fire for the nodes, or for their cluster as a whole."""
    expr = (
        'count by (alertname, severity) (ALERTS{alertname=~"ShadowPleg.+", alertstate="firing", '
        f'{LIMITS.cluster}=~"$cluster", {LIMITS.node}=~"$node|"}})'
    )
    return frame.Annotation("Alert", BAD, expr, "{{alertname}} ({{severity}})")


def lost() -> stat.Panel:
    """Silent misses in the time range."""
    about = (
        "Lifecycle events that happened, and that the runtime did not announce although we "
        "listened all the time. Good: 0. Anything else is what the alerts page for: look at the "
        "table of worst nodes below."
    )
    panel = panels.stat_panel("Silent misses", about, silent(), "short", above(0.5)).decimals(0)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def upper_bound() -> stat.Panel:
    """What can be claimed."""
    about = (
        "What can be claimed at 95 %: the true ratio is not above this. After n transitions "
        f"without a miss it is 3/n. Good: below {BUDGET}. Orange without a miss only means that "
        "too little was seen yet: choose a longer time range."
    )
    steps = above(LIMITS.budget, WARN)
    panel = panels.stat_panel("Ratio is at most (95 %)", about, bound(), "percentunit", steps)
    return panel.links([frame.runbook("ShadowPlegBudgetBurnSlow")])


def by_cause() -> timeseries.Panel:
    """Why events were missed."""
    about = (
        "Misses by cause. silent: lost while we listened, the runtime's fault. stream_down: we "
        "were not connected. discarded: our own queue was full. by_design: this runtime never "
        "announces that, and no harm. Good: by_design alone."
    )
    asked = {"{{cause}}": increase(own(MISSED), by="cause")}
    colours = {"silent": BAD, "stream_down": WARN, "discarded": "purple", "by_design": IDLE}
    panel = panels.coloured(panels.bars("Missed, by cause", about, asked), colours)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def delivery() -> heatmap.Panel:
    """How soon events come."""
    about = (
        "Time from the runtime's stamp on an event to its reception; the brighter, the more "
        f"events. Good: nearly all below 5 ms. The alert begins at a p99 of "
        f"{LIMITS.delivery_p99:g} s."
    )
    panel = panels.latencies("Delivery latency", about, increase(own(DELIVERY), by="le"))
    return panel.links([frame.runbook("ShadowPlegDeliverySlow")])
