"""Alerts: this exporter's own health, and one for what many nodes have at once."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert, Level

ALERTS: Final = (
    Alert(
        name="ShadowPlegEventsDiscarded",
        summary="shadow-pleg discarded events because its own queue was full.",
        description="""
            End the crash loop that floods the stream, or give shadow-pleg more CPU. On << on_node >>
            it discarded << number >> event(s) in the last << w.losses >>: misses of that time have
            the cause discarded.
        """,
        expr="""
            sum by (<< by_node >>)
                (<< counted("shadow_pleg_discard_events_total", w.losses) >>)
        """,
    ),
    # Where the kubelet is gone as well it is the node, and other alerts cover that. A node that never
    # had an exporter (a canary's cluster, Windows, a virtual node) does not lack one. Where few have
    # one they are canaries, which move, or all are gone: the next alert. A crash loop answers now and
    # then; one outage, which has two changes, does not count for as long as it is in the average.
    Alert(
        name="ShadowPlegExporterDown",
        summary="shadow-pleg does not answer, is gone, or keeps restarting, on a node.",
        description="""
            Look at its pod: there is none, it restarts again and again, or it cannot be reached.
            shadow-pleg on << on_node >> answered << percent >> of the scrapes of the last
            << w.installed >>.
        """,
        expr="""
            max by (<< by_node >>) (avg_over_time(up{<< exporter >>}[<< w.installed >>]))
            and on (<< by_node >>) (
                (
                    max by (<< by_node >>) (up{<< exporter >>}) == 0
                    or max by (<< by_node >>) (avg_over_time(up{<< exporter >>}[<< w.steady >>]))
                    < << t.exporter_answers >>
                    and on (<< by_node >>)
                        max by (<< by_node >>) (changes(up{<< exporter >>}[<< w.steady >>])) > 3
                ) unless on (<< by_node >>) max by (<< by_node >>) (up{<< kubelet >>}) == 0
                or (
                    max by (<< by_node >>) (up{<< kubelet >>, << node_label >>!=""}) == 1
                    unless on (<< by_node >>) max by (<< by_node >>) (up{<< exporter >>})
                )
                and on (<< by_cluster >>)
                    count by (<< by_cluster >>) (max by (<< by_node >>) (up{<< exporter >>}))
                    > << most >>
                or max by (<< by_node >>) (
                    changes(process_start_time_seconds{<< exporter >>}[<< w.restarts >>])
                    and on (<< by_node >>, instance) up{<< exporter >>}
                ) > << t.exporter_restarts >>
            )
        """,
    ),
    # Where most nodes had an exporter within the last day and most have none now: so what is no
    # ShadowPlegExporterDown any more, because too many are gone, is this. Without kubelets, nodes that
    # are gone look like exporters that are, and only a sudden fall counts.
    Alert(
        name="ShadowPlegExportersGone",
        summary="Most of a cluster's nodes no longer have shadow-pleg.",
        level=Level.CLUSTER,
        description="""
            See whether DaemonSet, PodMonitor and namespace are as they were; silence this if it was
            uninstalled. << number >> exporter(s) of << in_cluster >> that were there within the last
            << w.installed >> are gone.
        """,
        expr="""
            << installed >> - << targets >>
            and on (<< by_cluster >>) (
                << installed >> > << most >>
                and on (<< by_cluster >>) << targets >> <= << most >>
                or (<< exporters >> offset 1h > 2 * << targets >>)
                    unless on (<< by_cluster >>) up{<< kubelet >>} offset 1h
            )
        """,
    ),
    # One for all nodes: alerts of each of them are held back meanwhile.
    Alert(
        name="ShadowPlegManyNodes",
        summary="Many nodes of a cluster have the same alert at the same time.",
        description="""
            Look for what changed in the whole cluster. << number >> nodes of << in_cluster >> have
            {{ $labels.problem }}.
        """,
        expr="""
            << on_many >> > << t.many_nodes >>
            and
            << on_many >> / on (<< by_cluster >>) group_left () count by (<< by_cluster >>)
                (max by (<< by_node >>) (last_over_time(up{<< exporter >>}[<< w.losses >>])))
            > << t.many_nodes_ratio >>
        """,
        level=Level.CLUSTER,
    ),
)
