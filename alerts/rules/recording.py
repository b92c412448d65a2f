"""Recording rules: of each node, of each cluster, and what `shadow-pleg report` reads."""

from __future__ import annotations

from typing import Final

from alerts.entries import Level, Record
from alerts.rules.losses import CAUSES

_CLUSTER: Final = Level.CLUSTER
_EVENTS: Final = 4
_EXIT_BUCKETS: Final = 18

NODE: Final = (
    Record(
        name="<< delivery >>",
        about="From the runtime's created_at to our reception; absent without events.",
        expr="""
            histogram_quantile(<< quantile >>, sum by (<< by_node >>, le)
                (rate(shadow_pleg_event_delivery_seconds_bucket{<< exporter >>}[<< w.node >>])))
            >= 0
        """,
        quantile="0.99",
    ),
    Record(
        name="<< exit_to_event >>",
        about="From a container's exit to its STOPPED; absent without exits whose time is known.",
        expr="""
            histogram_quantile(<< quantile >>, sum by (<< by_node >>, le)
                (rate(shadow_pleg_exit_to_event_seconds_bucket{<< exporter >>}[<< w.node >>])))
            >= 0
        """,
        quantile="0.5",
    ),
    Record(
        name="<< relist_duration >>",
        about="Of shadow relists, failed ones included. Frozen while a relist hangs.",
        expr="""
            histogram_quantile(<< quantile >>, sum by (<< by_node >>, le)
                (rate(shadow_pleg_relist_duration_seconds_bucket{<< exporter >>}[<< w.node >>])))
            >= 0
        """,
        quantile="0.99",
    ),
    Record(
        name="shadow_pleg:node:stream_availability:avg<< w.node >>",
        about="Share of the time in which the stream was up.",
        expr="""
            avg by (<< by_node >>)
                (avg_over_time(shadow_pleg_stream_state{<< exporter >>, state="streaming"}[<< w.node >>]))
        """,
    ),
    Record(
        name="<< steady >>",
        about="1 where one and the same subscription was up all the time.",
        expr="""
            min by (<< by_node >>)
                (min_over_time(shadow_pleg_stream_state{<< exporter >>, state="streaming"}[<< w.steady >>]))
            * min by (<< by_node >>)
                (increase(shadow_pleg_stream_connections_total{<< exporter >>}[<< w.steady >>]) == bool 0)
            * min by (<< by_node >>)
                (time() - process_start_time_seconds{<< exporter >>} > bool << seconds(w.steady) >>)
        """,
    ),
    # A kubelet that tells no version may be an old one.
    Record(
        name="<< reliance >>",
        about="Does the kubelet rely on events? 0: its gate EventedPLEG is off. 1: on, and Kubernetes 1.37"
        " or later takes them as hints. 2: on, and they replace its relists. As last seen; where the"
        " kubelet is not scraped, as shadow-pleg knows it (`--kubelet-metrics-url`).",
        expr="""
            max by (<< by_node >>) (last_over_time(
                kubernetes_feature_enabled{<< kubelet >>, name="EventedPLEG"}[<< w.gate >>]))
            and on (<< by_node >>) last_over_time(kubernetes_build_info{
                << kubelet >>, git_version=~"v1[.](3[7-9]|[4-9][0-9]).*"}[<< w.gate >>])
            or
            2 * max by (<< by_node >>) (last_over_time(
                kubernetes_feature_enabled{<< kubelet >>, name="EventedPLEG"}[<< w.gate >>]))
            or
            max by (<< by_node >>) (
                2 * last_over_time(
                    shadow_pleg_kubelet_reliance{<< exporter >>, state="replaces"}[<< w.gate >>])
                + ignoring (state) last_over_time(
                    shadow_pleg_kubelet_reliance{<< exporter >>, state="hints"}[<< w.gate >>])
                unless ignoring (state) last_over_time(
                    shadow_pleg_kubelet_reliance{<< exporter >>, state="unknown"}[<< w.gate >>]) == 1
            )
        """,
    ),
)

CLUSTER: Final = (
    Record(
        name="<< relied_lost >>",
        about="Lost in open streams of nodes whose kubelets rely on events alone.",
        expr="""
            sum by (<< by_cluster >>)
                (<< lost >>{cause=~"silent|stalled"} and on (<< by_node >>) << reliance >> == 2)
            or 0 * << relied_owed >>
        """,
        per=_CLUSTER,
    ),
    Record(
        name="<< relied_owed >>",
        about="Events that these streams had to announce.",
        expr="sum by (<< by_cluster >>) (<< owed >> and on (<< by_node >>) << reliance >> == 2)",
        per=_CLUSTER,
    ),
    Record(
        name="<< exporters >>",
        about="Nodes whose exporter answers.",
        expr="sum by (<< by_cluster >>) (max by (<< by_node >>) (up{<< exporter >>}))",
        per=_CLUSTER,
    ),
)

