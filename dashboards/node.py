"""One node: what each witness saw, who lost what, and whether the observer itself is well."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import stat, statetimeline, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from dashboards import both, frame, observer, panels
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, IDLE, PLAIN, WARN, above
from dashboards.queries import (
    LIFECYCLE,
    RANGE,
    RUNTIME,
    age,
    increase,
    kubelet,
    mean,
    own,
    quantile,
    rate,
    runtime,
    state_code,
)
from exporter import metrics

_LIFECYCLE_OF: Final = {
    "CREATED": "ContainerChanged",
    "STARTED": "ContainerStarted",
    "STOPPED": "ContainerDied",
    "DELETED": "ContainerRemoved",
}
# Ours, and beside it somebody else's.
_OURS, _OURS_LIGHT, _THEIRS, _THEIRS_LIGHT = "blue", "light-blue", "orange", "light-orange"
_DURATION: Final = metrics.RELIST_DURATION.name
_INTERVAL: Final = metrics.RELIST_INTERVAL.name


def build() -> models.Dashboard:
    """Build the dashboard."""
    about = "What the relist and the event stream of one node say, side by side."
    board = frame.new(LIMITS.node_uid, "shadow-pleg / Node", about, "now-1h")
    matchers = f'{LIMITS.cluster}=~"$cluster"'
    board.with_variable(frame.every("cluster", LIMITS.cluster, "Cluster"))
    board.with_variable(frame.every("job", "job", "Job", matchers))
    board.with_variable(frame.one("node", LIMITS.node, "Node", f'{matchers}, job=~"$job"'))
    board.link(frame.sibling("Fleet", LIMITS.fleet_uid))
    board.link(frame.link("Runbooks", LIMITS.runbooks))

    board.with_row(frame.section("Is the event stream of this node complete?"))
    for number in (state(), both.lost(), both.upper_bound(), relist_age(), discarded(), software()):
        board.with_panel(number.span(4))
    board.with_row(frame.section("The two witnesses"))
    board.with_panel(proven().span(12))
    board.with_panel(announced().span(12))
    board.with_panel(both.by_cause().span(12))
    board.with_panel(oddities().span(12))
    board.with_row(frame.section("The stream"))
    board.with_panel(timeline().span(8))
    board.with_panel(both.delivery().span(8).height(7))
    board.with_panel(last_seen().span(8))
    board.with_row(frame.section("The relist, beside the kubelet's own"))
    board.with_panel(duration().span(8))
    board.with_panel(interval().span(8))
    board.with_panel(discards().span(8))
    board.with_row(frame.section("What the observer costs"))
    board.with_panel(observer.cpu().span(6))
    board.with_panel(observer.memory().span(6))
    board.with_panel(observer.lag().span(6))
    board.with_panel(observer.queue().span(6))
    return frame.finished(board, [lost_stream(), reconnected(), both.firing()])


def lost_stream() -> frame.Annotation:
    """The stream ended: so it does when a runtime restarts."""
    ended = own(f"{metrics.STREAM_DISCONNECTS.name}_total", 'reason=~"eof|unavailable"')
    return frame.Annotation(
        "Stream ended",
        WARN,
        f"{increase(ended, by='reason')} > 0",
        "{{reason}}: a restart of containerd ends it as unavailable, one of CRI-O as eof",
    )


def reconnected() -> frame.Annotation:
    """A subscription began."""
    began = own(f"{metrics.STREAM_CONNECTIONS.name}_total")
    return frame.Annotation("Subscribed", PLAIN, f"{increase(began)} > 0", "a new subscription")


def state() -> stat.Panel:
    """The subscription now."""
    about = (
        "State of the event subscription now. Good: streaming. refused and unsupported: this "
        "runtime's version cannot be listened to without harm, or has no events. disabled: switch "
        "them on in the runtime's configuration."
    )
    panel = panels.stat_panel("Stream", about, state_code(""), "short", {None: GOOD})
    return panel.mappings([panels.state_names()]).links([frame.runbook("ShadowPlegStreamDown")])


def relist_age() -> stat.Panel:
    """How fresh the witness is."""
    limit = LIMITS.relist_stale
    about = (
        "Time since the last successful relist. Good: about the relist period, 10 s by default. "
        f"Red: {limit:g} s, where the alert begins."
    )
    expr = age(own(metrics.LAST_SEEN.name), "")
    panel = panels.stat_panel("Last relist", about, expr, "s", above(limit)).decimals(0)
    return panel.links([frame.runbook("ShadowPlegRelistStale")])


def discarded() -> stat.Panel:
    """What this process dropped."""
    about = (
        "Events dropped because this exporter's own queue was full. Good: 0. Misses of that time "
        "have the cause 'discarded' and prove nothing against the runtime."
    )
    dropped = increase(own(f"{metrics.DISCARDS.name}_total"), RANGE)
    panel = panels.stat_panel("Discarded here", about, dropped, "short", above(0.5, WARN))
    return panel.decimals(0).links([frame.runbook("ShadowPlegEventsDiscarded")])


def software() -> stat.Panel:
    """Which runtime."""
    about = (
        "The node's container runtime, and the kind of its event stream. Good: broadcast, where "
        "several may listen without harm to the kubelet."
    )
    expr = own(RUNTIME)
    legend = "{{name}} {{version}}, {{stream}}"
    panel = panels.stat_panel("Runtime", about, expr, "short", legend=legend)
    return panel.text_mode(kinds.BigValueTextMode.NAME)


def proven() -> timeseries.Panel:
    """The relist's testimony."""
    about = (
        "Lifecycle events that the shadow relist proved, a second. Good: the same picture as the "
        "announcements beside it. A relist does not see what begins and ends between two of them, "
        "so the stream may well announce more."
    )
    asked = {"{{event}}": rate(own(LIFECYCLE), "event")}
    panel = panels.lines("Proven by the relist", about, asked, "eps")
    return panels.coloured(panel, both.EVENT_COLOURS)


