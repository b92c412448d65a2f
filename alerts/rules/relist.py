"""Alerts: the shadow relist, which is how the runtime answers when asked."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert

ALERTS: Final = (
    # The age moves on while a relist hangs, and histograms do not.
    Alert(
        name="ShadowPlegRelistStale",
        summary="The runtime of a node has not answered a relist for minutes.",
        description="""
            The last successful relist of << on_node >> was << duration >> ago: its runtime is down
            or hangs, and most likely for the kubelet, too.
        """,
        expr="<< age >> > << t.relist_stale_seconds >>",
    ),
    Alert(
        name="ShadowPlegRelistFailing",
        summary="Most relists of a node fail.",
        description="""
            << percent >> of the relists of << on_node >> failed in the last << w.node >>.
        """,
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_relist_errors_total{<< exporter >>}[<< w.node >>]))
            / sum by (<< by_node >>)
                (increase(shadow_pleg_relist_duration_seconds_count{<< exporter >>}[<< w.node >>]))
            > << t.relist_failing_ratio >>
        """,
    ),
    # The quantile knows of relists that ended; how long the next one is overdue, of those that hang.
    Alert(
        name="ShadowPlegRelistSlow",
        summary="Relists of a node are slow.",
        description="""
            A relist of << on_node >> takes << duration >> (p99 over << w.node >>, or the one that
            is overdue).
        """,
        expr="""
            max by (<< by_node >>) (<< relist_duration >>{quantile="0.99"})
            > << t.relist_slow_seconds >>
            or
            << age >> - 1.1 * max by (<< by_node >>)
                (shadow_pleg_relist_period_seconds{<< exporter >>})
            > << t.relist_slow_seconds >>
        """,
    ),
    Alert(
        name="ShadowPlegRelistStretched",
        summary="Relists of a node are made less often, to spare its runtime.",
        description="""
            The pause between two relists of << on_node >> is << duration >>: more frequent ones
            would take more of the runtime's time than they may.
        """,
        expr="""
            max by (<< by_node >>) (shadow_pleg_relist_period_seconds{<< exporter >>})
            > << t.relist_stretched_seconds >>
        """,
    ),
)
