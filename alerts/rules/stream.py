"""Alerts: the event stream, and how its events arrive."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert

# Times the number of nodes that stream, or did: nothing where none is expected to.
_WHERE_EXPECTED: Final = """
    * on (<< by_cluster >>) group_left ()
    (max_over_time(<< streaming_nodes >>[<< w.expected >>]) > 0)
"""

ALERTS: Final = (
    Alert(
        name="ShadowPlegStreamDown",
        summary="The event stream of a node is down and cannot be opened again.",
        description="""
            The event stream of << on_node >> is down; it was up for << percent >> of the last
            << w.node >>. What happens meanwhile is counted as missed with the cause stream_down.
        """,
        expr="""
            avg by (<< by_node >>)
                (avg_over_time(shadow_pleg_stream_state{<< exporter >>, state="streaming"}[<< w.node >>]))
            and on (<< by_node >>) << state("connecting|backoff") >> == 1
            unless on (<< by_node >>) << state("streaming") >> == 1
        """,
    ),
    # Streams that this process closed itself, for want of room, are ShadowPlegEventsDiscarded.
    Alert(
        name="ShadowPlegStreamFlapping",
        summary="The event stream of a node ends again and again.",
        description="""
            The event stream of << on_node >> ended << number >> times in the last << w.losses >>.
        """,
        expr="""
            sum by (<< by_node >>) (increase(
                shadow_pleg_stream_disconnects_total{<< exporter >>, reason!="overflow"}[<< w.losses >>]))
            > << t.flapping_disconnects >>
        """,
    ),
    Alert(
        name="ShadowPlegStreamDisabled",
        summary="The runtime of a node has its events switched off, in a cluster that uses them.",
        description="""
            The runtime of << on_node >> ends the event stream at once: its events are switched off,
            while << number >> node(s) of the cluster stream, or did within << w.expected >>.
        """,
        expr=f"""
            ((<< state("disabled") >> == 1) {_WHERE_EXPECTED})
            unless on (<< by_node >>) << gate >> == 1
        """,
    ),
    Alert(
        name="ShadowPlegStreamUnsupported",
        summary="The runtime of a node has no event stream, in a cluster that uses them.",
        description="""
            The runtime of << on_node >> is too old to announce events, while << number >> node(s) of
            the cluster stream, or did within << w.expected >>: nothing is missed here, and nothing
            is known.
        """,
        expr=f"""
            ((<< state("unsupported") >> == 1) {_WHERE_EXPECTED})
            unless on (<< by_node >>) << gate >> == 1
        """,
    ),
    Alert(
        name="ShadowPlegStreamRefused",
        summary="A node is not watched, because subscribing there could harm its kubelet.",
        description="""
            shadow-pleg does not subscribe on << on_node >>, because a second subscriber could harm
            its kubelet or because it was told not to, while << number >> node(s) of the cluster
            stream, or did within << w.expected >>.
        """,
        expr=f"""(<< state("refused") >> == 1) {_WHERE_EXPECTED}""",
    ),
    Alert(
        name="ShadowPlegStreamQuiet",
        summary="The event stream of a node is open and silent, while containers come and go.",
        description="""
            The relist saw << number >> transitions on << on_node >> in the last << w.steady >>, and
            the event stream, which was up all the time, announced nothing at all.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_lifecycle_events_total{<< exporter >>}[<< w.steady >>]))
            - sum by (<< by_node >>) (increase(
                kube_pod_missed_events_total{<< exporter >>, cause="by_design"}[<< w.steady >>]))
            > << t.quiet_transitions >>
            and on (<< by_node >>) sum by (<< by_node >>)
                (increase(shadow_pleg_events_received_total{<< exporter >>}[<< w.steady >>])) == 0
            and on (<< by_node >>) << steady >> == 1
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
        """,
    ),
    Alert(
        name="ShadowPlegDeliveryLate",
        summary="Events of a node's runtime arrived after they had been counted as missed.",
        description="""
            << number >> event(s) on << on_node >> came later than the grace in the last
            << w.losses >>, on a stream that was up for << w.steady >>.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_late_events_total{<< exporter >>}[<< w.losses >>])) > 0
            and on (<< by_node >>) << steady >> == 1
        """,
    ),
)
