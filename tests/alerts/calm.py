"""What befalls the fleet without anybody being told: for each alert, what comes close to it.

And the awkward moments at which a loss must not be overlooked. Not here: how
cases are judged (`test_rules`).
"""

from __future__ import annotations

from typing import Final

from tests.alerts.fleet import MISSED, Fleet, kubelet
from tests.alerts.incidents import A, Change, Firing

EVERYTHING: Final = ""


def _nothing(_: Fleet) -> None:
    """A quiet day."""


def _late(fleet: Fleet) -> None:
    fleet.miss("ContainerDied", "silent", 1, 40)
    fleet.a.add("shadow_pleg_late_events_total", 1, 41, event="ContainerDied", object="container")
    # It came after a reconnection.
    fleet.a.add("shadow_pleg_stream_connections_total", 1, 41)


def _gaps_after_a_reconnection(fleet: Fleet) -> None:
    fleet.a.add("shadow_pleg_stream_connections_total", 1, 38)
    fleet.a.add("shadow_pleg_stream_disconnects_total", 1, 38, reason="unavailable")
    fleet.a.add("shadow_pleg_event_gaps_total", 9, 40, event="ContainerStarted", object="container")


def _three_lost(fleet: Fleet) -> None:
    # Long ago, and few: a large share of little is no reason to burn a budget over.
    fleet.a.add(MISSED, 3, 5, event="ContainerRemoved", object="container", cause="silent")


def _back_within_minutes(fleet: Fleet) -> None:
    fleet.state("backoff", 40)
    fleet.state("streaming", 44)


def _overflow(fleet: Fleet) -> None:
    for minute in (40, 41, 42, 43, 44):
        fleet.a.add("shadow_pleg_stream_disconnects_total", 1, minute, reason="overflow")
    for minute in (40, 45, 50):
        fleet.a.add("shadow_pleg_stream_disconnects_total", 1, minute, reason="eof")


def _nowhere(state: str) -> Change:
    def change(fleet: Fleet) -> None:
        fleet.alone()
        fleet.state(state)

    return change


def _told(gate: str) -> Change:
    def change(fleet: Fleet) -> None:
        _nowhere("disabled")(fleet)
        fleet.told(gate)

    return change


def _by_design_alone(fleet: Fleet) -> None:
    fleet.a.freeze("shadow_pleg_events_received_total", 10)
    fleet.a.grow(MISSED, 2, 1, cause="by_design")


def _slow_but_few(fleet: Fleet) -> None:
    fleet.slow("event_delivery", "1", 5)
    fleet.a.freeze("shadow_pleg_event_delivery_seconds_count", 20)


def _stretched(fleet: Fleet) -> None:
    fleet.a.put("shadow_pleg_relist_period_seconds", 50, 5)
    fleet.a.put("shadow_pleg_last_seen_seconds", lambda minute: minute * 60.0 - 60, 5)


def _not_listed_yet(fleet: Fleet) -> None:
    fleet.a.appear(40)
    fleet.a.put("shadow_pleg_last_seen_seconds", 0, 40)


def _held_for_nobody(fleet: Fleet) -> None:
    fleet.a.appear(35)
    fleet.runtime.grow("containerd_cri_container_events_dropped_total", 5, 1)
    fleet.runtime.freeze("containerd_cri_container_events_dropped_total", 35)


def _four_errors(fleet: Fleet) -> None:
    fleet.kubelet = kubelet(A, fleet.minutes, evented=True)
    fleet.kubelet.add("kubelet_evented_pleg_connection_error_count", 4, 5)
    fleet.kubelet.freeze("kubelet_evented_pleg_connection_latency_seconds_count", 5)


def _recovered(fleet: Fleet) -> None:
    fleet.kubelet = kubelet(A, fleet.minutes, evented=True)
    fleet.kubelet.add("kubelet_evented_pleg_connection_error_count", 40, 5)


def _node_dead(fleet: Fleet) -> None:
    for target in (fleet.a, fleet.kubelet, fleet.runtime):
        target.unscraped(40, fleet.minutes)


def _not_installed(fleet: Fleet) -> None:
    fleet.a.series, fleet.b.series = {}, {}


def _unscraped(fleet: Fleet) -> None:
    for target in fleet.targets:
        target.unscraped(40, 44)


def _written_apart(fleet: Fleet) -> None:
    fleet.a.put("shadow_pleg_web_config_last_reload_successful", 0, 40)
    fleet.a.put("shadow_pleg_web_config_last_reload_successful", 1, 45)


