"""Alerts: the event stream, and how its events arrive."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert

ALERTS: Final = (
    # Streams that this process closed itself, for want of room, are ShadowPlegEventsDiscarded.
    Alert(
        name="ShadowPlegStreamDown",
        summary="The event stream of a node is down, or ends again and again.",
        description="""
            See in shadow-pleg's log why the stream ends, and whether the runtime restarts. The event
            stream of << on_node >> is down, or ends again and again: it was up for << percent >> of
            the last << w.node >>. What happens while it is down is counted as missed with the cause
            stream_down.
        """,
        expr="""
            avg by (<< by_node >>)
                (avg_over_time(shadow_pleg_stream_state{<< exporter >>, state="streaming"}[<< w.node >>]))
            and on (<< by_node >>) (
                (<< state("connecting|backoff") >> == 1
                    unless on (<< by_node >>) << state("streaming") >> == 1)
                or round(sum by (<< by_node >>) (increase(shadow_pleg_stream_disconnects_total{
                    << exporter >>, reason!="overflow"}[<< w.losses >>])))
                > << t.flapping_disconnects >>
            )
        """,
    ),
    # The runtime's created_at comes after its clean-up, so a delivery does not show this.
    Alert(
        name="ShadowPlegExitsAnnouncedLate",
        summary="Exits of containers are announced later than a kubelet's relist would find them.",
        after="<< w.node >>",
        description="""
            Look for a slow disk and for shims that are stopped or stuck. Half of the exits on
            << on_node >> are announced later than << duration >> after they happened (p50 over
            << w.node >>). A runtime that cleans up slowly lists it as late.
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
)
