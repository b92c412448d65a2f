"""Tables of the fleet: may Evented PLEG be turned on, which nodes lose events, which versions do.

Here: these panels. Not here: the statistics behind them (`queries`).
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import table

from dashboards import frame, panels
from dashboards.both import BUDGET
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, PLAIN, above
from dashboards.queries import (
    BUILD,
    LISTENING,
    MISSED,
    NODE,
    RANGE,
    RUNTIME,
    VERSION,
    VERSION_NAMES,
    age,
    bound,
    increase,
    judged,
    listening,
    most_losses,
    of_version,
    own,
    ratio,
    silent,
    state_code,
    steady_gaps,
    undecided,
    verdict,
    worst,
)
from exporter import metrics

_VERDICTS: Final = {0: ("GO", GOOD), 1: ("NOT ENOUGH EVIDENCE", PLAIN), 2: ("NO-GO", BAD)}
_LISTED: Final = 25
# So that the titles of the other columns fit on a screen of 1024 pixels.
_NARROW: Final = panels.dynamic({"custom.width": 60})
_NODE_LINK: Final = (
    f"/d/{LIMITS.node_uid}?var-datasource=${{datasource}}"
    "&var-cluster=${__data.fields.Cluster}&var-node=${__data.fields.Node}&${__url_time_range}"
)


def go_or_not() -> table.Panel:
    """Canary against control."""
    about = (
        "One row for each value of the label chosen above ('Compare by label'): put it on the "
        "targets of your canary nodes. Good: GO in every row. GO: even the upper bound is within "
        f"the objective of {BUDGET}. NO-GO: the loss ratio itself is beyond it. NOT ENOUGH "
        "EVIDENCE: too few transitions for either, or the streams were up for less than "
        f"{LISTENING * 100:g} % of the time; wait, or choose a longer time range. Stop where a "
        "canary is worse than its control, whatever the verdict says."
    )
    by = "$group"
    columns = {
        "Verdict": verdict(LIMITS.budget, by),
        "Nodes": f"count by ({by}) ({own(BUILD)})",
        "Stream up": listening(by),
        "Judged": judged(by),
        "Silent misses": silent(by),
        "Undecided": undecided(by),
        "Loss ratio": ratio(by),
        "Upper bound": bound(by),
    }
    # The column has a name of its own, whatever the label is called.
    labelled = {
        name: f'max by (group) (label_replace({expr}, "group", "$1", "{by}", "(.*)"))'
        for name, expr in columns.items()
    }
    panel = panels.rows("Go or no-go by group", about, labelled, {"group": "Group"})
    mapped = {
        "mappings": [panels.named(_VERDICTS)],
        "custom.cellOptions": {"type": "color-background", "mode": "basic"},
        "custom.width": 190,
    }
    panel.override_by_name("Verdict", panels.dynamic(mapped))
    panels.column(panel, "Stream up", "percentunit", {None: PLAIN, LISTENING: GOOD})
    panels.column(panel, "Upper bound", "percentunit", above(LIMITS.budget, PLAIN))
    _losses(panel, "Nodes", "Judged", "Undecided")
    panel.override_by_name("Nodes", _NARROW)
    return panel.height(5)


def losing_nodes() -> table.Panel:
    """Nodes with their numbers, and the way to each."""
    about = (
        f"Nodes that missed events which were not missed by design: at most {_LISTED}, first those "
        "with silent misses. Click a node for its own dashboard. Good: no row. Stream down and "
        "queue full: missed because shadow-pleg could not hear them. Gaps: announcements that are "
        "missing before a later one, without an outage that explains them."
    )
    missed = increase(own(MISSED, 'cause!="by_design"'), RANGE, NODE)
    # A fleet's outage must not hide the few nodes whose runtime loses events.
    chosen = f"{missed} + 1e6 * {silent(NODE)} > 0.5"
    of_those = {
        "State": state_code(),
        "Silent": silent(NODE),
        "Loss ratio": ratio(NODE),
        "Stream down": increase(own(MISSED, 'cause="stream_down"'), RANGE, NODE),
        "Queue full": increase(own(MISSED, 'cause="discarded"'), RANGE, NODE),
        "Undecided": undecided(NODE),
        "Gaps": steady_gaps(NODE),
        "Relist age": age(own(metrics.LAST_SEEN.name)),
    }
    columns = {name: worst(f"({expr})", chosen, _LISTED) for name, expr in of_those.items()}
    names = {LIMITS.node: "Node", LIMITS.cluster: "Cluster"}
    without = "No node missed events in this time range"
    panel = panels.rows("Nodes that missed events", about, columns, names, without=without)
    to_node = {"links": [{"title": "Show this node", "url": _NODE_LINK}]}
    panel.override_by_name("Node", panels.dynamic(to_node))
    state = {"mappings": [panels.state_names()], "custom.cellOptions": {"type": "color-text"}}
    panel.override_by_name("State", panels.dynamic(state))
    _losses(panel, "Stream down", "Queue full", "Undecided", "Gaps")
    panel.override_by_name("Gaps", _NARROW)
    panels.column(panel, "Relist age", "s", above(LIMITS.relist_stale))
    return panels.sorted_by(panel.height(6), "Silent")


def versions() -> table.Panel:
    """Which runtime version loses."""
    about = (
        "Silent misses by runtime version, over the time range. Nodes are as of now; a node whose "
        "runtime changed in the time range is left out of the other columns. broadcast: several "
        "may subscribe. exclusive: a second subscriber takes events from the kubelet. fragile: it "
        "can crash the runtime. none: there is no stream. Good: a loss ratio of 0 % in every row."
    )
    lost, n = of_version(silent(NODE)), f"({of_version(judged(NODE))} > 0)"
    doubtful = of_version(f"{silent(NODE)} + {undecided(NODE)}")
    columns = {
        "Nodes": f"count by ({VERSION}) ({own(RUNTIME)})",
        "Judged": of_version(judged(NODE)),
        "Silent misses": lost,
        "Loss ratio": f"{lost} / {n}",
        "Upper bound": f"clamp_max({most_losses(doubtful)} / {n}, 1)",
    }
    panel = panels.rows("Losses by runtime version", about, columns, VERSION_NAMES)
    panels.column(panel, "Upper bound", "percentunit", above(LIMITS.budget, PLAIN))
    _losses(panel, "Nodes", "Judged")
    panel.links([frame.runbook("ShadowPlegMissedEvents")])
    return panels.sorted_by(panel.height(5), "Silent misses", "Nodes")


def _losses(panel: table.Panel, *counts: str) -> None:
    """Columns of losses, which turn red, and plain counts."""
    for name in ("Silent misses", "Silent"):
        panels.column(panel, name, "short", above(0.5), decimals=0)
    panels.column(panel, "Loss ratio", "percentunit", above(LIMITS.budget))
    for name in counts:
        panels.column(panel, name, "short", decimals=0)
