"""The fleet: is the event stream complete across the cluster, and where is it not?"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import common, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.dashboard import TextBoxVariable
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from dashboards import both, decision, frame, panels
from dashboards.both import BUDGET, EVENT_COLOURS
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, WARN, above
from dashboards.queries import (
    BUILD,
    LISTENING,
    MISSED,
    NODE,
    RANGE,
    RUNTIME,
    STATE,
    age,
    bound,
    increase,
    judged,
    own,
    ratio,
    silent,
    state_code,
    worst,
)
from exporter import metrics

_SILENT: Final = own(MISSED, 'cause="silent"')
_OWED: Final = own(MISSED, 'cause!="by_design"')
_STREAMING: Final = own(STATE, 'state="streaming"')
_ALIVE: Final = f"count({own(BUILD)})"
_DRAWN, _LISTED = 10, 25
_NODE_LINK: Final = (
    f"/d/{LIMITS.node_uid}?var-datasource=${{datasource}}"
    "&var-cluster=${__data.fields.Cluster}&var-node=${__data.fields.Node}&${__url_time_range}"
)


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
        .description("A label of the targets that tells canary nodes from the others")
        .default_value("canary")
    )
    board.link(frame.sibling("Node", LIMITS.node_uid))
    board.link(frame.link("Runbooks", LIMITS.runbooks))

    board.with_row(frame.section("Is the event stream complete?"))
    for number in (
        both.lost(),
        missed_ratio(),
        both.upper_bound(),
        transitions(),
        streaming(),
        stale(),
    ):
        board.with_panel(number.span(4))
    board.with_row(frame.section("May Evented PLEG be turned on?"))
    board.with_panel(decision.go_or_not().span(24))
    board.with_row(frame.section("What was missed, and where"))
    board.with_panel(silent_by_event().span(8))
    board.with_panel(silent_by_node().span(8))
    board.with_panel(both.by_cause().span(8))
    board.with_panel(worst_nodes().span(24))
    board.with_row(frame.section("Is anybody listening?"))
    board.with_panel(states_by_node().span(14))
    board.with_panel(states_in_sum().span(10))
    board.with_row(frame.section("How soon, how fresh, and on what"))
    board.with_panel(both.delivery().span(12))
    board.with_panel(staleness().span(12).height(8))
    board.with_panel(runtimes().span(12))
    board.with_panel(exporters().span(12))
    return frame.finished(board, [both.firing()])


def missed_ratio() -> stat.Panel:
    """The ratio itself."""
    about = (
        "Silent misses as a share of the transitions judged. Good: 0 %. Red: beyond what the "
        f"alerts' objective allows, {BUDGET}."
    )
    panel = panels.stat_panel("Missed ratio", about, ratio(), "percentunit", above(LIMITS.budget))
    return panel.links([frame.runbook("ShadowPlegBudgetBurnFast")])


def transitions() -> stat.Panel:
    """The n of the bound."""
    needed = 3 / LIMITS.budget
    about = (
        "Lifecycle events that a relist proved, on nodes that were subscribed, and that were owed "
        f"an announcement. Good: {needed:,.0f} or more, for with fewer not even zero misses prove "
        f"a ratio below {BUDGET}."
    )
    steps = {None: WARN, needed: GOOD}
    return panels.stat_panel("Transitions judged", about, judged(), "short", steps)


def streaming() -> stat.Panel:
    """Share of the nodes that listen now."""
    about = (
        "Nodes whose subscription is up now, of all that run shadow-pleg. Good: 100 %. Less: see "
        "'Is anybody listening?' below; nodes that may not be subscribed to (refused, unsupported) "
        "count as not listening."
    )
    expr = f"sum({_STREAMING}) / {_ALIVE}"
    steps = {None: BAD, LISTENING: WARN, 1: GOOD}
    panel = panels.stat_panel("Nodes listening", about, expr, "percentunit", steps)
    return panel.links([frame.runbook("ShadowPlegStreamDown")])


def stale() -> stat.Panel:
    """Nodes whose relist is too old."""
    limit = LIMITS.relist_stale
    about = (
        f"Nodes whose last successful relist is older than {limit:g} s, or that had none. They "
        "witness nothing: misses there are not counted. Good: 0."
    )
    seen = own(metrics.LAST_SEEN.name)
    expr = f"count(time() - {seen} > {limit:g}) or 0 * {_ALIVE}"
    panel = panels.stat_panel("Stale relists", about, expr, "short", above(1))
    return panel.links([frame.runbook("ShadowPlegRelistStale")])


def silent_by_event() -> timeseries.Panel:
    """Which events are lost."""
    about = (
        "Silent misses by what happened. Good: nothing at all. A ContainerDied hurts most: the "
        "kubelet acts on it, and learns of it only at its next relist."
    )
    asked = {"{{event}}": increase(_SILENT, by="event")}
    panel = panels.coloured(panels.bars("Silent misses by event", about, asked), EVENT_COLOURS)
    return panel.links([frame.runbook("ShadowPlegMissedEvents")])


def silent_by_node() -> timeseries.Panel:
    """Which nodes lose."""
    about = (
        f"Silent misses of the {_DRAWN} nodes that lost most in this time range. Good: nothing at "
        "all. One node: its runtime or its disk. Many at once: a version, or a change of "
        "configuration."
    )
    at_end = f"sum by ({NODE}) (increase({_SILENT}[{RANGE}] @ end()))"
    expr = worst(increase(_SILENT, by=NODE), at_end, _DRAWN)
    return panels.bars("Silent misses by node", about, {f"{{{{{LIMITS.node}}}}}": expr})


def worst_nodes() -> table.Panel:
    """Nodes with their numbers, and the way to each."""
    about = (
        f"The {_LISTED} nodes with most misses that are not by design. Click a node for its own "
        "dashboard. Good: a column of zeros under 'Silent misses', and no ratio bound near 100 % "
        "(that one has not been judged at all)."
    )
    chosen = increase(_OWED, RANGE, NODE)
    of_those = {
        "State": state_code(),
        "Silent misses": silent(NODE),
        "Not connected": increase(own(MISSED, 'cause="stream_down"'), RANGE, NODE),
        "Discarded here": increase(own(MISSED, 'cause="discarded"'), RANGE, NODE),
        "Judged": judged(NODE),
        "Ratio is at most": bound(NODE),
        "Gaps": increase(own(f"{metrics.GAPS.name}_total"), RANGE, NODE),
        "Last relist": age(own(metrics.LAST_SEEN.name)),
    }
    columns = {name: worst(f"({expr})", chosen, _LISTED) for name, expr in of_those.items()}
    names = {LIMITS.node: "Node", LIMITS.cluster: "Cluster"}
    panel = panels.rows("Worst nodes", about, columns, names)
    to_node = {"links": [{"title": "Show this node", "url": _NODE_LINK}]}
    panel.override_by_name("Node", panels.dynamic(to_node))
    state = {"mappings": [panels.state_names()], "custom.cellOptions": {"type": "color-text"}}
    panel.override_by_name("State", panels.dynamic(state))
    panels.column(panel, "Silent misses", "short", above(0.5), decimals=0)
    for name in ("Not connected", "Discarded here", "Judged", "Gaps"):
        panels.column(panel, name, "short", decimals=0)
    panels.column(panel, "Ratio is at most", "percentunit", above(LIMITS.budget, WARN))
    panels.column(panel, "Last relist", "s", above(LIMITS.relist_stale))
    return panels.sorted_by(panel, "Silent misses")


def states_by_node() -> statetimeline.Panel:
    """Who was not listening, and when."""
    about = (
        "State of each node's subscription: the 25 nodes that were streaming least. Good: green "
        "from end to end. backoff: lost, and tried again. refused: subscribing could harm the "
        "kubelet of this runtime version. disabled: the runtime's events are switched off."
    )
    least = f"1 - avg_over_time({_STREAMING}[{RANGE}] @ end())"
    expr = worst(state_code(), f"max by ({NODE}) ({least})", _LISTED)
    panel = panels.states("State of the stream, by node", about, expr, f"{{{{{LIMITS.node}}}}}")
    return panel.links([frame.runbook("ShadowPlegStreamDown")])


def states_in_sum() -> timeseries.Panel:
    """How many are in which state."""
    about = "Nodes by the state of their subscription. Good: all of them streaming."
    asked = {"{{state}}": f"sum by (state) ({own(STATE)}) > 0"}
    panel = panels.lines("Nodes by state", about, asked, "short").decimals(0).fill_opacity(60)
    stacked = common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A")
    return panels.coloured(panel.stacking(stacked).height(8), panels.COLOUR_OF_STATE)


def staleness() -> timeseries.Panel:
    """How old the relists are."""
    about = (
        f"Age of the last successful relist: the {_DRAWN} nodes with the oldest. Good: never above "
        "the relist period (10 s by default) by more than a little. The line is where the alert "
        "begins; behind it, nothing is witnessed."
    )
    seen = own(metrics.LAST_SEEN.name)
    at_end = f"max by ({NODE}) (time() - {seen} @ end())"
    asked = {f"{{{{{LIMITS.node}}}}}": worst(f"({age(seen)})", at_end, _DRAWN)}
    panel = panels.lines("Age of the last relist", about, asked, "s", LIMITS.relist_stale)
    return panel.links([frame.runbook("ShadowPlegRelistStale")])


def runtimes() -> table.Panel:
    """What runs where."""
    about = (
        "Runtimes and versions in the fleet, and whether several may listen to their events "
        "(broadcast) or a second listener would steal from the kubelet (exclusive), could crash "
        "the runtime (fragile), or finds nothing to listen to (none). Good: broadcast only."
    )
    columns = {"Nodes": f"count by (name, version, stream) ({own(RUNTIME)})"}
    names = {"name": "Runtime", "version": "Version", "stream": "Stream"}
    panel = panels.rows("Runtimes", about, columns, names)
    panel.links([frame.runbook("ShadowPlegNodesNotWatched")])
    return panels.sorted_by(panel, "Nodes").height(5)


def exporters() -> table.Panel:
    """What version of us runs where."""
    about = "Versions of shadow-pleg in the fleet. Good: one row; more only while it is rolled out."
    columns = {"Nodes": f"count by (version, python) ({own(BUILD)})"}
    names = {"version": "Version", "python": "Python"}
    return panels.rows("shadow-pleg itself", about, columns, names).height(5)
