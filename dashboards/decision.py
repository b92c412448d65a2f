"""The table that says whether Evented PLEG may be turned on: canaries against the others.

Here: that panel. Not here: the statistics behind it (`queries`).
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import table

from dashboards import panels
from dashboards.both import BUDGET, DELIVERY
from dashboards.limits import LIMITS
from dashboards.panels import BAD, GOOD, WARN, above
from dashboards.queries import (
    BUILD,
    LISTENING,
    RANGE,
    bound,
    increase,
    judged,
    listening,
    own,
    silent,
    verdict,
)
from exporter import metrics

_VERDICTS: Final = {0: ("GO", GOOD), 1: ("NOT KNOWN YET", WARN), 2: ("NO-GO", BAD)}


def go_or_not() -> table.Panel:
    """Canary against control."""
    about = (
        "One row for each value of the label chosen above ('Compare by label'): put it on the "
        "targets of your canary nodes. Good: GO in every row. GO: even the upper bound is within "
        f"the objective of {BUDGET}. NO-GO: the ratio itself is beyond it. NOT KNOWN YET: too few "
        "transitions for either, or no stream was up for a tenth of the time; wait, or choose a "
        "longer time range. A canary that is worse than its control is a reason to stop whatever "
        "the verdict says."
    )
    by = "$group"
    columns = {
        "Verdict": verdict(LIMITS.budget, by),
        "Nodes": f"count by ({by}) ({own(BUILD)})",
        "Listening": listening(by),
        "Judged": judged(by),
        "Silent misses": silent(by),
        "Ratio is at most": bound(by),
        "Gaps": increase(own(f"{metrics.GAPS.name}_total"), RANGE, by),
        "Delivery p99": (
            f"histogram_quantile(0.99, {increase(own(DELIVERY), RANGE, f'le, {by}')})"
        ),
    }
    # The column has a name of its own, whatever the label is called.
    labelled = {
        name: f'max by (group) (label_replace({expr}, "group", "$1", "{by}", "(.*)"))'
        for name, expr in columns.items()
    }
    panel = panels.rows("Go or no-go, by group", about, labelled, {"group": "Group"})
    mapped = {
        "mappings": [panels.named(_VERDICTS)],
        "custom.cellOptions": {"type": "color-background", "mode": "basic"},
        "custom.width": 150,
    }
    panel.override_by_name("Verdict", panels.dynamic(mapped))
    panels.column(panel, "Listening", "percentunit", {None: BAD, LISTENING: WARN, 0.999: GOOD})
    panels.column(panel, "Judged", "short", decimals=0)
    panels.column(panel, "Silent misses", "short", above(0.5), decimals=0)
    panels.column(panel, "Ratio is at most", "percentunit", above(LIMITS.budget, WARN))
    panels.column(panel, "Gaps", "short", decimals=0)
    panels.column(panel, "Delivery p99", "s", above(LIMITS.delivery_p99))
    return panel.height(5)