def announced() -> timeseries.Panel:
    """The stream's testimony."""
    about = (
        "Events that the stream announced, a second, under the names of what they announce. Good: "
        "at least as much as the relist proved beside it. Nothing here while the relist sees "
        "transitions: the stream is dead, whatever its state says."
    )
    received = f"{metrics.EVENTS_RECEIVED.name}_total"
    asked = {name: rate(own(received, f'event="{sent}"')) for sent, name in _LIFECYCLE_OF.items()}
    panel = panels.lines("Announced by the stream", about, asked, "eps")
    panel = panels.coloured(panel, both.EVENT_COLOURS)
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])


def oddities() -> timeseries.Panel:
    """Verdicts beside missed."""
    about = (
        "gap: a later step was announced, and this one was not; after an outage to be expected. "
        "late: counted as missed, and announced after all. unseen: announced, but over before a "
        "relist looked; harmless. duplicate: announced twice. contradicted: two relists say "
        "otherwise. backlog: older than the subscription. Good: unseen alone."
    )
    counted = (
        *(("gap", metrics.GAPS), ("late", metrics.LATE), ("unseen", metrics.UNSEEN)),
        *(("duplicate", metrics.DUPLICATES), ("contradicted", metrics.CONTRADICTED)),
        ("backlog", metrics.BACKLOG),
    )
    asked = {name: increase(own(f"{spec.name}_total")) for name, spec in counted}
    colours = {
        "gap": BAD,
        "late": WARN,
        "unseen": IDLE,
        "duplicate": PLAIN,
        "contradicted": "purple",
        "backlog": "yellow",
    }
    panel = panels.coloured(panels.bars("Gaps, late, unseen", about, asked), colours)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def timeline() -> statetimeline.Panel:
    """The subscription over time."""
    about = (
        "State of the subscription over time. Good: green from end to end. Misses while it is not "
        "streaming have the cause 'stream_down'."
    )
    panel = panels.states("State of the stream", about, state_code(""), "stream").height(7)
    return panel.links([frame.runbook("ShadowPlegStreamDown")])