# The report of a long window reads these instead of raw series: one sample in five minutes, and no
# label that it does not use. They are counters and shares of one process each (its `instance`).
REPORT_INTERVAL: Final = "5m"
REPORT: Final = (
    Record(
        name="shadow_pleg:process:lifecycle_events:sum",
        about="Lifecycle events that the relist witnessed, by event.",
        expr="<< snapshot('shadow_pleg_lifecycle_events_total', 'event') >>",
        series=_EVENTS,
    ),
    Record(
        name="shadow_pleg:process:events_received:sum",
        about="Events that came over the stream.",
        expr="<< snapshot('shadow_pleg_events_received_total') >>",
    ),
    Record(
        name="shadow_pleg:process:missed_events:sum",
        about="Missed ones, by event and cause.",
        expr="<< snapshot('kube_pod_missed_events_total', 'event', 'cause') >>",
        series=_EVENTS * (CAUSES + 1),
    ),
    Record(
        name="shadow_pleg:process:late_events:sum",
        about="Missed, and announced after all, by event and cause of the miss.",
        expr="<< snapshot('shadow_pleg_late_events_total', 'event', 'cause') >>",
        series=_EVENTS * CAUSES,
    ),
    Record(
        name="shadow_pleg:process:undecided_events:sum",
        about="Exits that may not have been owed.",
        expr="<< snapshot('shadow_pleg_undecided_events_total') >>",
    ),
    Record(
        name="shadow_pleg:process:steady_event_gaps:sum",
        about="Gaps that no outage explains.",
        expr="""
            << snapshot('shadow_pleg_event_gaps_total', 'event') >>
            - << snapshot('shadow_pleg_outage_event_gaps_total', 'event') >>
        """,
        series=_EVENTS,
    ),
    Record(
        name="shadow_pleg:process:stream_disconnects:sum",
        about="Subscriptions that ended, but for those that the exporter ended itself.",
        expr="<< snapshot('shadow_pleg_stream_disconnects_total', matchers='reason!=\"overflow\"') >>",
    ),
    Record(
        name="shadow_pleg:process:stream_stalls:sum",
        about="Times that the stream was open and brought nothing in time.",
        expr="<< snapshot('shadow_pleg_stream_stalls_total') >>",
    ),
    Record(
        name="shadow_pleg:process:ghosts:sum",
        about="Containers listed as running that had no process.",
        expr="<< snapshot('shadow_pleg_ghosts_total') >>",
    ),
    Record(
        name="shadow_pleg:process:strays:sum",
        about="Containers with processes that were not listed.",
        expr="<< snapshot('shadow_pleg_strays_total') >>",
    ),
    *(
        Record(
            name=f"shadow_pleg:process:exit_to_{notice}_bucket:sum",
            about=f"Exits by the time until their {word}, as a histogram.",
            expr=f"<< snapshot('shadow_pleg_exit_to_{notice}_seconds_bucket', 'le') >>",
            series=_EXIT_BUCKETS,
        )
        for notice, word in (("event", "announcement"), ("list", "listing"))
    ),
    Record(
        name="shadow_pleg:process:kernel_witness:last5m",
        about="1 while the kernel is a witness: only then are ghosts and strays counted.",
        expr="""
            max by (<< by_process >>) (last_over_time(
                shadow_pleg_kernel_witness{<< exporter >>, state="watching"}[5m]))
        """,
    ),
    Record(
        name="shadow_pleg:process:streaming:avg5m",
        about="Share of the time in which the stream was up.",
        expr="""
            max by (<< by_process >>)
                (avg_over_time(shadow_pleg_stream_state{<< exporter >>, state="streaming"}[5m]))
        """,
    ),
    Record(
        name="shadow_pleg:process:not_subscribed:avg5m",
        about="Share of the time in which it was disabled, refused or unsupported.",
        expr="""
            sum by (<< by_process >>) (avg_over_time(
                shadow_pleg_stream_state{<< exporter >>, state=~"disabled|refused|unsupported"}[5m]))
        """,
    ),
    Record(
        name="shadow_pleg:process:runtime:last5m",
        about="The runtime.",
        expr="""
            group by (<< by_process >>, name, version, stream)
                (last_over_time(shadow_pleg_runtime_info{<< exporter >>, name!=""}[5m]))
        """,
    ),
    Record(
        name="shadow_pleg:node:kubelet:last5m",
        about="1 where a kubelet is scraped.",
        expr="""
            group by (<< by_node >>, job)
                (last_over_time(kubelet_pleg_relist_interval_seconds_count{<< kubelet >>}[5m]))
        """,
    ),
)


def slo(window: str) -> Record:
    """The ratio that the budget is for, over a longer window made of short ones.

    The average of what is recorded: a range of days over raw series of 5 000 nodes is not affordable.
    """
    return Record(
        name=f"shadow_pleg:cluster:slo_missed_ratio:avg{window}",
        about="Share that is lost of what kubelets rely on; absent where none relies on events alone.",
        expr=f"""
            avg_over_time(<< relied_lost >>[{window}])
            / (avg_over_time(<< relied_owed >>[{window}]) > 0)
        """,
        per=_CLUSTER,
    )
