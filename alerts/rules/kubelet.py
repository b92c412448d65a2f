"""Alerts: what the kubelet itself says, beside what this exporter sees."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert

ALERTS: Final = (
    Alert(
        name="ShadowPlegKubeletDiscards",
        summary="A kubelet discarded pod lifecycle events because its own channel was full.",
        description="""
            If pods hang there, restart the kubelet. The kubelet of << on_node >> discarded
            << number >> pod lifecycle event(s) in the last << w.losses >>; they are not redelivered.
        """,
        expr="""
            sum by (<< by_node >>) (<< grew("kubelet_pleg_discard_events", w.losses) >>) > 0
        """,
    ),
    Alert(
        name="ShadowPlegKubeletGaveUp",
        summary="A kubelet has given up the event stream, although it works.",
        after="<< w.steady >>",
        description="""
            Restart the kubelet, or switch its gate EventedPLEG off. The kubelet of << on_node >> has
            the gate on and no longer receives events; shadow-pleg received << number >> in the last
            << w.steady >>.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_events_received_total{<< exporter >>}[<< w.steady >>]))
            > << t.gave_up_least_events >>
            and on (<< by_node >>) << steady >> == 1
            and on (<< by_node >>) << reliance >> > 0
            and on (<< by_node >>) (
                max by (<< by_node >>) (<< either("kubelet_evented_pleg_connection_error_count") >>)
                >= << t.kubelet_gives_up_errors >>
                and on (<< by_node >>) sum by (<< by_node >>) (increase(
                    kubelet_evented_pleg_connection_latency_seconds_count{<< kubelet >>}
                    [<< w.steady >>]))
                == 0
                or max by (<< by_node >>)
                    (shadow_pleg_kubelet_stream{<< exporter >>, state="gave_up"}) == 1
            )
        """,
    ),
    Alert(
        name="ShadowPlegGateWithoutEvents",
        summary="A kubelet relies on events that its runtime does not announce.",
        description="""
            Switch the runtime's events on, or the kubelet's gate EventedPLEG off. The kubelet of
            << on_node >> has the gate on, and its runtime has no events, or has them switched off:
            none of the << number >> lifecycle events in the last << w.node >> was announced.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_lifecycle_events_total{<< exporter >>}[<< w.node >>]))
            and on (<< by_node >>) << state("disabled|unsupported") >> == 1
            and on (<< by_node >>) << reliance >> > 0
        """,
    ),
)
