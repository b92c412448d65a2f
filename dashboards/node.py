"""One node: what relist and stream reported, what was missed, and what shadow-pleg costs."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import heatmap, stat, statetimeline, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from dashboards import both, frame, observer, panels, relists, sides
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, IDLE, PLAIN, WARN
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

_LIFECYCLE_OF: Final = {
    "CREATED": "ContainerChanged",
    "STARTED": "ContainerStarted",
    "STOPPED": "ContainerDied",
    "DELETED": "ContainerRemoved",
}


def build() -> models.Dashboard:
    """Build the dashboard."""
    about = "What the relist and the event stream of one node reported, side by side."
    board = frame.new(LIMITS.node_uid, "shadow-pleg / Node", about, "now-1h")
    matchers = f'{LIMITS.cluster}=~"$cluster"'
    board.with_variable(frame.every("cluster", LIMITS.cluster, "Cluster"))
    board.with_variable(frame.every("job", "job", "Job", matchers))
    board.with_variable(frame.one("node", LIMITS.node, "Node", f'{matchers}, job=~"$job"'))
    board.with_variable(frame.runbooks())
    board.link(frame.sibling("Fleet", LIMITS.fleet_uid))
    board.link(frame.link("Runbooks", frame.RUNBOOKS))

    board.with_row(frame.section("Is the event stream of this node complete?"))
    for number in (
        state(),
        both.lost_silently(scraped),
        both.undelivered(scraped),
        both.time_subscribed(),
        relists.relist_age(),
        software(),
    ):
        board.with_panel(number.span(4))
    for chart in (both.by_cause(scraped), other_findings(), both.wrong_lists()):
        board.with_panel(chart.span(6))
    board.with_panel(both.firing().span(6).height(7))
    board.with_row(frame.section("Relist and event stream"))
    board.with_panel(proven().span(12))
    board.with_panel(announced().span(12))
    board.with_panel(timeline().span(8))
    board.with_panel(both.disconnects(scraped).span(8))
    board.with_panel(delivery().span(8).height(7))
    board.with_panel(noticed().span(12))
    board.with_panel(sides.alone().span(12))
    board.with_row(frame.section("Relists of shadow-pleg and of the kubelet"))
    board.with_panel(relists.ages().span(6))
    board.with_panel(relists.duration().span(6))
    board.with_panel(relists.interval().span(6))
    board.with_panel(relists.discards().span(6))
    board.with_row(frame.section("What shadow-pleg costs"))
    board.with_panel(observer.cpu().span(8))
    board.with_panel(observer.memory().span(8))
    board.with_panel(observer.lag().span(8))
    return frame.finished(board, [lost_stream(), reconnected(), both.alerted()])


def lost_stream() -> frame.Annotation:
    """The stream ended: so it does when a runtime restarts."""
    ended = scraped(metrics.STREAM_DISCONNECTS, 'reason=~"eof|unavailable"')
    return frame.Annotation(
        "Stream ended",
        WARN,
        f"{increase(ended, INTERVAL, 'reason')} > 0",
        "{{reason}}: unavailable when containerd restarts, eof when CRI-O does",
    )


def reconnected() -> frame.Annotation:
    """A subscription began."""
    began = f"{increase(scraped(metrics.STREAM_CONNECTIONS), INTERVAL)} > 0"
    return frame.Annotation("Subscribed", PLAIN, began, "a new subscription")


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
    asked = {"{{event}}": rate(scraped(metrics.LIFECYCLE), "event")}
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
        name: rate(scraped(metrics.EVENTS_RECEIVED, f'event="{sent}"'))
        for sent, name in _LIFECYCLE_OF.items()
    }
    panel = panels.lines("Lifecycle events announced by the stream", about, asked, "eps")
    panel = panels.coloured(panel, both.EVENT_COLOURS)
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])


def other_findings() -> timeseries.Panel:
    """Verdicts beside missed."""
    about = (
        "gap: a later step was announced and this one was not. gap, outage: the same, explained "
        "by an outage of the stream. late: announced after it was counted as missed. unseen: "
        "announced, and over before a relist could see it; harmless. duplicate: announced twice. "
        "contradicted: two relists say otherwise. backlog: older than the subscription. Good: "
        "unseen alone."
    )
    counters = {
        "late": metrics.LATE,
        "unseen": metrics.UNSEEN,
        "duplicate": metrics.DUPLICATES,
        "contradicted": metrics.CONTRADICTED,
        "backlog": metrics.BACKLOG,
    }
    gaps, explained = (counted(scraped(each)) for each in (metrics.GAPS, metrics.OUTAGE_GAPS))
    asked = {"gap": f"clamp_min({gaps} - {explained}, 0)", "gap, outage": explained}
    asked |= {name: counted(scraped(spec)) for name, spec in counters.items()}
    colours = {
        "gap": BAD,
        "gap, outage": "light-red",
        "late": WARN,
        "unseen": IDLE,
        "duplicate": PLAIN,
        "contradicted": "purple",
        "backlog": "yellow",
    }
    panel = panels.coloured(panels.bars("Other findings", about, asked), colours)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def timeline() -> statetimeline.Panel:
    """The subscription over time."""
    about = (
        "State of the subscription over time. Good: green from end to end. Misses while it is not "
        "streaming have the cause stream_down."
    )
    panel = panels.states("Stream state over time", about, state_code(""), "stream").height(7)
    return panel.links([frame.runbook("ShadowPlegStreamDown")])


def delivery() -> heatmap.Panel:
    """How soon events come."""
    about = (
        "Time from the runtime's timestamp on an event to its reception; the brighter, the more "
        "events. Good: nearly all below 5 ms. Some of a second or more: something holds the stream "
        "up, and what comes later than the grace is missed first, as stalled."
    )
    buckets = own(f"{metrics.EVENT_DELIVERY.name}_bucket")
    panel = panels.latencies("Delivery latency", about, counted(buckets, "le"))
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])


def noticed() -> timeseries.Panel:
    """How late the stream and the lists tell of an exit."""
    about = (
        "Time from the end of a container's processes until its exit was announced, and until the "
        "first shadow relist that shows it. Good: announced within 0.1 s; listed within a relist "
        "period, 10 s by default. Both late by as much: the runtime cleans up slowly. Half of "
        f"them announced later than {LIMITS.exit_p50:g} s, the line, is an alert."
    )
    histograms = {"announced": metrics.EXIT_TO_EVENT, "listed": metrics.EXIT_TO_LIST}
    asked = {
        f"{name}, {share * 100:g} %": quantile(share, own(f"{of.name}_bucket"))
        for name, of in histograms.items()
        for share in (0.5, 0.99)
    }
    panel = panels.lines("From exit to notice", about, asked, "s", LIMITS.exit_p50)
    colours = ("blue", "light-blue", "orange", "light-orange")
    panels.coloured(panel, dict(zip(asked, colours, strict=True)))
    return panel.links([frame.runbook("ShadowPlegExitsAnnouncedLate")])
