"""Recording rules: of each node, of each cluster, and what `shadow-pleg report` reads."""

from __future__ import annotations

from typing import Final

from alerts.entries import Level, Record
from promql.series import KEPT, KUBELET, KUBELET_KEPT, Kept

_CLUSTER: Final = Level.CLUSTER

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
    Record(
        name="shadow_pleg:node:kubelet_missed_events:increase<< w.losses >>",
        about="Events that came to shadow-pleg minus those that came to its kubelet, while shadow-pleg"
        " was subscribed: above 0 the kubelet's connection lost some, below 0 shadow-pleg's."
        " Up to a scrape's events is no difference.",
        expr="""
            sum by (<< by_node >>)
                (increase(shadow_pleg_events_received_total{<< exporter >>}[<< w.losses >>]))
            - on (<< by_node >>) sum by (<< by_node >>) (increase(
                kubelet_evented_pleg_connection_latency_seconds_count{<< kubelet >>}[<< w.losses >>]))
            and on (<< by_node >>) << steady >> == 1
            and on (<< by_node >>) << reliance >> > 0
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


def _kept(series: Kept) -> Record:
    """The rule that keeps it."""
    if series.how == "sum":
        names = [each for each in (series.scraped, series.less) if each]
        more = "".join(f", '{label}'" for label in series.by)
        more += f", matchers='{series.matchers}'" if series.matchers else ""
        expr = " - ".join(f"<< snapshot('{name}'{more}) >>" for name in names)
    else:
        of = f"{series.scraped}{{<< exporter >>, {series.matchers}}}[5m]"
        # A process has one series of each, but for states, which exclude each other.
        over = {"avg5m": f"avg_over_time({of})", "last5m": f"last_over_time({of})"}[series.how]
        expr = f"sum by (<< by_process >>{''.join(f', {each}' for each in series.by)}) ({over})"
    return Record(name=series.recorded, about=series.about, expr=expr, series=series.series)


REPORT: Final = (
    *(_kept(each) for each in KEPT),
    Record(
        name=KUBELET_KEPT,
        about="1 where a kubelet is scraped.",
        expr=f"""
            group by (<< by_node >>, job) (last_over_time({KUBELET}{{<< kubelet >>}}[5m]))
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
