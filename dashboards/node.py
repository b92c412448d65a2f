"""One node: what relist and stream reported, what was missed, and what shadow-pleg costs."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import stat, statetimeline, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from dashboards import both, frame, panels
from dashboards.limits import LABELS, LIMITS, LINKS
from dashboards.panels import GOOD, WARN, above
from dashboards.queries import (
    INTERVAL,
    RUNTIME,
    age,
    counted,
    increase,
    kubelet,
    mean,
    own,
    quantile,
    rate,
    runtime,
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
_OURS, _OURS_LIGHT, _THEIRS, _THEIRS_LIGHT = "blue", "light-blue", "orange", "light-orange"
_DURATION: Final = metrics.RELIST_DURATION.name
_INTERVAL: Final = metrics.RELIST_INTERVAL.name
# Renamed in Kubernetes, and by OpenTelemetry's receiver.
_KUBELETS_DISCARDS: Final = ("kubelet_pleg_discard_events", "kubelet_pleg_discard_events_total")
_CONTAINERD_DROPS: Final = "containerd_cri_container_events_dropped_total"
_CRIO_DROPS: Final = "container_runtime_crio_containers_events_dropped_total"


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
    board.with_panel(relist_age().span(4))
    for chart in (both.by_cause(scraped), both.wrong_lists(), both.firing().height(7)):
        board.with_panel(chart.span(8))
    board.with_row(frame.section("Relist and event stream"))
    board.with_panel(proven().span(12))
    board.with_panel(announced().span(12))
    for each in (timeline(), disconnects(), delivery()):
        board.with_panel(each.span(8))
    board.with_panel(noticed().span(24))
    board.with_row(frame.section("shadow-pleg, and the kubelet beside it"))
    for chart in (relist_duration(), relist_interval(), discards(), lag()):
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


def relist_duration() -> timeseries.Panel:
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


def relist_interval() -> timeseries.Panel:
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
