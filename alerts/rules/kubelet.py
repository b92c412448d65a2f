"""Alerts: what the kubelet and the runtime themselves say, beside what this exporter sees."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert

ALERTS: Final = (
    Alert(
        name="ShadowPlegKubeletDiscards",
        summary="A kubelet discarded pod lifecycle events because its own channel was full.",
        description="""
            The kubelet of << on_node >> discarded << number >> pod lifecycle event(s) in the last
            << w.losses >>; it never makes them up.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(kubelet_pleg_discard_events{<< kubelet >>}[<< w.losses >>])) > 0
        """,
    ),
    # containerd also counts what comes while nobody subscribes: hence the steady stream.
    Alert(
        name="ShadowPlegRuntimeDrops",
        summary="A runtime dropped container events by its own account.",
        description="""
            The runtime of << on_node >> says that it dropped << number >> container event(s) in the
            last << w.losses >>, while shadow-pleg was subscribed.
        """,
        expr="""
            (
                sum by (<< by_node >>) (increase(
                    containerd_cri_container_events_dropped_total{<< runtime >>}[<< w.losses >>])) > 0
                or
                sum by (<< by_node >>) (increase(
                    container_runtime_crio_containers_events_dropped_total{<< runtime >>}
                    [<< w.losses >>])) > 0
            )
            and on (<< by_node >>) << steady >> == 1
        """,
    ),
    # Not stream_down, which each restart of a runtime causes, nor gave_up, which is the next alert. The
    # counter holds only what both counts prove.
    Alert(
        name="ShadowPlegKubeletMissedEvents",
        summary="A kubelet does not receive events that its runtime announces.",
        after="2m",
        description="""
            << number >> event(s) in the last << w.losses >> reached shadow-pleg on << on_node >> and
            not its kubelet, whose own stream was up: the runtime announced them.
        """,
        expr="""
            sum by (<< by_node >>) (<< counted(
                "shadow_pleg_kubelet_missed_events_total", w.losses, 'cause="silent"') >>)
            and on (<< by_node >>) << gate >> == 1
        """,
    ),
    Alert(
        name="ShadowPlegKubeletGaveUp",
        summary="A kubelet has given the event stream up, though it works.",
        after="<< w.steady >>",
        description="""
            The kubelet of << on_node >> has its gate EventedPLEG on and receives no events any more;
            shadow-pleg received << number >> in the last << w.steady >>.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_events_received_total{<< exporter >>}[<< w.steady >>]))
            > << t.quiet_transitions >>
            and on (<< by_node >>) << steady >> == 1
            and on (<< by_node >>) << gate >> == 1
            and on (<< by_node >>) (
                max by (<< by_node >>) (kubelet_evented_pleg_connection_error_count{<< kubelet >>})
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
            The kubelet of << on_node >> has its gate EventedPLEG on, and its runtime has no events,
            or has them switched off: none of the << number >> lifecycle events in the last
            << w.node >> was announced.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_lifecycle_events_total{<< exporter >>}[<< w.node >>]))
            and on (<< by_node >>) << state("disabled|unsupported") >> == 1
            and on (<< by_node >>) << gate >> == 1
        """,
    ),
)
