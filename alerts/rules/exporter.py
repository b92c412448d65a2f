"""Alerts: this exporter's own health."""

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
    # Where the kubelet is gone as well it is the node, and others say so.
    Alert(
        name="ShadowPlegExporterDown",
        summary="shadow-pleg does not answer on a node.",
        description="""
            shadow-pleg on << on_node >> does not answer; in the last << w.node >> it answered
            << percent >> of the scrapes.
        """,
        expr="""
            max by (<< by_node >>) (avg_over_time(up{<< exporter >>}[<< w.node >>]))
            and on (<< by_node >>) max by (<< by_node >>) (up{<< exporter >>}) == 0
            unless on (<< by_node >>) max by (<< by_node >>) (up{<< kubelet >>}) == 0
        """,
    ),
    Alert(
        name="ShadowPlegExporterMissing",
        summary="shadow-pleg does not run on a node.",
        description="""
            A kubelet answers on << on_node >>, and Prometheus knows no shadow-pleg there, though
            << number >> other node(s) of the cluster have one.
        """,
        expr="""
            (
                max by (<< by_node >>) (up{<< kubelet >>, << node_label >>!=""}) == 1
                unless on (<< by_node >>) max by (<< by_node >>) (up{<< exporter >>})
            )
            * on (<< by_cluster >>) group_left () (<< exporters >> > 0)
        """,
    ),
    Alert(
        name="ShadowPlegExportersGone",
        summary="No shadow-pleg of a cluster answers any more.",
        description="""
            << in_cluster >> had << number >> exporter(s) within << w.installed >>, and none answers
            now: losses of events go unseen.
        """,
        expr="""
            max_over_time(<< exporters >>[<< w.installed >>]) > 0
            unless on (<< by_cluster >>) sum by (<< by_cluster >>) (up{<< exporter >>}) > 0
        """,
        level=Level.CLUSTER,
    ),
    Alert(
        name="ShadowPlegExporterRestarting",
        summary="shadow-pleg restarts again and again on a node.",
        description="""
            shadow-pleg on << on_node >> started << number >> times in the last << w.steady >>.
        """,
        expr="""
            max by (<< by_node >>)
                (changes(process_start_time_seconds{<< exporter >>}[<< w.steady >>]))
            > << t.restarts >>
        """,
    ),
    Alert(
        name="ShadowPlegEventLoopLag",
        summary="shadow-pleg is too slow to keep up on a node.",
        description="""
            The event loop of shadow-pleg on << on_node >> wakes up << duration >> late (p99 over
            << w.node >>): what it says of delays and slow relists is about itself.
        """,
        expr="""
            histogram_quantile(0.99, sum by (<< by_node >>, le)
                (rate(shadow_pleg_event_loop_lag_seconds_bucket{<< exporter >>}[<< w.node >>])))
            > << t.loop_lag_seconds >>
        """,
    ),
    Alert(
        name="ShadowPlegWebConfigStale",
        summary="shadow-pleg could not reload its web configuration on a node.",
        description="""
            The web configuration of shadow-pleg on << on_node >> changed and cannot be used: the last
            good one stays in force, with its certificates. In the last << w.node >> the one on disk
            was in force for << percent >> of the time.
        """,
        expr="""
            max by (<< by_node >>)
                (avg_over_time(shadow_pleg_web_config_last_reload_successful{<< exporter >>}[<< w.node >>]))
            and on (<< by_node >>)
                max by (<< by_node >>) (shadow_pleg_web_config_last_reload_successful{<< exporter >>}) == 0
        """,
    ),
)
