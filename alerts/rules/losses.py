"""Alerts: events that were not announced."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert, Level

ALERTS: Final = (
    Alert(
        name="ShadowPlegMissedExitsEventedKubelet",
        summary="The runtime lost exits of containers on a node whose kubelet relies on events.",
        description="""
            << number >> exit(s) in the last << w.losses >> were never announced on << on_node >>,
            though the event stream was up, and the kubelet's gate EventedPLEG is on: it learns of
            them only with its next relist, up to 5 minutes later before Kubernetes 1.37.
        """,
        expr="""
            sum by (<< by_node >>) (<< silent_losses >>{event="ContainerDied"})
            and on (<< by_node >>) << gate >> == 1
        """,
    ),
    # Needs no metrics of the kubelet.
    Alert(
        name="ShadowPlegMissedExits",
        summary="The runtime lost exits of containers.",
        description="""
            << number >> exit(s) in the last << w.losses >> were never announced on << on_node >>,
            though the event stream was up. As far as is known, this node's kubelet does not rely
            on events.
        """,
        expr="""
            sum by (<< by_node >>) (<< silent_losses >>{event="ContainerDied"})
            unless on (<< by_node >>) << gate >> == 1
        """,
    ),
    Alert(
        name="ShadowPlegMissedEvents",
        summary="The runtime lost starts, creations or removals of containers.",
        description="""
            << number >> start(s), creation(s) or removal(s) in the last << w.losses >> were never
            announced on << on_node >>, though the event stream was up.
        """,
        expr="""sum by (<< by_node >>) (<< silent_losses >>{event!="ContainerDied"})""",
    ),
    Alert(
        name="ShadowPlegEventGaps",
        summary="The stream announced later steps of containers and never the earlier ones.",
        description="""
            << number >> step(s) in the last << w.losses >> were skipped by the event stream of
            << on_node >>, which was up for << w.steady >>; the relist was too slow to see them.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_event_gaps_total{<< exporter >>}[<< w.losses >>])) > 0
            and on (<< by_node >>) << steady >> == 1
        """,
    ),
    Alert(
        name="ShadowPlegBudgetBurnFast",
        summary="The error budget of the cluster's event streams is gone within days.",
        description="""
            << in_cluster >> loses << percent >> of its lifecycle events silently: at this rate the
            budget of << slo.period >> (objective << slo.objective >> %) does not last.
        """,
        expr="<< burns('fast') >>",
        level=Level.CLUSTER,
    ),
    Alert(
        name="ShadowPlegBudgetBurnSlow",
        summary="The error budget of the cluster's event streams will not last its period.",
        description="""
            << in_cluster >> has lost << percent >> of its lifecycle events silently over one to
            three days: at this rate the budget of << slo.period >> (objective << slo.objective >> %) does
            not last.
        """,
        expr="<< burns('slow') >>",
        level=Level.CLUSTER,
    ),
)
