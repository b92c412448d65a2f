"""Panels that both dashboards show, of the nodes that are chosen there.

Here: those that are the same on both. Not here: where they stand.
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import stat, table, timeseries

from dashboards import frame, panels
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, IDLE, PLAIN, WARN, above
from dashboards.queries import LISTENING, MISSED, UNDECIDED, counted, down, own, ratio, silent
from exporter import metrics

EVENT_COLOURS: Final = {
    "ContainerChanged": PLAIN,
    "ContainerStarted": GOOD,
    "ContainerDied": BAD,
    "ContainerRemoved": "purple",
}
BUDGET: Final = f"{LIMITS.budget * 100:g} %"
DISCONNECTS: Final = f"{metrics.STREAM_DISCONNECTS.name}_total"
_SEVERITIES: Final = {
    "critical": ("critical", BAD),
    "warning": ("warning", WARN),
    "info": ("info", PLAIN),
}


def _firing(by: str) -> str:
    """Alerts of this project that fire for the nodes, or for their cluster as a whole."""
    return (
        f'count by ({by}) (ALERTS{{alertname=~"ShadowPleg.+", alertstate="firing", '
        f'{LIMITS.cluster}=~"$cluster", {LIMITS.node}=~"$node|"}})'
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
    panels.column(panel, "Number", "short", decimals=0)
    return panels.sorted_by(panel, "Number")


def lost() -> stat.Panel:
    """Silent misses in the time range."""
    about = (
        "Lifecycle events that the runtime did not announce although shadow-pleg was subscribed "
        "all the time. Good: 0. Anything else is the runtime's fault, and what the alerts are for."
    )
    panel = panels.stat_panel("Silent misses", about, silent(), "short", above(0.5)).decimals(0)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def loss_ratio() -> stat.Panel:
    """The ratio itself."""
    about = (
        "Silent misses as a share of the transitions judged. Good: 0 %. Red: more than the "
        f"alerts' objective allows, {BUDGET}."
    )
    panel = panels.stat_panel("Loss ratio", about, ratio(), "percentunit", above(LIMITS.budget))
    return panel.no_value("nothing judged").links([frame.runbook("ShadowPlegBudgetBurnFast")])


def stream_down() -> stat.Panel:
    """Share of the time without a stream."""
    about = (
        "Share of the nodes' time in which the subscription was down, over the time range; nodes "
        "whose stream is refused, unsupported or disabled now are not counted. Events of that "
        "time are missed with the cause stream_down. Good: below 1 %. Needs the recording rules."
    )
    steps = {None: GOOD, 0.01: WARN, 1 - LISTENING: BAD}
    panel = panels.stat_panel("Stream down", about, down(), "percentunit", steps)
    return panel.links([frame.runbook("ShadowPlegStreamDown")])


def by_cause() -> timeseries.Panel:
    """Why events were missed."""
    about = (
        "Missed events by cause. silent: lost while shadow-pleg was subscribed, the runtime's "
        "fault. stream_down: it was not connected. discarded: its own queue was full. by_design: "
        "this runtime never announces them, which is harmless. undecided: exits that were not "
        "announced, and perhaps did not have to be. Good: by_design alone. The bars add up to the "
        "number over the time range."
    )
    asked = {"{{cause}}": counted(own(MISSED), "cause"), "undecided": counted(own(UNDECIDED))}
    colours = {"silent": BAD, "stream_down": WARN, "discarded": "purple", "by_design": IDLE}
    panel = panels.bars("Missed events by cause", about, asked)
    panel = panels.coloured(panel, colours | {"undecided": "yellow"})
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


def disconnects() -> timeseries.Panel:
    """Why subscriptions ended."""
    about = (
        "Subscriptions that ended, by reason. ended: by the runtime, for example because it "
        "restarted. stalled: open, but the runtime sent nothing; another subscriber may hold it "
        "up. overflow: closed by shadow-pleg, whose queue was full. kubelet: closed by "
        "shadow-pleg, to leave the stream to the kubelet. Good: nothing but restarts."
    )
    told = {name: f'reason="{name}"' for name in ("stalled", "overflow", "kubelet")}
    rest = {"ended": f'reason!~"{"|".join(told)}"'}
    asked = {name: counted(own(DISCONNECTS, which)) for name, which in (rest | told).items()}
    colours = {"ended": WARN, "stalled": BAD, "overflow": "purple", "kubelet": IDLE}
    panel = panels.coloured(panels.bars("Ended subscriptions", about, asked), colours)
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])
