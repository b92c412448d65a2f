"""The fleet: is the event stream complete across the cluster, and where is it not?"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import stat, statetimeline, timeseries
from grafana_foundation_sdk.models import dashboard as models

from dashboards import both, frame, panels, tables
from dashboards.limits import ALLOWED, LABELS, LIMITS, LINKS, VALUES
from dashboards.panels import BAD, GOOD, WARN, above
from dashboards.queries import (
    LISTENING,
    NODE,
    RANGE,
    kept,
    losses,
    lost,
    lost_at_end,
    recorded,
    state_code,
    subscribed,
    up_now,
    worst,
)
from exporter import HOME
from promql.series import EXITS, UNTOLD

BUDGET: Final = f"{ALLOWED * 100:g} %"
_DRAWN, _LISTED = 10, 25
_BY_NODE: Final = f"{{{{{LABELS.node}}}}}"


def build() -> models.Dashboard:
    """Build the dashboard."""
    about = (
        "Is the container runtimes' event stream complete? Made for the decision to turn Evented "
        "PLEG on, and for the days after it. These numbers are no verdict: `shadow-pleg report` is."
    )
    board = frame.new(LINKS.fleet_uid, "shadow-pleg / Fleet", about, "now-6h")
    matchers = f'{LABELS.cluster}=~"$cluster"'
    board.with_variable(frame.every("cluster", LABELS.cluster, "Cluster"))
    board.with_variable(frame.every("job", "job", "Job", matchers))
    board.with_variable(frame.every("node", LABELS.node, "Node", f'{matchers}, job=~"$job"'))
    board.with_variable(frame.runbooks())
    board.link(frame.sibling("Node", LINKS.node_uid))
    board.link(frame.link("Runbooks", frame.RUNBOOKS))

    board.link(frame.link("Go or no-go: shadow-pleg report", f"{HOME}/blob/main/docs/report.md"))

    board.with_row(frame.section("Is the event stream complete?"))
    for number in (exits_lost(), both.lost_silently(kept), both.undelivered(kept), streaming()):
        board.with_panel(number.span(5))
    board.with_panel(time_subscribed().span(4))
    board.with_panel(both.firing(LABELS.cluster).span(14).height(6))
    board.with_panel(against_objective().span(10).height(6))
    board.with_row(frame.section("What was lost, by event and by runtime version"))
    board.with_panel(tables.events().span(24))
    board.with_panel(tables.versions().span(24))
    board.with_row(frame.section("Where, and since when"))
    for chart in (_kept(both.by_cause(kept)), by_node(), both.wrong_lists(NODE, f" on {_BY_NODE}")):
        board.with_panel(chart.span(8))
    board.with_panel(tables.losing_nodes().span(24))
    board.with_row(frame.section("Event streams, and delays"))
    board.with_panel(states_by_node().span(14))
    board.with_panel(exits_late().span(10).height(8))
    return frame.finished(board, [both.alerted()])


def _kept(bars: timeseries.Panel) -> timeseries.Panel:
    """Bars of what rules keep every five minutes, and few enough for many nodes."""
    return bars.interval("5m").max_data_points(100)


def exits_lost() -> stat.Panel:
    """What hurts most."""
    about = (
        "Exits of containers that never came over the stream while it was up: lost silently, or "
        "undelivered. Every kubelet acts on exits; up to Kubernetes 1.36 one that relies on events "
        "learns of a lost one only at its next relist, after up to 300 s. Good: 0. Needs the "
        "recording rules."
    )
    expr = lost(f"{EXITS}, {UNTOLD}")
    panel = panels.stat_panel("Exits lost", about, expr, panels.WHOLE, above(0.5)).decimals(0)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def time_subscribed() -> stat.Panel:
    """Share of the time with a stream."""
    about = (
        "Share of the nodes' time in which the subscription was up, over the time range; nodes "
        "whose stream is refused, unsupported or disabled now are not counted. What is missed in "
        "the rest of the time has the cause stream_down. Good: above 99 %. Needs the recording "
        "rules."
    )
    steps = {None: BAD, LISTENING: WARN, 0.99: GOOD}
    panel = panels.stat_panel("Time subscribed", about, subscribed(), "percentunit", steps)
    return panel.no_value("none wanted").links([frame.runbook("ShadowPlegStreamDown")])


def streaming() -> stat.Panel:
    """Share of the nodes that listen now."""
    about = (
        "Nodes whose subscription is up now, of all that should have one. Nodes whose stream is "
        "refused, unsupported or disabled are not counted; 'Nodes by stream state' shows them. "
        "Good: 100 %."
    )
    steps = {None: BAD, LISTENING: WARN, 0.99: GOOD}
    panel = panels.stat_panel("Nodes listening", about, up_now(), "percentunit", steps)
    return panel.no_value("none wanted").links([frame.runbook("ShadowPlegStreamDown")])


def by_node() -> timeseries.Panel:
    """Which nodes lose."""
    about = (
        f"Events lost silently or undelivered, on the {_DRAWN} nodes that lost most in this time "
        "range. Good: nothing. One node: its runtime or its disk. Many at once: a version, or a "
        "change of configuration."
    )
    at_end = f"{lost_at_end(UNTOLD, NODE)} > 0.5"
    asked = {_BY_NODE: worst(f"({losses(UNTOLD, NODE)})", at_end, _DRAWN)}
    panel = _kept(panels.bars("Lost by node", about, asked))
    return panel.no_value("Nothing lost in this time range")


def against_objective() -> timeseries.Panel:
    """What the alerts about the error budget see."""
    about = (
        "Share that is lost of the events that kubelets rely on alone (up to Kubernetes 1.36, with "
        "the gate on), over the windows of the alert about the error budget, in the worst of the "
        f"chosen clusters. Good: below the line, the objective of {BUDGET}. Over short windows "
        "more is allowed. Needs the recording rules."
    )
    ratios = {each: recorded(f"cluster:slo_missed_ratio:avg{each}") for each in VALUES.slo.windows}
    asked = {window: f"max({of})" for window, of in ratios.items()}
    title = "Loss ratio against the objective"
    panel = panels.lines(title, about, asked, "percentunit", ALLOWED)
    panel = panel.axis_soft_max(2 * ALLOWED).no_value("No kubelet relies on events alone")
    return panel.links([frame.runbook("ShadowPlegBudgetBurn")])


def states_by_node() -> statetimeline.Panel:
    """Who was not listening, and when."""
    about = (
        f"State of each node's subscription: the {_LISTED} nodes that were streaming least. Good: "
        "green from end to end. backoff: lost, and tried again. refused: subscribing could harm "
        "the kubelet with this runtime version. disabled: the runtime's events are switched off."
    )
    up = recorded("node:stream_availability")
    least = f"1 - avg_over_time({up}[{RANGE}] @ end())"
    expr = worst(state_code(), f"max by ({NODE}) ({least})", _LISTED)
    panel = panels.states("Stream state by node", about, expr, _BY_NODE)
    return panel.links([frame.runbook("ShadowPlegStreamDown")])


def exits_late() -> timeseries.Panel:
    """Where exits are announced late."""
    about = (
        "Time from the end of a container's processes until its exit was announced: the median on "
        f"the {_DRAWN} slowest nodes. Good: within 0.1 s. The alert begins at the line, "
        f"{LIMITS.exit_p50_seconds:g} s: as late as a kubelet's relist. Needs the recording rules."
    )
    p50 = recorded("node:exit_to_event_seconds")
    at_end = f"max by ({NODE}) (max_over_time({p50}[{RANGE}] @ end()))"
    asked = {_BY_NODE: worst(f"max by ({NODE}) ({p50})", at_end, _DRAWN)}
    panel = panels.lines(
        "From exit to event, slowest nodes", about, asked, "s", LIMITS.exit_p50_seconds
    )
    return panel.links([frame.runbook("ShadowPlegExitsAnnouncedLate")])