def _two_crashes(fleet: Fleet) -> None:
    for minute in (40, 44):
        fleet.a.restart(minute)


def _new_node(fleet: Fleet) -> None:
    for target in (fleet.a, fleet.kubelet, fleet.runtime):
        target.appear(45)


def _prometheus_began(fleet: Fleet) -> None:
    for target in fleet.targets:
        target.forgotten(0, 45)
    fleet.miss("ContainerDied", "silent", 5, 45)


def _restart(fleet: Fleet) -> None:
    for target in (fleet.a, fleet.kubelet, fleet.runtime):
        target.restart(40)


def _prometheus_away(fleet: Fleet) -> None:
    for target in fleet.targets:
        target.forgotten(38, 50)


def _no_clusters(fleet: Fleet) -> None:
    for target in fleet.targets:
        target.cluster = ""


# Asked at these minutes; nothing fires.
CALM: Final[dict[str, tuple[str, Change, tuple[int, ...]]]] = {
    "a quiet hour": ("ShadowPlegEventsWithoutGate", _nothing, (1, 30, 69)),
    "restarts of everything on a node": (EVERYTHING, _restart, (41, 43, 50)),
    "failed scrapes of four minutes": (
        "ShadowPlegExportersGone",
        _unscraped,
        (42, 44, 50),
    ),
    "Prometheus away": (EVERYTHING, _prometheus_away, (50, 52, 59)),
    "a new node": (EVERYTHING, _new_node, (45, 47, 59)),
    "Prometheus is new": (EVERYTHING, _prometheus_began, (45, 47, 59)),
    "a cluster without a name": (EVERYTHING, _no_clusters, (59,)),
    "a fleet without the exporter": (EVERYTHING, _not_installed, (59,)),
    "exits missed by design": (
        "ShadowPlegMissedExitsEventedKubelet",
        lambda fleet: fleet.miss("ContainerDied", "by_design", 9, 40),
        (43, 47),
    ),
    "exits that came late": ("ShadowPlegMissedExits", _late, (43, 47)),
    "missed while the stream was down": (
        "ShadowPlegMissedEvents",
        lambda fleet: fleet.miss("ContainerStarted", "stream_down", 9, 40),
        (43, 47),
    ),
    "gaps after a reconnection": ("ShadowPlegEventGaps", _gaps_after_a_reconnection, (43, 50)),
    "few losses long ago": ("ShadowPlegBudgetBurnFast", _three_lost, (30, 59)),
    "many losses with another cause": (
        "ShadowPlegBudgetBurnSlow",
        lambda fleet: fleet.a.grow(MISSED, 1, 5, cause="stream_down"),
        (50, 99),
    ),
    "a stream that is back soon": ("ShadowPlegStreamDown", _back_within_minutes, (43, 46, 50)),
    "few ends of streams": ("ShadowPlegStreamFlapping", _overflow, (52, 59)),
    "events off everywhere": ("ShadowPlegStreamDisabled", _nowhere("disabled"), (59,)),
    "no events anywhere": ("ShadowPlegStreamUnsupported", _nowhere("unsupported"), (59,)),
    "refused everywhere": ("ShadowPlegStreamRefused", _nowhere("refused"), (59,)),
    "quiet by design": ("ShadowPlegStreamQuiet", _by_design_alone, (48, 59)),
    "a slow event a minute": ("ShadowPlegDeliverySlow", _slow_but_few, (47, 59)),
    "late after a reconnection": ("ShadowPlegDeliveryLate", _late, (47, 59)),
    "not listed yet": ("ShadowPlegRelistStale", _not_listed_yet, (41, 43)),
    "a third of the relists fails": (
        "ShadowPlegRelistFailing",
        lambda fleet: fleet.a.grow("shadow_pleg_relist_errors_total", 2, 20, reason="unavailable"),
        (50,),
    ),
    "relists a minute apart": ("ShadowPlegRelistSlow", _stretched, (30, 59)),
    "stretched for twenty minutes": (
        "ShadowPlegRelistStretched",
        lambda fleet: fleet.a.put("shadow_pleg_relist_period_seconds", 150, 35),
        (59,),
    ),
    "discards long ago": (
        "ShadowPlegEventsDiscarded",
        lambda fleet: fleet.a.add("shadow_pleg_discard_events_total", 9, 5),
        (25, 59),
    ),
    "the kubelet's discards long ago": (
        "ShadowPlegKubeletDiscards",
        lambda fleet: fleet.kubelet.add("kubelet_pleg_discard_events", 9, 5),
        (25, 59),
    ),
    "drops before anybody subscribed": ("ShadowPlegRuntimeDrops", _held_for_nobody, (40, 59)),
    "four errors of the kubelet's stream": ("ShadowPlegKubeletGaveUp", _four_errors, (52, 59)),
    "many, and events all the same": ("ShadowPlegKubeletGaveUp", _recovered, (52, 59)),
    "neither gate nor events": ("ShadowPlegGateWithoutEvents", _nowhere("disabled"), (47, 59)),
    **{
        f"no events, and a gate that is {gate} by the exporter's word": (
            "ShadowPlegGateWithoutEvents",
            _told(gate),
            (47, 59),
        )
        for gate in ("off", "unlisted", "unknown")
    },
    "a pod that is being replaced": (
        "ShadowPlegExporterMissing",
        lambda fleet: fleet.a.vanish(45),
        (50, 58),
    ),
    "too old, and the gate off": (
        "ShadowPlegGateUnsupported",
        _nowhere("unsupported"),
        (69,),
    ),
    "a dead node": ("ShadowPlegExporterDown", _node_dead, (47, 59)),
    "two crashes": (
        "ShadowPlegExporterRestarting",
        _two_crashes,
        (46, 50),
    ),
    "a loop that is a little late": (
        "ShadowPlegEventLoopLag",
        lambda fleet: fleet.slow("event_loop_lag", "0.005", 5),
        (30, 59),
    ),
    "a certificate and its key, written apart": (
        "ShadowPlegWebConfigStale",
        _written_apart,
        (56, 59),
    ),
}


