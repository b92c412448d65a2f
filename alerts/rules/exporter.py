"""Alerts: this exporter's own health, and one for what many nodes have at once."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert, Level

ALERTS: Final = (
    Alert(
        name="ShadowPlegEventsDiscarded",
        summary="shadow-pleg discarded events because its own queue was full.",
        description="""
            shadow-pleg on << on_node >> discarded << number >> event(s) in the last << w.losses >>:
            misses of that time have the cause discarded.
        """,
        expr="""
            sum by (<< by_node >>)
                (<< counted("shadow_pleg_discard_events_total", w.losses) >>)
        """,
    ),
    # Where the kubelet is gone as well it is the node, and other alerts cover that. A node that never
    # had an exporter (a canary's cluster, Windows, a virtual node) does not lack one, and where few have
    # one they are canaries, which move, or it was uninstalled.
    Alert(
        name="ShadowPlegExporterDown",
        summary="shadow-pleg does not answer, or does not run any more, on a node.",
        description="""
            shadow-pleg on << on_node >> does not answer; it answered << percent >> of the scrapes of
            the last << w.installed >>.
        """,
        expr="""
            max by (<< by_node >>) (avg_over_time(up{<< exporter >>}[<< w.installed >>]))
            and on (<< by_node >>) (
                (max by (<< by_node >>) (up{<< exporter >>}) == 0
                    unless on (<< by_node >>) max by (<< by_node >>) (up{<< kubelet >>}) == 0)
                or (
                    max by (<< by_node >>) (up{<< kubelet >>, << node_label >>!=""}) == 1
                    unless on (<< by_node >>) max by (<< by_node >>) (up{<< exporter >>})
                )
                and on (<< by_cluster >>)
                    count by (<< by_cluster >>) (max by (<< by_node >>) (up{<< exporter >>}))
                    > << t.installed_ratio >> * count by (<< by_cluster >>)
                        (max by (<< by_node >>) (up{<< kubelet >>}))
            )
        """,
    ),
    # One for all nodes: alerts of each of them are held back meanwhile.
    Alert(
        name="ShadowPlegManyNodes",
        summary="Many nodes of a cluster have the same alert at the same time.",
        description="""
            << number >> nodes of << in_cluster >> have {{ $labels.problem }}: look
            for what changed in the whole cluster.
        """,
        expr="""
            << on_many >> > << t.many_nodes >>
            and
            << on_many >> / on (<< by_cluster >>) group_left () count by (<< by_cluster >>)
                (max by (<< by_node >>) (last_over_time(up{<< exporter >>}[<< w.installed >>])))
            > << t.many_nodes_ratio >>
        """,
        level=Level.CLUSTER,
    ),
)