def last_seen() -> timeseries.Panel:
    """Ages of the two witnesses' last words."""
    about = (
        "Time since the last successful relist, since the last event, and since the kubelet's own "
        "relist. Good: relists stay near their periods. An old event alone means a quiet node. The "
        "kubelet's is always fresh while its Evented PLEG is on (up to Kubernetes 1.36), even if "
        "its relist hangs."
    )
    asked = {
        "relist": age(own(metrics.LAST_SEEN.name), ""),
        "event": age(own(metrics.STREAM_LAST_SEEN.name), ""),
        "kubelet's relist": age(kubelet("kubelet_pleg_last_seen_seconds"), ""),
    }
    panel = panels.lines("Age of what was seen last", about, asked, "s", LIMITS.relist_stale)
    panels.coloured(panel, {"relist": _OURS, "event": "purple", "kubelet's relist": _THEIRS})
    return panel.links([frame.runbook("ShadowPlegRelistStale")])


def duration() -> timeseries.Panel:
    """How long relists take."""
    about = (
        "How long a relist takes. Good: well below a second, and ours like the kubelet's. These "
        "freeze while a relist hangs: look at the age of the last one, too. The kubelet's highest "
        f"bucket is 10 s, so it never shows more. The line is the alert's: "
        f"{LIMITS.relist_slow:g} s."
    )
    theirs = kubelet("kubelet_pleg_relist_duration_seconds_bucket")
    asked = {
        "p50": quantile(0.5, own(f"{_DURATION}_bucket")),
        "p99": quantile(0.99, own(f"{_DURATION}_bucket")),
        "kubelet p50": quantile(0.5, theirs),
        "kubelet p99": quantile(0.99, theirs),
    }
    panel = panels.lines("Duration of relists", about, asked, "s", LIMITS.relist_slow)
    colours = (_OURS_LIGHT, _OURS, _THEIRS_LIGHT, _THEIRS)
    panels.coloured(panel, dict(zip(asked, colours, strict=True)))
    return panel.links([frame.runbook("ShadowPlegRelistSlow")])


def interval() -> timeseries.Panel:
    """How often relists begin."""
    about = (
        "Mean time between the starts of two relists. Good: flat; ours 10 s, the kubelet's 1 s, or "
        "300 s while it uses events (before 1.37). A kubelet that falls from 300 s to 1 s has "
        f"given its events up. Ours is stretched where the runtime is slow; the line is the "
        f"alert's, {LIMITS.relist_stretched:g} s."
    )
    theirs = "kubelet_pleg_relist_interval_seconds"
    asked = {
        "relist": mean(own(f"{_INTERVAL}_sum"), own(f"{_INTERVAL}_count")),
        "kubelet": mean(kubelet(f"{theirs}_sum"), kubelet(f"{theirs}_count")),
        "pause in use": f"max({own(metrics.RELIST_PERIOD.name)})",
    }
    limit = LIMITS.relist_stretched
    panel = panels.lines("Interval of relists", about, asked, "s", limit)
    panels.coloured(panel, {"relist": _OURS, "kubelet": _THEIRS, "pause in use": _OURS_LIGHT})
    return panel.links([frame.runbook("ShadowPlegRelistSlow")])


def discards() -> timeseries.Panel:
    """Who dropped events on the way."""
    about = (
        "Events dropped on their way: by this exporter, by the kubelet (which never makes up for "
        "them), by the runtime. Good: nothing. containerd counts only while there is no subscriber."
    )
    asked = {
        "here": increase(own(f"{metrics.DISCARDS.name}_total")),
        "kubelet": increase(kubelet("kubelet_pleg_discard_events")),
        "containerd": increase(runtime("containerd_cri_container_events_dropped_total")),
        "CRI-O": increase(runtime("container_runtime_crio_containers_events_dropped_total")),
    }
    panel = panels.bars("Events discarded", about, asked)
    colours = (_OURS, _THEIRS, "purple", GOOD)
    panels.coloured(panel, dict(zip(asked, colours, strict=True)))
    return panel.links([frame.runbook("ShadowPlegKubeletDiscards")])
