"""Panels that both dashboards show, of the nodes that are chosen there."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import stat, table, timeseries

from dashboards import frame, panels
from dashboards.limits import LABELS
from dashboards.panels import BAD, GOOD, PLAIN, WARN, above
from dashboards.queries import SILENT, STALLED, Source, counted, losses, lost, own
from exporter import metrics
from promql.series import OWED, UNDECIDED

EVENT_COLOURS: Final = {
    "ContainerChanged": PLAIN,
    "ContainerStarted": GOOD,
    "ContainerDied": BAD,
    "ContainerRemoved": "purple",
}
CAUSE_COLOURS: Final = {
    "silent": BAD,
    # Loud, and not to be taken for one of its neighbours in either theme.
    "stalled": "#ff4fa3",
    "stream_down": WARN,
    "discarded": "purple",
    "shared": PLAIN,
    "undecided": "yellow",
}
_SEVERITIES: Final = {
    "critical": ("critical", BAD),
    "warning": ("warning", WARN),
    "info": ("info", PLAIN),
}


def _firing(by: str) -> str:
    """Alerts of this project that fire for the nodes, or for their cluster as a whole."""
    return (
        f'count by ({by}) (ALERTS{{alertname=~"ShadowPleg.+", alertstate="firing", '
        f'{LABELS.cluster}=~"$cluster", {LABELS.node}=~"$node|"}})'
    )


def alerted() -> frame.Annotation:
    """When alerts began to fire."""
    expr = _firing("alertname, severity")
    return frame.Annotation("Alert", BAD, expr, "{{alertname}} ({{severity}})")


def firing(*by: str) -> table.Panel:
    """What fires now; `by`: labels to tell apart beside name and severity."""
    about = (
        "Alerts of shadow-pleg that fire now, and for how many nodes; those of a whole cluster "
        "count as one. Click an alert for its runbook. Good: none."
    )
    columns = {"Number": _firing(", ".join(("alertname", "severity", *by)))}
    names = {"alertname": "Alert", "severity": "Severity"} | dict.fromkeys(by, "Cluster")
    without = "No alert is firing"
    panel = panels.rows("Firing alerts", about, columns, names, without=without)
    url = f"{frame.RUNBOOKS}/${{__value.text}}.md"
    links = {"links": [{"title": "Runbook", "url": url, "targetBlank": True}]}
    panel.override_by_name("Alert", panels.dynamic(links | {"custom.minWidth": 240}))
    severity = {
        "mappings": [panels.named(_SEVERITIES)],
        "custom.cellOptions": {"type": "color-text"},
    }
    panel.override_by_name("Severity", panels.dynamic(severity))
    panels.column(panel, "Number", panels.WHOLE, decimals=0)
    return panels.sorted_by(panel, "Number")


def lost_silently(of: Source) -> stat.Panel:
    """What the runtime did not announce."""
    about = (
        "Lifecycle events that the runtime did not announce, neither in time nor late, although "
        "shadow-pleg was subscribed all the time. Good: 0. Anything else is the runtime's fault, "
        "and what the alerts are for."
    )
    expr = lost(SILENT, of=of)
    panel = panels.stat_panel("Lost silently", about, expr, panels.WHOLE, above(0.5)).decimals(0)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def undelivered(of: Source) -> stat.Panel:
    """What an open stream did not bring."""
    about = (
        "Lifecycle events that never came over a stream that was open and stood still. It is not "
        "known by whose fault, but a kubelet on that node was not told, either. Good: 0."
    )
    expr = lost(STALLED, of=of)
    panel = panels.stat_panel("Undelivered", about, expr, panels.WHOLE, above(0.5)).decimals(0)
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])


def by_cause(of: Source) -> timeseries.Panel:
    """Why events were lost."""
    about = (
        "Events missed and not announced after all, by cause. silent: lost while shadow-pleg was "
        "subscribed, the runtime's fault. stalled: undelivered, by an open stream. stream_down: it "
        "was not connected. discarded: its own queue was full. shared: another subscriber may have "
        "it. undecided: exits that perhaps did not have to be announced. Below zero: came late, "
        "which takes an earlier bar back. Good: nothing. The bars add up to the number over the "
        "time range."
    )
    asked = {"{{cause}}": losses(OWED, "cause", of), "undecided": counted(of(UNDECIDED, ""))}
    panel = panels.coloured(panels.bars("Lost for good by cause", about, asked), CAUSE_COLOURS)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def wrong_lists(by: str = "", where: str = "") -> timeseries.Panel:
    """How many containers the runtime's lists get wrong; `where`: the end of the legends."""
    about = (
        "Containers of which the kernel shows something else than the runtime's lists. ghost: "
        "listed as running, and its last process has ended. stray: not listed, and its processes "
        "run. Good: none. Needs the kernel witness."
    )
    kinds = {"ghost": metrics.GHOSTS_NOW, "stray": metrics.STRAYS_NOW}
    numbers = {kind: f"max by ({by}) ({own(spec.name)})" for kind, spec in kinds.items()}
    asked = {f"{kind}{where}": f"{each} > 0" for kind, each in numbers.items()}
    panel = panels.lines("Ghosts and strays", about, asked, "short").decimals(0)
    panel = panels.coloured(panel, {"ghost": BAD, "stray": WARN})
    panel = panel.no_value("None in this time range")
    return panel.links([frame.runbook("ShadowPlegGhostContainers")])
