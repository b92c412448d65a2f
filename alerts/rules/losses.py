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
    # Exits that the kubelet relies on have the alert above. Needs no metrics of the kubelet. Rounded, as
    # all that is compared with a small number: increase() makes 3.2 of 3.
    Alert(
        name="ShadowPlegMissedEvents",
        summary="The runtime loses lifecycle events of containers.",
        description="""
            << number >> event(s) in the last << w.losses >> were never announced on << on_node >>,
            though the event stream was up.
        """,
        expr="""
            round(sum by (<< by_node >>) (
                << silent_losses >>{event!="ContainerDied"}
                or (<< silent_losses >> unless on (<< by_node >>) << gate >> == 1)
            )) > << t.missed_events >>
        """,
    ),
    Alert(
        name="ShadowPlegBudgetBurnFast",
        summary="The error budget of the cluster's event streams is gone within days.",
        after="<< slo.fast[0].long >>",
        description="""
            << in_cluster >> loses << percent >> of its lifecycle events silently, and kubelets there
            rely on events: at this rate the budget of << slo.period >> (objective
            << slo.objective >> %) does not last.
        """,
        expr="(<< burns('fast') >>) and on (<< by_cluster >>) << evented_nodes >> > 0",
        level=Level.CLUSTER,
    ),
    Alert(
        name="ShadowPlegBudgetBurnSlow",
        summary="The error budget of the cluster's event streams will not last its period.",
        after="<< slo.slow[0].long >>",
        description="""
            << in_cluster >> has lost << percent >> of its lifecycle events silently over one to
            three days, and kubelets there rely on events: at this rate the budget of
            << slo.period >> (objective << slo.objective >> %) does not last.
        """,
        expr="(<< burns('slow') >>) and on (<< by_cluster >>) << evented_nodes >> > 0",
        level=Level.CLUSTER,
    ),
)
