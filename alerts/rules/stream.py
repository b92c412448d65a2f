"""Alerts: the event stream, and how its events arrive."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert, Level

ALERTS: Final = (
    # Streams that this process closed itself, for want of room, are ShadowPlegEventsDiscarded.
    Alert(
        name="ShadowPlegStreamDown",
        summary="The event stream of a node is down, or ends again and again.",
        description="""
            The event stream of << on_node >> was up for << percent >> of the last << w.node >>. What
            happens while it is down is counted as missed with the cause stream_down.
        """,
        expr="""
            avg by (<< by_node >>)
                (avg_over_time(shadow_pleg_stream_state{<< exporter >>, state="streaming"}[<< w.node >>]))
            and on (<< by_node >>) (
                (<< state("connecting|backoff") >> == 1
                    unless on (<< by_node >>) << state("streaming") >> == 1)
                or round(sum by (<< by_node >>) (increase(shadow_pleg_stream_disconnects_total{
                    << exporter >>, reason!~"overflow|stalled"}[<< w.losses >>])))
                > << t.flapping_disconnects >>
            )
        """,
    ),
    Alert(
        name="ShadowPlegStreamStalled",
        summary="The event stream of a node is open and silent, while containers come and go.",
        after="<< w.steady >>",
        description="""
            The relist saw << number >> transitions on << on_node >> in the last << w.steady >>, and
            the event stream announced nothing, or stood still again and again.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_lifecycle_events_total{<< exporter >>}[<< w.steady >>]))
            - sum by (<< by_node >>) (increase(
                kube_pod_missed_events_total{<< exporter >>, cause="by_design"}[<< w.steady >>]))
            > << t.quiet_transitions >>
            and on (<< by_node >>) (
                sum by (<< by_node >>)
                    (increase(shadow_pleg_events_received_total{<< exporter >>}[<< w.steady >>])) == 0
                and on (<< by_node >>) << steady >> == 1
                or round(sum by (<< by_node >>) (increase(shadow_pleg_stream_disconnects_total{
                    << exporter >>, reason="stalled"}[<< w.steady >>]))) > << t.stalls >>
            )
        """,
    ),
    Alert(
        name="ShadowPlegDeliverySlow",
        summary="Events of a node's runtime take seconds to arrive.",
        description="""
            1 in 100 events on << on_node >> arrives later than << duration >> after the runtime
            stamped it (p99 over << w.node >>).
        """,
        expr="""
            max by (<< by_node >>) (<< delivery >>{quantile="0.99"})
            > << t.delivery_p99_seconds >>
            and on (<< by_node >>) sum by (<< by_node >>) (increase(
                shadow_pleg_event_delivery_seconds_count{<< exporter >>}[<< w.node >>]))
            >= << t.delivery_least_events >>
            unless on (<< by_node >>) << lagging >>
        """,
    ),
    # The runtime's created_at comes after its clean-up, so a delivery does not show this.
    Alert(
        name="ShadowPlegExitsAnnouncedLate",
        summary="Exits of containers are announced later than a kubelet's relist would find them.",
        after="<< w.node >>",
        description="""
            Every second exit on << on_node >> is announced later than << duration >> after it
            happened (p50 over << w.node >>). A runtime that cleans up slowly lists it as late.
        """,
        expr="""
            max by (<< by_node >>) (<< exit_to_event >>{quantile="0.5"})
            > << t.exit_p50_seconds >>
            and on (<< by_node >>) sum by (<< by_node >>) (increase(
                shadow_pleg_exit_to_event_seconds_count{<< exporter >>}[<< w.node >>]))
            >= << t.exit_least_exits >>
            unless on (<< by_node >>) << lagging >>
        """,
    ),
    # Nothing is wrong with these nodes, but nothing is known of them either: nothing to say where no
    # node is watched, because there it is as somebody wants it.
    Alert(
        name="ShadowPlegNodesNotWatched",
        summary="Some nodes of a cluster have no event stream that shadow-pleg may use.",
        description="""
            << number >> node(s) of << in_cluster >> are not watched, because their runtime has no
            event stream, has it switched off, or would be harmed by a second subscriber. Others are.
        """,
        expr="""
            sum by (<< by_cluster >>) (<< state("disabled|unsupported|refused") >>) > 0
            and on (<< by_cluster >>) max_over_time(<< streaming_nodes >>[<< w.expected >>]) > 0
        """,
        level=Level.CLUSTER,
    ),
)
