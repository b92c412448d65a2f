"""Alerts: the shadow relist, which is how the runtime answers when asked."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert

ALERTS: Final = (
    # The age keeps growing while a relist hangs; histograms do not. It is taken at the scrape, so that
    # the scrape's own age does not count.
    Alert(
        name="ShadowPlegRelistStale",
        summary="The runtime of a node has not answered a relist for minutes.",
        after="<< t.relist_stale_seconds | int >>s",
        description="""
            If `crictl pods` hangs there, too, save the runtime's stacks, then restart it. The last
            successful relist of << on_node >> was << duration >> ago: its runtime is down or hangs,
            and most likely for the kubelet, too.
        """,
        expr="<< age >> > << t.relist_stale_seconds >>",
    ),
    # The quantile covers relists that ended; the overdue time covers the one that hangs.
    Alert(
        name="ShadowPlegRelistSlow",
        summary="Relists of a node are slow.",
        description="""
            Look for exited containers that nothing removes, and for a lack of CPU or disk. A relist
            of << on_node >> takes << duration >> (p99 over << w.node >>, or the one that is
            overdue).
        """,
        expr="""
            max by (<< by_node >>) (<< relist_duration >>{quantile="0.99"})
            > << t.relist_slow_seconds >>
            unless on (<< by_node >>) << lagging >>
            or
            max by (<< by_node >>) (
                timestamp(shadow_pleg_last_seen_seconds{<< exporter >>})
                - (shadow_pleg_last_seen_seconds{<< exporter >>} > 0)
            )
            - 1.1 * max by (<< by_node >>) (shadow_pleg_relist_period_seconds{<< exporter >>})
            > << t.relist_slow_seconds >>
        """,
    ),
)
