"""What befalls the fleet, one incident for each alert, and what is said of it.

Things begin at minute 40 unless said otherwise. Here: facts and literal
expectations. Not here: how they are judged (`test_rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.alerts.fleet import MISSED, Fleet, kubelet

Change = Callable[[Fleet], None]
A, B, ALL = "a", "b", ""
# An alert and the node that it names; ALL for one about the cluster.
Firing = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Incident:
    """At minute `at` exactly `alert` fires, and `beside` it; `says` is its description.

    `restart`, `gap`: whether it fires in spite of restarts of kubelet and exporter at minute 41,
    and of failed scrapes from 41 to 44; None: does not apply.
    """

    alert: str
    change: Change
    at: int
    severity: str
    says: str
    node: str = A
    beside: frozenset[Firing] = frozenset()
    minutes: int = 60
    evented: bool = False
    restart: bool | None = True
    gap: bool | None = True

    @property
    def firing(self) -> frozenset[Firing]:
        """All that fires."""
        return self.beside | {(self.alert, self.node)}


def _exit_lost(fleet: Fleet) -> None:
    fleet.miss("ContainerDied", "silent", 1, 40)


def _start_lost(fleet: Fleet) -> None:
    fleet.miss("ContainerStarted", "silent", 1, 40)


def _gap(fleet: Fleet) -> None:
    fleet.a.add("shadow_pleg_event_gaps_total", 2, 40, event="ContainerStarted", object="container")


def _one_in_32(fleet: Fleet) -> None:
    fleet.a.grow(MISSED, 1, 20, event="ContainerRemoved", object="container", cause="silent")


def _one_in_250(fleet: Fleet) -> None:
    fleet.a.grow(MISSED, 0.128, 5, event="ContainerRemoved", object="container", cause="silent")


def _backoff(fleet: Fleet) -> None:
    fleet.state("backoff", 40)


def _flapping(fleet: Fleet) -> None:
    for minute in (40, 42, 44, 46):
        fleet.a.add("shadow_pleg_stream_disconnects_total", 1, minute, reason="unavailable")
        fleet.a.add("shadow_pleg_stream_connections_total", 1, minute)


def _silence(fleet: Fleet) -> None:
    fleet.a.freeze("shadow_pleg_events_received_total", 10)
    fleet.a.freeze("shadow_pleg_event_delivery_seconds_count", 10)


def _late(fleet: Fleet) -> None:
    fleet.miss("ContainerDied", "silent", 1, 39)
    fleet.a.add("shadow_pleg_late_events_total", 1, 40, event="ContainerDied", object="container")


def _hung(fleet: Fleet) -> None:
    fleet.a.put("shadow_pleg_last_seen_seconds", 38 * 60.0, 39)


def _failing(fleet: Fleet) -> None:
    fleet.a.grow("shadow_pleg_relist_errors_total", 5, 30, reason="unavailable")


def _overdue(fleet: Fleet) -> None:
    fleet.a.put("shadow_pleg_last_seen_seconds", lambda minute: minute * 60.0 - 60, 30)


def _gave_up(fleet: Fleet) -> None:
    fleet.kubelet.add("kubelet_evented_pleg_connection_error_count", 5, 5)
    fleet.kubelet.freeze("kubelet_evented_pleg_connection_latency_seconds_count", 5)


def _gate_elsewhere(fleet: Fleet) -> None:
    fleet.kubelet_b = kubelet("b", fleet.minutes, evented=True)


def _all_down(fleet: Fleet) -> None:
    fleet.a.unscraped(40, fleet.minutes)
    fleet.b.unscraped(40, fleet.minutes)


def _crashes(fleet: Fleet) -> None:
    for minute in (40, 42, 44):
        fleet.a.restart(minute)


def _told_by_the_exporter(fleet: Fleet) -> None:
    fleet.told("on")
    fleet.state("disabled", 30)


INCIDENTS: Final = (
    Incident(
        "ShadowPlegMissedExitsEventedKubelet",
        _exit_lost,
        at=43,
        evented=True,
        severity="critical",
        says="1 exit(s) in the last 15m were never announced on node a of cluster blue, though the"
        " event stream was up, and the kubelet's gate EventedPLEG is on: it learns of them only"
        " with its next relist, up to 5 minutes later before Kubernetes 1.37.",
    ),
    Incident(
        "ShadowPlegMissedExits",
        _exit_lost,
        at=43,
        severity="warning",
        says="1 exit(s) in the last 15m were never announced on node a of cluster blue, though the"
        " event stream was up. As far as is known, this node's kubelet does not rely on events.",
    ),
    Incident(
        "ShadowPlegMissedEvents",
        _start_lost,
        at=43,
        severity="warning",
        says="1 start(s), creation(s) or removal(s) in the last 15m were never announced on node a"
        " of cluster blue, though the event stream was up.",
    ),
    Incident(
        "ShadowPlegEventGaps",
        _gap,
        at=43,
        restart=False,
        severity="warning",
        says="2 step(s) in the last 15m were skipped by the event stream of node a of cluster blue,"
        " which was up for 30m; the relist was too slow to see them.",
    ),
    Incident(
        "ShadowPlegBudgetBurnFast",
        _one_in_32,
        at=45,
        node=ALL,
        beside=frozenset({("ShadowPlegMissedEvents", A)}),
        severity="critical",
        says="Cluster blue loses 1.744% of its lifecycle events silently: at this rate the budget"
        " of 30d (objective 99.9 %) does not last.",
    ),
    Incident(
        "ShadowPlegBudgetBurnSlow",
        _one_in_250,
        at=80,
        minutes=130,
        node=ALL,
        beside=frozenset({("ShadowPlegMissedEvents", A)}),
        severity="warning",
        says="Cluster blue has lost 0.3795% of its lifecycle events silently over one to"
        " three days: at this rate the budget of 30d (objective 99.9 %) does not last.",
    ),
    Incident(
        "ShadowPlegStreamDown",
        _backoff,
        at=46,
        severity="warning",
        says="The event stream of node a of cluster blue is down; it was up for 53.33% of the last"
        " 15m. What happens meanwhile is counted as missed with the cause stream_down.",
    ),
    Incident(
        "ShadowPlegStreamFlapping",
        _flapping,
        at=52,
        severity="warning",
        says="The event stream of node a of cluster blue ended 4 times in the last 15m.",
    ),
    Incident(
        "ShadowPlegStreamDisabled",
        lambda fleet: fleet.state("disabled", 30),
        at=47,
        minutes=70,
        severity="warning",
        says="The runtime of node a of cluster blue ends the event stream at once: its events are"
        " switched off, while 2 node(s) of the cluster stream, or did within 7d.",
    ),
    Incident(
        "ShadowPlegStreamUnsupported",
        lambda fleet: fleet.state("unsupported", 0),
        at=65,
        minutes=120,
        severity="info",
        says="The runtime of node a of cluster blue is too old to announce events, while 1 node(s)"
        " of the cluster stream, or did within 7d: nothing is missed here, and nothing is known.",
    ),
    Incident(
        "ShadowPlegStreamRefused",
        lambda fleet: fleet.state("refused", 0),
        at=65,
        minutes=120,
        severity="info",
        says="shadow-pleg does not subscribe on node a of cluster blue, because a second subscriber"
        " could harm its kubelet or because it was told not to, while 1 node(s) of the cluster"
        " stream, or did within 7d.",
    ),
    Incident(
        "ShadowPlegStreamQuiet",
        _silence,
        at=48,
        restart=False,
        severity="warning",
        says="The relist saw 480 transitions on node a of cluster blue in the last 30m, and the"
        " event stream, which was up all the time, announced nothing at all.",
    ),
    Incident(
        "ShadowPlegDeliverySlow",
        lambda fleet: fleet.slow("event_delivery", "1", 20),
        at=47,
        severity="warning",
        says="1 in 100 events on node a of cluster blue arrives later than 2.485s after the runtime"
        " stamped it (p99 over 15m).",
    ),
    Incident(
        "ShadowPlegDeliveryLate",
        _late,
        at=47,
        restart=False,
        severity="warning",
        says="1 event(s) on node a of cluster blue came later than the grace in the last 15m, on a"
        " stream that was up for 30m.",
    ),
    Incident(
        "ShadowPlegRelistStale",
        _hung,
        at=43,
        severity="warning",
        says="The last successful relist of node a of cluster blue was 5m 0s ago: its runtime is"
        " down or hangs, and most likely for the kubelet, too.",
    ),
    Incident(
        "ShadowPlegRelistFailing",
        _failing,
        at=48,
        severity="warning",
        says="83.33% of the relists of node a of cluster blue failed in the last 15m.",
    ),
    Incident(
        "ShadowPlegRelistSlow",
        lambda fleet: fleet.slow("relist_duration", "10", 20),
        at=47,
        severity="warning",
        says="A relist of node a of cluster blue takes 29.8s (p99 over 15m, or the one that is"
        " overdue).",
    ),
    Incident(
        "ShadowPlegRelistSlow",
        _overdue,
        at=42,
        minutes=70,
        severity="warning",
        says="A relist of node a of cluster blue takes 49s (p99 over 15m, or the one that is"
        " overdue).",
    ),
    Incident(
        "ShadowPlegRelistStretched",
        lambda fleet: fleet.a.put("shadow_pleg_relist_period_seconds", 150, 10),
        at=42,
        minutes=90,
        severity="info",
        says="The pause between two relists of node a of cluster blue is 2m 30s: more frequent ones"
        " would take more of the runtime's time than they may.",
    ),
    Incident(
        "ShadowPlegKubeletDiscards",
        lambda fleet: fleet.kubelet.add("kubelet_pleg_discard_events", 7, 40),
        at=43,
        severity="warning",
        says="The kubelet of node a of cluster blue discarded 7 pod lifecycle event(s) in the last"
        " 15m; it never makes them up.",
    ),
    Incident(
        "ShadowPlegRuntimeDrops",
        lambda fleet: fleet.runtime.add("containerd_cri_container_events_dropped_total", 3, 40),
        at=43,
        restart=False,
        severity="warning",
        says="The runtime of node a of cluster blue says that it dropped 3 container event(s) in"
        " the last 15m, while shadow-pleg was subscribed.",
    ),
    Incident(
        "ShadowPlegRuntimeDrops",
        lambda fleet: fleet.runtime.add(
            "container_runtime_crio_containers_events_dropped_total", 3, 40
        ),
        at=43,
        restart=False,
        severity="warning",
        says="The runtime of node a of cluster blue says that it dropped 3 container event(s) in"
        " the last 15m, while shadow-pleg was subscribed.",
    ),
    Incident(
        "ShadowPlegKubeletGaveUp",
        _gave_up,
        at=52,
        evented=True,
        minutes=70,
        restart=False,
        severity="warning",
        says="The kubelet of node a of cluster blue has its gate EventedPLEG on and had 5 stream"
        " errors since it started; it has received no event for 30m, while shadow-pleg did.",
    ),
    Incident(
        "ShadowPlegGateWithoutEvents",
        lambda fleet: fleet.state("disabled", 30),
        at=47,
        evented=True,
        minutes=70,
        severity="warning",
        says="The kubelet of node a of cluster blue has its gate EventedPLEG on, and its runtime"
        " has events switched off: none of the 240 lifecycle events in the last 15m was announced.",
    ),
    Incident(
        "ShadowPlegGateWithoutEvents",
        _told_by_the_exporter,
        at=47,
        minutes=70,
        severity="warning",
        says="The kubelet of node a of cluster blue has its gate EventedPLEG on, and its runtime"
        " has events switched off: none of the 240 lifecycle events in the last 15m was announced.",
    ),
    Incident(
        "ShadowPlegGateUnsupported",
        lambda fleet: fleet.state("unsupported", 0),
        at=65,
        evented=True,
        minutes=120,
        severity="info",
        says="The kubelet of node a of cluster blue has its gate EventedPLEG on, and its runtime is"
        " too old to have events: none of the 240 lifecycle events in the last 15m was announced.",
    ),
    Incident(
        "ShadowPlegEventsWithoutGate",
        _gate_elsewhere,
        at=65,
        minutes=120,
        severity="info",
        says="The runtime of node a of cluster blue announces events, and its kubelet has the gate"
        " EventedPLEG off, while 1 other node(s) of the cluster have it on.",
    ),
    Incident(
        "ShadowPlegEventsDiscarded",
        lambda fleet: fleet.a.add("shadow_pleg_discard_events_total", 3, 40),
        at=43,
        severity="warning",
        says="shadow-pleg on node a of cluster blue discarded 3 event(s) in the last 15m: misses of"
        " that time have the cause discarded.",
    ),
    Incident(
        "ShadowPlegExporterDown",
        lambda fleet: fleet.a.unscraped(40, fleet.minutes),
        at=46,
        restart=None,
        gap=None,
        severity="warning",
        says="shadow-pleg on node a of cluster blue does not answer; in the last 15m it answered"
        " 53.33% of the scrapes.",
    ),
    Incident(
        "ShadowPlegExporterMissing",
        lambda fleet: fleet.a.vanish(30),
        at=47,
        restart=None,
        gap=None,
        severity="warning",
        says="A kubelet answers on node a of cluster blue, and Prometheus knows no shadow-pleg"
        " there, though 1 other node(s) of the cluster have one.",
    ),
    Incident(
        "ShadowPlegExportersGone",
        _all_down,
        at=46,
        node=ALL,
        beside=frozenset({("ShadowPlegExporterDown", A), ("ShadowPlegExporterDown", B)}),
        restart=None,
        gap=None,
        severity="critical",
        says="Cluster blue had 2 exporter(s) within 1d, and none answers now: losses of events go"
        " unseen.",
    ),
    Incident(
        "ShadowPlegExporterRestarting",
        _crashes,
        at=46,
        restart=None,
        gap=False,
        severity="warning",
        says="shadow-pleg on node a of cluster blue started 3 times in the last 30m.",
    ),
    Incident(
        "ShadowPlegEventLoopLag",
        lambda fleet: fleet.slow("event_loop_lag", "0.5", 20),
        at=47,
        severity="warning",
        says="The event loop of shadow-pleg on node a of cluster blue wakes up 995ms late (p99 over"
        " 15m): what it says of delays and slow relists is about itself.",
    ),
    Incident(
        "ShadowPlegWebConfigStale",
        lambda fleet: fleet.a.put("shadow_pleg_web_config_last_reload_successful", 0, 40),
        at=56,
        severity="warning",
        says="The web configuration of shadow-pleg on node a of cluster blue changed and cannot be"
        " used: the last good one stays in force, with its certificates. In the last 15m the one on"
        " disk was in force for 0% of the time.",
    ),
)
