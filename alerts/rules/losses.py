"""What is lost for good, and the alerts for that: recorded and judged in one evaluation."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert, Level, Record

_EVENTS: Final = 4
# Those that are a loss: by_design is none.
CAUSES: Final = 5

RECORDS: Final = (
    # increase() extrapolates by where a range's first sample lies and whether it is 0, so that the
    # difference of two may be a loss where there was none. delta() does not, and cannot have resets.
    Record(
        name="<< lost >>",
        about="Missed minus late: events lost for good, by cause. No series where there was no loss.",
        expr="""
            round(
                (
                    << lost_of('delta') >>
                    unless on (<< by_node >>) << restarted >>
                    or
                    << lost_of('counted') >>
                    and on (<< by_node >>) << restarted >>
                )
            ) > 0
        """,
        series=_EVENTS * CAUSES,
    ),
    Record(
        name="<< owed >>",
        about="Lifecycle events that the stream had to announce: all witnessed ones, but for by_design.",
        expr="""
            sum by (<< by_node >>, event)
                (increase(shadow_pleg_lifecycle_events_total{<< exporter >>}[<< w.losses >>]))
            - sum by (<< by_node >>, event) (increase(
                kube_pod_missed_events_total{<< exporter >>, cause="by_design"}[<< w.losses >>]))
        """,
        series=_EVENTS,
    ),
    Record(
        name="<< undelivered >>",
        about="Lost in an open stream (silent, stalled), with how bad that is there: `severity`.",
        expr="""
            label_replace(
                sum by (<< by_node >>) (<< lost >>{cause=~"silent|stalled"})
                and on (<< by_node >>) (
                    << reliance >> == 2
                    or << reliance >> == 1
                    and on (<< by_node >>)
                        sum by (<< by_node >>) (<< lost >>{cause=~"silent|stalled", event="ContainerDied"})
                        > 0.5 * sum by (<< by_node >>) (<< owed >>{event="ContainerDied"})
                ),
                "severity", "<< t.relied_on >>", "", ""
            )
            or on (<< by_node >>) label_replace(
                sum by (<< by_node >>) (<< lost >>{cause=~"silent|stalled"}),
                "severity", "<< t.otherwise >>", "", ""
            )
        """,
    ),
)
ALERTS: Final = (
    # Silence is proven by a younger event; where none comes, all that is known is that the stream
    # brought nothing. That is as grave as a loss.
    Alert(
        name="ShadowPlegStreamStalled",
        summary="The event stream of a node is open and delivers nothing, or not in time.",
        after="50s",
        description="""
            If the kubelet's gate EventedPLEG is on, drain the node and switch it off; then end the
            subscriber that does not read. The event stream of << on_node >> is open, and
            << number >> event(s) of the last << w.losses >> did not arrive.
        """,
        expr="""
            << undelivered >> and on (<< by_node >>) (
                << lost >>{cause="stalled"} and on (<< by_node >>) sum by (<< by_node >>)
                    (increase(shadow_pleg_events_received_total{<< exporter >>}[<< w.losses >>])) == 0
                or on (<< by_node >>) << beyond('stalled', 'event="ContainerDied"') >>
                or on (<< by_node >>) (
                    << beyond('stalled', 'event!="ContainerDied"') >> > << t.few_losses >>
                )
            )
        """,
    ),
    # Needs no metrics of the kubelet.
    Alert(
        name="ShadowPlegMissedEvents",
        summary="The runtime of a node loses lifecycle events of containers.",
        after="50s",
        description="""
            If the kubelet's gate EventedPLEG is on, drain the node and switch it off.
            << number >> event(s) of the last << w.losses >> were never announced on << on_node >>,
            although the event stream was up.
        """,
        expr="""
            << undelivered >> and on (<< by_node >>) (
                << beyond('silent', 'event="ContainerDied"') >>
                or (<< beyond('silent', 'event!="ContainerDied"') >> > << t.few_losses >>)
            )
        """,
    ),
    Alert(
        name="ShadowPlegBudgetBurn",
        summary="The error budget of the nodes that rely on events alone is gone within days.",
        after="<< slo.burns[0].long >>",
        description="""
            Stop the roll-out of the gate EventedPLEG, or of what preceded this. The kubelets of
            << in_cluster >> that rely on events alone miss << percent >> of them: at this rate the
            budget of << slo.period >> (objective << t.objective >> %) does not last.
        """,
        expr="<< burns >>",
        level=Level.CLUSTER,
    ),
)
