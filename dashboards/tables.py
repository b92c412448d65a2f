"""Tables of the fleet: what was lost, by event, runtime version and node."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import table

from dashboards import frame, panels
from dashboards.limits import LABELS, LIMITS, LINKS
from dashboards.panels import FINE, above
from dashboards.queries import (
    NODE,
    RANGE,
    RUNTIME,
    SILENT,
    STALLED,
    UNHEARD,
    VERSION,
    VERSION_NAMES,
    age,
    increase,
    kept,
    lost,
    of_version,
    own,
    runtime,
    state_code,
    witnessed,
    worst,
)
from exporter import metrics
from promql.series import (
    ENDS,
    EXIT,
    EXIT_TO_EVENT,
    EXIT_TO_LIST,
    EXITS,
    GAPS,
    OTHERS,
    STALLS,
    UNDECIDED,
    UNTOLD,
    UP,
    Kept,
)
from promql.text import label

_LISTED: Final = 25
_NODE_LINK: Final = (
    f"/d/{LINKS.node_uid}?var-datasource=${{datasource}}"
    "&var-cluster=${__data.fields.Cluster}&var-node=${__data.fields.Node}&${__url_time_range}"
)
_DROPS: Final = (
    "containerd_cri_container_events_dropped_total",
    "container_runtime_crio_containers_events_dropped_total",
)
# What a kubelet was not told, either.
_LOSSES: Final = ("Silent", "Undelivered", "Exits lost", "Others lost")


def events() -> table.Panel:
    """What was lost of each event, and why."""
    about = (
        "Lifecycle events that were witnessed, and those lost for good, by cause. Silent: lost "
        "while shadow-pleg was subscribed, the runtime's fault. Undelivered: the subscription was "
        "open, and nothing came in time. Not heard by shadow-pleg: its stream was down, its queue "
        "was full, or another subscriber shares the stream. Undecided: exits that perhaps did not "
        "have to be announced. ContainerDied is what every kubelet acts on. Good: 0 silent and 0 "
        "undelivered. Needs the recording rules."
    )
    maybe = increase(kept(UNDECIDED))
    columns = {
        "Witnessed": witnessed("event"),
        "Silent": lost(SILENT, "event"),
        "Undelivered": lost(STALLED, "event"),
        "Stream down": lost('cause="stream_down"', "event"),
        "Queue": lost('cause="discarded"', "event"),
        "Shared": lost('cause="shared"', "event"),
        "Undecided": label(maybe, "event", EXIT),
    }
    panel = panels.rows("Lost for good by event and cause", about, columns, {"event": "Event"})
    _counts(panel, *(name for name in columns if name != "Witnessed"))
    panel.override_by_name("Event", panels.dynamic({"custom.minWidth": 138}))
    panel.links([frame.runbook("ShadowPlegMissedEvents")])
    return panels.sorted_by(panel.height(7), "Witnessed")


def versions() -> table.Panel:
    """What each runtime version loses, and how soon it tells of an exit."""
    about = (
        "What a verdict is made of, by runtime version, over the time range. Nodes are as of now; "
        "a node whose runtime changed counts for no version. Lost: silent and undelivered, for "
        "good. Stalls: times that the stream was open and delivered nothing. Ends: subscriptions "
        "that ended. Announced, listed: half of the exits within this time after the process "
        "ended. broadcast: several may subscribe. exclusive: a second subscriber takes events from "
        "the kubelet. fragile: it can crash the runtime. none: there is no stream. Good: nothing "
        "lost, subscribed all the time. Needs the recording rules."
    )
    up = f"avg by ({NODE}) (avg_over_time({kept(UP)}[{RANGE}]))"
    columns = {
        "Nodes": f"count by ({VERSION}) ({own(RUNTIME)})",
        "Subscribed": of_version(up, how="avg"),
        "Exits": of_version(witnessed(NODE, EXITS)),
        "Exits lost": of_version(lost(f"{EXITS}, {UNTOLD}", NODE)),
        "Others lost": of_version(lost(f"{OTHERS}, {UNTOLD}", NODE)),
        "Stalls": of_version(increase(kept(STALLS), per=NODE)),
        "Ends": of_version(increase(kept(ENDS), per=NODE)),
        "Announced": _half(EXIT_TO_EVENT),
        "Listed": _half(EXIT_TO_LIST),
    }
    panel = panels.rows("By runtime version", about, columns, VERSION_NAMES)
    _counts(panel, "Nodes", "Exits lost", "Others lost", "Stalls", "Ends")
    panels.column(panel, "Subscribed", "percentunit", decimals=1)
    panels.column(panel, "Announced", "s", above(LIMITS.exit_p50_seconds))
    panels.column(panel, "Listed", "s")
    return panels.sorted_by(panel.height(5), "Exits lost", "Nodes")


def losing_nodes() -> table.Panel:
    """Nodes with their numbers, and the way to each."""
    about = (
        f"Nodes that lost events, silently or undelivered: at most {_LISTED}. Click one for its "
        "own dashboard. Not heard: missed because shadow-pleg's stream was down, its queue full, "
        "or the stream shared. Gaps: announcements that are missing before a later one, without "
        "an outage that explains them. Dropped: by the runtime's own account, where it is scraped. "
        "Good: no row. Needs the recording rules."
    )
    chosen = f"{lost(UNTOLD, NODE)} > 0.5"
    drops = " or ".join(increase(runtime(name), per=NODE) for name in _DROPS)
    of_those = {
        "State": state_code(),
        "Exits lost": lost(f"{EXITS}, {UNTOLD}", NODE),
        "Silent": lost(SILENT, NODE),
        "Undelivered": lost(STALLED, NODE),
        "Not heard": lost(UNHEARD, NODE),
        "Undecided": increase(kept(UNDECIDED), per=NODE),
        "Gaps": increase(kept(GAPS), per=NODE),
        "Dropped": drops,
        "Relist age": age(own(metrics.LAST_SEEN.name)),
    }
    columns = {name: worst(f"({expr})", chosen, _LISTED) for name, expr in of_those.items()}
    names = {LABELS.node: "Node", LABELS.cluster: "Cluster"}
    without = "No node lost events in this time range"
    panel = panels.rows("Nodes that lost events", about, columns, names, without=without)
    to_node = {"links": [{"title": "Show this node", "url": _NODE_LINK}]}
    panel.override_by_name("Node", panels.dynamic(to_node))
    state = {"mappings": [panels.state_names()], "custom.cellOptions": {"type": "color-text"}}
    panel.override_by_name("State", panels.dynamic(state | {"custom.minWidth": 100}))
    _counts(panel, *(name for name in of_those if name not in {"State", "Relist age"}))
    panels.column(panel, "Relist age", "s", above(LIMITS.relist_stale_seconds))
    return panels.sorted_by(panel.height(6), "Exits lost", "Silent", "Undelivered")


def _half(notice: Kept) -> str:
    """The median time from an exit to its notice, of each runtime; absent without exits."""
    buckets = increase(kept(notice), per=f"{NODE}, le")
    return f"histogram_quantile(0.5, {of_version(buckets, 'le')}) >= 0"


def _counts(panel: table.Panel, *columns: str) -> None:
    """Whole numbers; losses turn red."""
    for name in columns:
        steps = above(0.5) if name in _LOSSES else FINE
        panels.column(panel, name, panels.WHOLE, steps, decimals=0)
