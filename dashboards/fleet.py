"""The fleet: is the event stream complete across the cluster, and where is it not?"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import common, stat, statetimeline, text, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.text import TextMode

from dashboards import both, frame, panels, sides, tables
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, WARN, above
from dashboards.queries import (
    EXITS,
    LISTENING,
    NODE,
    RANGE,
    STATE,
    UNTOLD,
    kept,
    late,
    losses,
    lost,
    own,
    recorded,
    state_code,
    up_now,
    witnessed,
    worst,
)
from exporter import HOME

BUDGET: Final = f"{LIMITS.budget * 100:g} %"
_JUDGE: Final = f"""\
These numbers are no verdict. [`shadow-pleg report`]({HOME}/blob/main/docs/report.md) is: it knows
what a loss costs each version of kubelet, and the known issues of each runtime.

```
shadow-pleg report \\
  --prometheus-url URL
```
"""
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
    board.with_variable(frame.runbooks())
    board.link(frame.sibling("Node", LIMITS.node_uid))
    board.link(frame.link("Runbooks", frame.RUNBOOKS))

    board.with_row(frame.section("Is the event stream complete?"))
    for number in (
        exits_lost(),
        exits_witnessed(),
        both.lost_silently(kept),
        both.undelivered(kept),
        both.time_subscribed(),
        streaming(),
    ):
        board.with_panel(number.span(4))
    board.with_panel(both.firing(LIMITS.cluster).span(14).height(6))
    board.with_panel(against_objective().span(10).height(6))
    board.with_row(frame.section("What a verdict on Evented PLEG is made of"))
    board.with_panel(judge().span(6))
    board.with_panel(tables.events().span(18))
    board.with_panel(tables.versions().span(24))
    board.with_row(frame.section("What was lost, where, and since when"))
    for chart in (_kept(both.by_cause(kept)), by_node(), both.wrong_lists(NODE, f" on {_BY_NODE}")):
        board.with_panel(chart.span(8))
    board.with_panel(tables.losing_nodes().span(24))
    board.with_panel(sides.whose().span(24))
    board.with_row(frame.section("Event streams"))
    board.with_panel(states_by_node().span(10))
    board.with_panel(states_in_sum().span(7))
    board.with_panel(_kept(both.disconnects(kept)).span(7).height(8))
    board.with_row(frame.section("Delays"))
    for chart in (exits_late(), delivery(), overdue()):
        board.with_panel(chart.span(8))
    return frame.finished(board, [both.alerted()])


def _kept(bars: timeseries.Panel) -> timeseries.Panel:
    """Bars of what rules keep every five minutes, and few enough for many nodes."""
    return bars.interval("5m").max_data_points(100)


def judge() -> text.Panel:
    """Where the verdict comes from: not from here."""
    return text.Panel().title("Go or no-go").mode(TextMode.MARKDOWN).content(_JUDGE).height(7)


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


def exits_witnessed() -> stat.Panel:
    """How much the lost ones say."""
    about = (
        "Exits that a relist or the kernel proved, and that the runtime had to announce. Good: the "
        f"more, the more 0 lost ones say: after {3 / LIMITS.budget:,.0f} without a loss the share "
        f"of losses is below {BUDGET}, with 95 % confidence. Needs the recording rules."
    )
    expr = witnessed(which=EXITS)
    return panels.stat_panel("Exits witnessed", about, expr, "short")


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
    at_end = f"{lost(UNTOLD, NODE, at=' @ end()')} > 0.5"
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
    ratios = {each: recorded(f"cluster:slo_missed_ratio:avg{each}") for each in LIMITS.windows}
    asked = {window: f"max({of})" for window, of in ratios.items()}
    title = "Loss ratio against the objective"
    panel = panels.lines(title, about, asked, "percentunit", LIMITS.budget)
    panel = panel.axis_soft_max(2 * LIMITS.budget).no_value("No kubelet relies on events alone")
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


def states_in_sum() -> timeseries.Panel:
    """How many are in which state."""
    about = (
        "Nodes by the state of their subscription. Good: all streaming. refused, unsupported and "
        "disabled are no faults, but nothing is known of these nodes' streams."
    )
    asked = {"{{state}}": f"sum by (state) ({own(STATE)}) > 0"}
    panel = panels.lines("Nodes by stream state", about, asked, "short").decimals(0)
    stacked = common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A")
    panel = panels.coloured(panel.stacking(stacked).fill_opacity(60), panels.COLOUR_OF_STATE)
    return panel.height(8).links([frame.runbook("ShadowPlegStreamDown")])


def delivery() -> timeseries.Panel:
    """How long events take."""
    about = (
        "Time from the runtime's timestamp on an event to its reception: the 99th percentile on "
        f"the {_DRAWN} slowest nodes. Good: some milliseconds. {LIMITS.delivery_p99:g} s, the "
        "line, is the stress mark of KEP-3386. Needs the recording rules."
    )
    p99 = recorded("node:event_delivery_seconds", 'quantile="0.99"')
    panel = _slowest("Delivery latency, slowest nodes", about, p99, LIMITS.delivery_p99)
    return panel.links([frame.runbook("ShadowPlegStreamStalled")])


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