def _first_scrape_has_it(fleet: Fleet) -> None:
    fleet.a.appear(40)
    fleet.miss("ContainerDied", "silent", 1, 40)


def _restarted_with_the_same_count(fleet: Fleet) -> None:
    fleet.miss("ContainerDied", "silent", 1, 5)
    fleet.a.restart(40)
    fleet.miss("ContainerDied", "silent", 1, 40)


def _lost_in_a_gap(fleet: Fleet) -> None:
    fleet.a.unscraped(39, 43)
    fleet.miss("ContainerDied", "silent", 1, 43)


def _lost_while_prometheus_was_away(fleet: Fleet) -> None:
    for target in fleet.targets:
        target.forgotten(38, 46)
    fleet.miss("ContainerDied", "silent", 1, 46)


def _no_kubelet(fleet: Fleet) -> None:
    fleet.kubelet.series, fleet.kubelet_b.series = {}, {}
    fleet.miss("ContainerDied", "silent", 1, 40)


def _gate_out_of_sight(fleet: Fleet) -> None:
    fleet.kubelet.put("kubernetes_feature_enabled", 1, 0, name="EventedPLEG")
    fleet.kubelet.unscraped(30, fleet.minutes)
    fleet.miss("ContainerDied", "silent", 1, 40)


def _late_ones_of_another_cause(fleet: Fleet) -> None:
    fleet.miss("ContainerDied", "stream_down", 5, 39)
    fleet.miss("ContainerDied", "silent", 1, 40)
    fleet.a.add("shadow_pleg_late_events_total", 5, 41, event="ContainerDied", object="container")


def _no_names(fleet: Fleet) -> None:
    _no_clusters(fleet)
    fleet.miss("ContainerDied", "silent", 1, 40)


_EXITS: Final = frozenset({("ShadowPlegMissedExits", A)})
_EVENTED: Final = frozenset({("ShadowPlegMissedExitsEventedKubelet", A)})
# One exit is lost at an awkward moment; what fires at that minute.
AWKWARD: Final[dict[str, tuple[Change, int, frozenset[Firing]]]] = {
    "before the first scrape of a new process": (_first_scrape_has_it, 43, _EXITS),
    "after a restart that hides the increase": (_restarted_with_the_same_count, 43, _EXITS),
    "while scrapes failed": (_lost_in_a_gap, 46, _EXITS),
    "while Prometheus was away": (_lost_while_prometheus_was_away, 49, _EXITS),
    "without metrics of the kubelet": (_no_kubelet, 43, _EXITS),
    "while the kubelet cannot be scraped": (_gate_out_of_sight, 43, _EVENTED),
    "in a cluster without a name": (_no_names, 43, _EXITS),
    "among others that came late": (_late_ones_of_another_cause, 44, _EXITS),
}
