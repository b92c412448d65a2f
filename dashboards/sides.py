"""Panels about whose side lost an event: the runtime's, the kubelet's or the exporter's own.

Blind spot: what both sides lost between the same two readings of the kubelet's counts cancels out.
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import table, timeseries

from dashboards import frame, panels
from dashboards.limits import LIMITS
from dashboards.panels import BAD, IDLE, PLAIN, WARN, above
from dashboards.queries import LISTENING, NODE, RANGE, SILENT, counted, increase, lost, own, worst
from exporter import metrics

_COMPARING: Final = own(metrics.KUBELET_COMPARISON.name, 'state="comparing"')
_MISSED: Final = f"{metrics.KUBELET_MISSED.name}_total"
_ONLY: Final = own(f"{metrics.KUBELET_ONLY.name}_total")
_ALONE: Final = {
    "kubelet, connected": own(_MISSED, 'cause="silent"'),
    "kubelet, stream down": own(_MISSED, 'cause="stream_down"'),
    "kubelet, gave up": own(_MISSED, 'cause="gave_up"'),
    "exporter": _ONLY,
}
_LISTED: Final = 25


def alone() -> timeseries.Panel:
    """What only one side missed."""
    about = (
        "Events that reached one side only, by who missed them: the kubelet while its stream was "
        "up, while it was down, or after it gave up; or shadow-pleg, which was subscribed. The "
        "runtime announced them all. Only what the counts of both sides prove; needs "
        "--kubelet-metrics-url. Good: nothing, but for a runtime's restart."
    )
    asked = {name: counted(series) for name, series in _ALONE.items()}
    panel = panels.bars("Missed by one side only", about, asked)
    panel = panels.coloured(panel, dict(zip(asked, (BAD, WARN, IDLE, PLAIN), strict=True)))
    panel = panel.no_value("No kubelet is queried")
    return panel.links([frame.runbook("ShadowPlegKubeletMissedEvents")])


def whose() -> table.Panel:
    """Nodes that lost something, by whose side lost it."""
    about = (
        f"Nodes that lost events, at most {_LISTED}. Runtime: neither side got them, as far as the "
        "counts tell. Kubelet, exporter: the other side did. Stream down, gave up: why the kubelet "
        "did not, else its stream was up. Undecided: how many more the kubelet may miss now. "
        "Compared: share of the time in which the counts could be compared; below "
        f"{LISTENING * 100:g} %, the runtime's side is not told. Needs --kubelet-metrics-url. "
        "Good: no row."
    )
    compared = f"avg by ({NODE}) (avg_over_time({_COMPARING}[{RANGE}]))"
    missed, silent = increase(own(_MISSED), by=NODE), lost(SILENT, NODE)
    silently, down, gave_up, ours = (increase(each, by=NODE) for each in _ALONE.values())
    neither = f"clamp_min(round({silent}) - round({ours}), 0)"
    of_those = {
        "Runtime": f"{neither} and on ({NODE}) {compared} >= {LISTENING}",
        "Kubelet": silently,
        "Stream down": down,
        "Gave up": gave_up,
        "Exporter": ours,
        "Undecided": f"max by ({NODE}) ({own(metrics.KUBELET_UNDECIDED.name)})",
        "Compared": compared,
    }
    chosen = f"({missed} + {ours} + {silent} > 0.5) and on ({NODE}) {compared} > 0"
    columns = {name: worst(f"({expr})", chosen, _LISTED) for name, expr in of_those.items()}
    names = {LIMITS.node: "Node", LIMITS.cluster: "Cluster"}
    without = "No node that queries its kubelet lost events"
    panel = panels.rows("Whose side lost events", about, columns, names, without=without)
    for name in of_those:
        steps = above(0.5) if name in ("Runtime", "Kubelet") else panels.FINE
        panels.column(panel, name, panels.WHOLE, steps, decimals=0)
    panels.column(panel, "Compared", "percentunit", decimals=0)
    panel.links([frame.runbook("ShadowPlegKubeletMissedEvents")])
    return panels.sorted_by(panel.height(7), "Kubelet", "Runtime")
