"""One node: what relist and stream reported, what was missed, and what shadow-pleg costs."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import stat, statetimeline, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from dashboards import both, frame, panels, relists
from dashboards.limits import LABELS, LIMITS, LINKS
from dashboards.panels import GOOD, WARN
from dashboards.queries import (
    INTERVAL,
    RUNTIME,
    counted,
    increase,
    own,
    quantile,
    rate,
    scraped,
    state_code,
)
from exporter import metrics
from promql.series import ENDS, LIFECYCLE, RECEIVED, STALLS

_LIFECYCLE_OF: Final = {
    "CREATED": "ContainerChanged",
    "STARTED": "ContainerStarted",
    "STOPPED": "ContainerDied",
    "DELETED": "ContainerRemoved",
}


def build() -> models.Dashboard:
    """Build the dashboard."""
    about = "What the relist and the event stream of one node reported, side by side."
    board = frame.new(LINKS.node_uid, "shadow-pleg / Node", about, "now-1h")
    matchers = f'{LABELS.cluster}=~"$cluster"'
    board.with_variable(frame.every("cluster", LABELS.cluster, "Cluster"))
    board.with_variable(frame.every("job", "job", "Job", matchers))
    board.with_variable(frame.one("node", LABELS.node, "Node", f'{matchers}, job=~"$job"'))
    board.with_variable(frame.runbooks())
    board.link(frame.sibling("Fleet", LINKS.fleet_uid))
    board.link(frame.link("Runbooks", frame.RUNBOOKS))

    board.with_row(frame.section("Is the event stream of this node complete?"))
    for number in (state(), both.lost_silently(scraped), both.undelivered(scraped), software()):
        board.with_panel(number.span(5))
    board.with_panel(relists.relist_age().span(4))
    for chart in (both.by_cause(scraped), both.wrong_lists(), both.firing().height(7)):
        board.with_panel(chart.span(8))
    board.with_row(frame.section("Relist and event stream"))
    board.with_panel(proven().span(12))
    board.with_panel(announced().span(12))
    for each in (timeline(), disconnects(), delivery()):
        board.with_panel(each.span(8))
    board.with_panel(noticed().span(24))
    board.with_row(frame.section("shadow-pleg, and the kubelet beside it"))
    for chart in (relists.duration(), relists.interval(), relists.discards(), relists.lag()):
        board.with_panel(chart.span(6))
    return frame.finished(board, [lost_stream(), both.alerted()])


def lost_stream() -> frame.Annotation:
    """The stream ended: so it does when a runtime restarts."""
    ended = own(f"{metrics.STREAM_DISCONNECTS.name}_total", 'reason=~"eof|unavailable"')
    return frame.Annotation(
        "Stream ended",
        WARN,
        f"{increase(ended, INTERVAL, 'reason')} > 0",
        "{{reason}}: unavailable when containerd restarts, eof when CRI-O does",
    )


def state() -> stat.Panel:
    """The subscription now."""
    about = (
        "State of the event subscription now. Good: streaming. refused: a second subscriber could "
        "harm the kubelet with this runtime version. unsupported: this version has no events. "
        "disabled: switch them on in the runtime's configuration."
    )
    panel = panels.stat_panel("Stream state", about, state_code(""), "short", {None: GOOD})
    return panel.mappings([panels.state_names()]).links([frame.runbook("ShadowPlegStreamDown")])


def software() -> stat.Panel:
    """Which runtime."""
    about = (
        "The node's container runtime, and the kind of its event stream. Good: broadcast, which "
        "several may subscribe to without harm to the kubelet."
    )
    expr = own(RUNTIME)
    legend = "{{name}} {{version}}, {{stream}}"
    panel = panels.stat_panel("Runtime", about, expr, "short", legend=legend)
    return panel.text_mode(kinds.BigValueTextMode.NAME)


def proven() -> timeseries.Panel:
    """What the relist reported."""
    about = (
        "Lifecycle events per second that the shadow relist proved. Good: about the same as the "
        "stream announced. The stream may announce more, because a relist does not see what "
        "begins and ends between two relists."
    )
    asked = {"{{event}}": rate(scraped(LIFECYCLE), "event")}
    panel = panels.lines("Lifecycle events proven by the relist", about, asked, "eps")
    return panels.coloured(panel, both.EVENT_COLOURS)


def announced() -> timeseries.Panel:
    """What the stream reported."""
    about = (
        "Lifecycle events per second that the stream announced. Good: at least as many as the "
        "relist proved. If there are none while the relist proves some, the stream is dead, "
        "whatever its state says."
    )
    asked = {
        name: rate(scraped(RECEIVED, f'event="{sent}"')) for sent, name in _LIFECYCLE_OF.items()
    }
    panel = panels.lines("Lifecycle events announced by the stream", about, asked, "eps")
    panel = panels.coloured(panel, both.EVENT_COLOURS)
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])


def timeline() -> statetimeline.Panel:
    """The subscription over time."""
    about = (
        "State of the subscription over time. Good: green from end to end. Misses while it is not "
        "streaming have the cause stream_down."
    )
    panel = panels.states("Stream state over time", about, state_code(""), "stream").height(7)
    return panel.links([frame.runbook("ShadowPlegStreamDown")])


def disconnects() -> timeseries.Panel:
    """How often subscriptions ended, or stood still."""
    about = (
        "ended: subscriptions that the runtime ended, for example because it restarted. overflow: "
        "closed by shadow-pleg, whose queue was full. stalled: times that the stream was open and "
        "brought nothing; another subscriber may hold it up. Good: nothing but restarts."
    )
    ended = f"{metrics.STREAM_DISCONNECTS.name}_total"
    asked = {
        "ended": counted(scraped(ENDS)),
        "overflow": counted(own(ended, 'reason="overflow"')),
        "stalled": counted(scraped(STALLS)),
    }
    colours = {"ended": WARN, "overflow": "purple", "stalled": both.CAUSE_COLOURS["stalled"]}
    panel = panels.coloured(panels.bars("Ends and stalls of streams", about, asked), colours)
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])


def delivery() -> timeseries.Panel:
    """How soon events come."""
    about = (
        "Time from the runtime's timestamp on an event to its reception. Good: below 5 ms. "
        f"{LIMITS.delivery_p99_seconds:g} s, the line, is the stress mark of KEP-3386: something "
        "holds the stream up, and what comes later than the grace is missed first, as stalled."
    )
    buckets = own(f"{metrics.EVENT_DELIVERY.name}_bucket")
    asked = {"p50": quantile(0.5, buckets), "p99": quantile(0.99, buckets)}
    panel = panels.lines("Delivery latency", about, asked, "s", LIMITS.delivery_p99_seconds)
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])


def noticed() -> timeseries.Panel:
    """How late the stream and the lists tell of an exit."""
    about = (
        "Time from the end of a container's processes until its exit was announced, and until the "
        "first shadow relist that shows it. Good: announced within 0.1 s; listed within a relist "
        "period, 10 s by default. Both late by as much: the runtime cleans up slowly. Half of "
        f"them announced later than {LIMITS.exit_p50_seconds:g} s, the line, is an alert."
    )
    histograms = {"announced": metrics.EXIT_TO_EVENT, "listed": metrics.EXIT_TO_LIST}
    asked = {
        f"{name}, {share * 100:g} %": quantile(share, own(f"{of.name}_bucket"))
        for name, of in histograms.items()
        for share in (0.5, 0.99)
    }
    panel = panels.lines("From exit to notice", about, asked, "s", LIMITS.exit_p50_seconds)
    colours = ("blue", "light-blue", "orange", "light-orange")
    panels.coloured(panel, dict(zip(asked, colours, strict=True)))
    return panel.links([frame.runbook("ShadowPlegExitsAnnouncedLate")])
