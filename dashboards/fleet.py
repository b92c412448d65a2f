"""The fleet: is the event stream complete across the cluster, and where is it not?"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import common, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders.dashboard import TextBoxVariable
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from dashboards import both, exits, frame, panels, sides, tables
from dashboards.both import BUDGET, EVENT_COLOURS
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, PLAIN, WARN, above
from dashboards.queries import (
    LISTENING,
    MISSED,
    NODE,
    RANGE,
    STATE,
    bound,
    counted,
    judged,
    late,
    own,
    recorded,
    state_code,
    up_now,
    worst,
)

_SILENT: Final = own(MISSED, 'cause="silent"')
_DRAWN, _LISTED = 10, 25
_BY_NODE: Final = f"{{{{{LIMITS.node}}}}}"


def build() -> models.Dashboard:
    """Build the dashboard."""
    about = (
        "Is the container runtimes' event stream complete? Made for the decision to turn Evented "
        "PLEG on, and for the days after it."
    )
    board = frame.new(LIMITS.fleet_uid, "shadow-pleg / Fleet", about, "now-6h")
    matchers = f'{LIMITS.cluster}=~"$cluster"'
    board.with_variable(frame.every("cluster", LIMITS.cluster, "Cluster"))
    board.with_variable(frame.every("job", "job", "Job", matchers))
    board.with_variable(frame.every("node", LIMITS.node, "Node", f'{matchers}, job=~"$job"'))
    board.with_variable(
        TextBoxVariable("group")
        .label("Compare by label")
        .description("A label of the targets that separates canary nodes from the others")
        .default_value("canary")
    )
    board.with_variable(frame.runbooks())
    board.link(frame.sibling("Node", LIMITS.node_uid))
    board.link(frame.link("Runbooks", frame.RUNBOOKS))

    board.with_row(frame.section("Is the event stream complete?"))
    for number in (
        both.lost(),
        both.loss_ratio(),
        upper_bound(),
        transitions(),
        streaming(),
        both.stream_down(),
    ):
        board.with_panel(number.span(4))
    board.with_panel(both.firing(LIMITS.cluster).span(14).height(6))
    board.with_panel(against_objective().span(10).height(6))
    board.with_row(frame.section("Can Evented PLEG be turned on?"))
    board.with_panel(tables.go_or_not().span(24))
    board.with_row(frame.section("What was missed, and where"))
    for chart in (
        both.by_cause(),
        silent_by_event(),
        silent_by_node(),
        both.wrong_lists(NODE, f" on {_BY_NODE}"),
    ):
        board.with_panel(chart.span(6))
    board.with_panel(tables.losing_nodes().span(24))
    board.with_panel(tables.versions().span(24))
    board.with_row(frame.section("From exit to notice"))
    board.with_panel(exits.versions().span(24))
    for chart in (exits.by_version(), exits_late(), exits.saved(scraped=False)):
        board.with_panel(chart.span(8))
    board.with_row(frame.section("The kubelets' side"))
    board.with_panel(sides.alone().span(6))
    board.with_panel(sides.whose().span(18))
    board.with_row(frame.section("Event streams"))
    board.with_panel(states_by_node().span(10))
    board.with_panel(states_in_sum().span(7))
    board.with_panel(both.disconnects().span(7).height(8))
    board.with_row(frame.section("Delays"))
    board.with_panel(delivery().span(12))
    board.with_panel(overdue().span(12))
    return frame.finished(board, [both.alerted()])


def upper_bound() -> stat.Panel:
    """What can be claimed."""
    about = (
        "The loss ratio is not above this, with 95 % confidence. After n transitions without a "
        f"loss it is 3/n; undecided exits count as lost. Good: below {BUDGET}. Blue: too few "
        "transitions to say so; choose a longer time range."
    )
    steps = above(LIMITS.budget, PLAIN)
    panel = panels.stat_panel("Upper bound (95 %)", about, bound(), "percentunit", steps)
    return panel.no_value("nothing judged").links([frame.runbook("ShadowPlegBudgetBurnSlow")])


def transitions() -> stat.Panel:
    """The n of the bound."""
    needed = 3 / LIMITS.budget
    about = (
        "Lifecycle events that a relist proved, on subscribed nodes, and that the runtime had to "
        f"announce. Good: {needed:,.0f} or more; with fewer (blue), not even zero losses prove a "
        f"ratio below {BUDGET}."
    )
    steps = {None: PLAIN, needed: GOOD}
    return panels.stat_panel("Transitions judged", about, judged(), "short", steps)


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


def silent_by_event() -> timeseries.Panel:
    """Which events are lost."""
    about = (
        "Silent misses by event. Good: nothing. A lost ContainerDied hurts most: the kubelet acts "
        "on it, and otherwise learns of the exit only at its next relist."
    )
    asked = {"{{event}}": counted(_SILENT, "event")}
    panel = panels.coloured(panels.bars("Silent misses by event", about, asked), EVENT_COLOURS)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def silent_by_node() -> timeseries.Panel:
    """Which nodes lose."""
    about = (
        f"Silent misses of the {_DRAWN} nodes that lost most in this time range. Good: nothing. "
        "One node: its runtime or its disk. Many at once: a version, or a change of configuration."
    )
    at_end = f"sum by ({NODE}) (increase({_SILENT}[{RANGE}] @ end())) > 0.5"
    asked = {_BY_NODE: worst(counted(_SILENT, NODE), at_end, _DRAWN)}
    panel = panels.bars("Silent misses by node", about, asked)
    return panel.no_value("No silent miss in this time range")


def against_objective() -> timeseries.Panel:
    """What the alerts about the error budget see."""
    about = (
        "Share of silent misses over the windows of the alerts about the error budget, in the "
        f"worst of the chosen clusters. Good: below the line, the objective of {BUDGET}. Over "
        "short windows more is allowed. Needs the recording rules."
    )
    ratios = {each: recorded(f"cluster:slo_missed_ratio:avg{each}") for each in LIMITS.windows}
    asked = {window: f"max({of})" for window, of in ratios.items()}
    title = "Loss ratio against the objective"
    panel = panels.lines(title, about, asked, "percentunit", LIMITS.budget)
    panel.axis_soft_max(2 * LIMITS.budget)
    return panel.links([frame.runbook("ShadowPlegBudgetBurnFast")])


def states_by_node() -> statetimeline.Panel:
    """Who was not listening, and when."""
    about = (
        f"State of each node's subscription: the {_LISTED} nodes that were streaming least. Good: "
        "green from end to end. backoff: lost, and tried again. refused: subscribing could harm "
        "the kubelet with this runtime version. disabled: the runtime's events are switched off."
    )
    streaming = own(STATE, 'state="streaming"')
    least = f"1 - avg_over_time({streaming}[{RANGE}] @ end())"
    expr = worst(state_code(), f"max by ({NODE}) ({least})", _LISTED)
    panel = panels.states("Stream state by node", about, expr, _BY_NODE)
    return panel.links([frame.runbook("ShadowPlegStreamDown")])


def states_in_sum() -> timeseries.Panel:
    """How many are in which state."""
    about = (
        "Nodes by the state of their subscription. Good: all streaming. refused, unsupported and "
        "disabled are not faults, but nothing is known of these nodes' streams."
    )
    asked = {"{{state}}": f"sum by (state) ({own(STATE)}) > 0"}
    panel = panels.lines("Nodes by stream state", about, asked, "short").decimals(0)
    stacked = common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A")
    panel = panels.coloured(panel.stacking(stacked).fill_opacity(60), panels.COLOUR_OF_STATE)
    return panel.height(8).links([frame.runbook("ShadowPlegNodesNotWatched")])


def delivery() -> timeseries.Panel:
    """How long events take."""
    about = (
        "Time from the runtime's timestamp on an event to its reception: the 99th percentile on "
        f"the {_DRAWN} slowest nodes. Good: some milliseconds. The alert begins at the line, "
        f"{LIMITS.delivery_p99:g} s. Needs the recording rules."
    )
    p99 = recorded("node:event_delivery_seconds", 'quantile="0.99"')
    panel = _slowest("Delivery latency, slowest nodes", about, p99, LIMITS.delivery_p99)
    return panel.links([frame.runbook("ShadowPlegDeliverySlow")])


def exits_late() -> timeseries.Panel:
    """Where exits are announced late."""
    about = (
        "Time from the end of a container's processes until its exit was announced: the median on "
        f"the {_DRAWN} slowest nodes. Good: within 0.1 s. The alert begins at the line, "
        f"{LIMITS.exit_p50:g} s: as late as a kubelet's relist. Needs the recording rules."
    )
    p50 = recorded("node:exit_to_event_seconds", 'quantile="0.5"')
    panel = _slowest("From exit to event, slowest nodes", about, p50, LIMITS.exit_p50)
    return panel.links([frame.runbook("ShadowPlegExitsAnnouncedLate")])


def _slowest(title: str, about: str, seconds: str, line: float) -> timeseries.Panel:
    """A recorded time of the nodes on which it was longest."""
    at_end = f"max by ({NODE}) (max_over_time({seconds}[{RANGE}] @ end()))"
    asked = {_BY_NODE: worst(f"max by ({NODE}) ({seconds})", at_end, _DRAWN)}
    return panels.lines(title, about, asked, "s", line)


def overdue() -> timeseries.Panel:
    """How late the relists are."""
    about = (
        "By how much the last successful relist was older than the relist period when it was "
        f"scraped: the {_DRAWN} nodes with the oldest. Good: below a second, the time that a "
        "relist takes. The alert begins near the line: relists are slow, or hang."
    )
    asked = {_BY_NODE: worst(f"({late()})", late(at=" @ end()"), _DRAWN)}
    panel = panels.lines("Overdue relists", about, asked, "s", LIMITS.relist_slow)
    return panel.links([frame.runbook("ShadowPlegRelistSlow")])
