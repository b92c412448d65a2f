"""A node as Prometheus scrapes it: what its exporter and kubelet count, and what is done to it.

Times are minutes, and in order: what is done later to a node is called later.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

from exporter.settings.config import Config
from exporter.timing.pace import Pace
from tests.support.exposition import measured, ours
from tests.support.expressions import for_alerts, groups, metrics_of
from tests.support.scraped import Target

CONFIG: Final = Config()
CLUSTER: Final = "blue"
MISSED: Final = "kube_pod_missed_events_total"
LATE: Final = "shadow_pleg_late_events_total"
LIFECYCLE: Final = "shadow_pleg_lifecycle_events_total"
RECEIVED: Final = "shadow_pleg_events_received_total"
LAST_SEEN: Final = "shadow_pleg_last_seen_seconds"
RUNTIME: Final = "shadow_pleg_runtime_info"
STATE: Final = "shadow_pleg_stream_state"
GATE: Final = "kubernetes_feature_enabled"
BUILD: Final = "kubernetes_build_info"
VERSION: Final = "v1.36.2"
KUBELET_ERRORS: Final = "kubelet_evented_pleg_connection_error_count"
KUBELET_EVENTS: Final = "kubelet_evented_pleg_connection_latency_seconds_count"
# What the cluster's rules take from a node that nothing happens to.
ENOUGH: Final = frozenset(
    {"up", "process_start_time_seconds", STATE, LAST_SEEN, LIFECYCLE, MISSED, LATE}
)
# Rules treat all alike: these are enough for alerts.
FEW: Final = {
    "event": ("ContainerStarted", "ContainerDied", "STARTED", "STOPPED"),
    "object": ("container",),
    "reason": ("eof", "overflow", "unavailable"),
    "le": ("0.1", "0.5", "1.0", "10.0", "30.0", "+Inf"),
}
COUNTS: Final = ("counter", "histogram")
RUNS: Final = {"name": "containerd", "version": "2.1.9", "stream": "broadcast"}
# Of each event in a minute, where pods come and go as on other days.
CHURN: Final = 2.0
# Seconds between two relists: the pause, and the lists.
RELISTS: Final = 10.2
# Minutes from a transition that nothing announces to its verdict, at most.
UNDELIVERED: Final = 50 / 60


@cache
def exported(*, whole: bool) -> tuple[tuple[str, dict[str, str], bool], ...]:
    """Series that rules read, or alerts alone if not `whole`: name, labels, if it is a counter."""
    judging = groups() if whole else for_alerts(groups())
    read = set().union(*(metrics_of(rule["expr"]) for each in judging for rule in each["rules"]))
    return tuple(
        (sample.name, RUNS if sample.name == RUNTIME else sample.labels, family.type in COUNTS)
        for family in ours(measured().registry)
        for sample in family.samples
        if sample.name in read
        and (whole or all(value in FEW.get(name, value) for name, value in sample.labels.items()))
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """What runs on a node, and where its subscription stays."""

    stream: str = "streaming"
    # The share of its transitions that this runtime never announces.
    by_design: float = 0
    watched: bool = True


KINDS: Final = {
    "containerd": Kind(),
    "containerd 1.7": Kind(stream="refused"),
    "cri-o": Kind(by_design=0.3),
    "cri-o without events": Kind(stream="disabled"),
    # Windows and virtual nodes have a kubelet and nothing else that is scraped.
    "unwatched": Kind(watched=False),
}


class Node:
    """A node's exporter and kubelet, each of which is a target of its own.

    `scrape`: every so many seconds, and the first time after so many. `whole`: with all events and
    objects, and with what only the report reads.
    """

    def __init__(
        self,
        name: str,
        kind: str = "containerd",
        cluster: str = CLUSTER,
        scrape: tuple[int, int] = (60, 0),
        *,
        whole: bool = False,
    ) -> None:
        self.name, self.kind, self.cluster = name, KINDS[kind], cluster
        self._whole = whole
        self._scrape = scrape
        self.rate = CHURN
        self.former: list[Target] = []
        self.kubelet = self.new_kubelet()
        self.exporter = self.new_exporter()
        if not self.kind.watched:
            self.exporter.vanish(0)

    @property
    def targets(self) -> tuple[Target, ...]:
        """All that is scraped, or was."""
        return *self.former, self.exporter, self.kubelet

    def _target(self, job: str) -> Target:
        every, phase = self._scrape
        instance = f"{self.name}:{job}:{len(self.former)}"
        return Target(job, self.name, instance, every, phase)

    def new_kubelet(self) -> Target:
        """A healthy kubelet with the feature gate off."""
        it = self._target("kubelet")
        it.gauge(GATE, 0, name="EventedPLEG", stage="ALPHA")
        it.gauge(BUILD, 1, git_version=VERSION)
        it.counter("kubelet_pleg_discard_events")
        if self._whole:
            it.counter("kubelet_pleg_relist_interval_seconds_count", 60)
        for name in (KUBELET_ERRORS, KUBELET_EVENTS):
            it.counter(name)
            it.put(0, name, math.nan)
        return it

    def new_exporter(self) -> Target:
        """A healthy shadow-pleg: containers come and go, and what is owed is announced."""
        it = self._target("shadow-pleg")
        for name, labels, counts in exported(whole=self._whole):
            if counts:
                it.counter(name, **labels)
            else:
                it.gauge(name, 0, **labels)
        it.put(0, STATE, 1, state=self.kind.stream)
        if self._whole:
            it.put(0, "shadow_pleg_kernel_witness", 1, state="watching")
            it.put(0, RUNTIME, 1)
        it.gauge(LAST_SEEN, 0, 1, RELISTS)
        it.put(0, "shadow_pleg_relist_period_seconds", 10)
        self.exporter = it
        self.timed(0, "relist_duration", 6)
        self.timed(0, "event_loop_lag", 120)
        self.churn(0, self.rate)
        return it

    def churn(self, at: float, a_minute: float = CHURN) -> None:
        """So many of each event in a minute from then on, announced where there is a stream."""
        self.rate, it = a_minute, self.exporter
        heard = a_minute if self.kind.stream == "streaming" else 0
        it.pace(at, LIFECYCLE, a_minute)
        it.pace(at, RECEIVED, heard * (1 - self.kind.by_design))
        it.pace(at, MISSED, heard * self.kind.by_design, cause="by_design")
        self.timed(at, "event_delivery", heard * 8)
        self.timed(at, "exit_to_event", heard)

    def miss(self, at: float, event: str, cause: str, number: int) -> None:
        """So many containers' events happen, and are missed."""
        self.exporter.add(at, LIFECYCLE, number, event=event, object="container")
        self.exporter.add(at, MISSED, number, event=event, object="container", cause=cause)

    def late(self, at: float, event: str, cause: str, number: int) -> None:
        """So many of them come after all."""
        self.exporter.add(at, LATE, number, event=event, object="container", cause=cause)

    def state(self, at: float, state: str) -> None:
        """The stream is in this state from then on."""
        self.exporter.put(at, STATE, 0)
        self.exporter.put(at, STATE, 1, state=state)

    def end_streams(self, at: float, number: int, reason: str = "unavailable") -> None:
        """So many subscriptions end; the next one is there at once."""
        self.exporter.add(at, "shadow_pleg_stream_disconnects_total", number, reason=reason)
        self.exporter.add(at, "shadow_pleg_stream_connections_total", number)

    def slow(self, at: float, histogram: str, seconds: float) -> None:
        """What a histogram counts from then on is longer than that bound."""
        for name, labels, bound in self._counts_of(histogram):
            if bound <= seconds:
                self.exporter.freeze(at, name, **labels)

    def timed(self, at: float, histogram: str, a_minute: float, seconds: float = 0) -> None:
        """A histogram counts so many in a minute, each of which takes so long."""
        for name, labels, bound in self._counts_of(histogram):
            self.exporter.pace(at, name, a_minute * (bound >= seconds), **labels)

    def _counts_of(self, histogram: str) -> list[tuple[str, dict[str, str], float]]:
        """Its series: name, labels, and what is counted in it is at most so long."""
        prefix = f"shadow_pleg_{histogram}_seconds_"
        found = [(n, dict(labels)) for n, labels in self.exporter.series if n.startswith(prefix)]
        return [(name, labels, float(labels.get("le", math.inf))) for name, labels in found]

    def hear_nothing(self, at: float) -> None:
        """The stream is open, and nothing comes."""
        self.exporter.freeze(at, RECEIVED)
        self.timed(at, "event_delivery", 0)
        self.timed(at, "exit_to_event", 0)

    def silence(self, at: float) -> None:
        """The stream is open, and nothing comes of what happens."""
        self.hear_nothing(at)
        lost = self.rate * (1 - self.kind.by_design)
        self.exporter.pace(at + UNDELIVERED, MISSED, lost, cause="stalled")

    def kubelet_is(self, at: float, version: str) -> None:
        """The kubelet has another version from then on."""
        self.kubelet.put(at, BUILD, math.nan)
        self.kubelet.gauge(BUILD, math.nan, git_version=version)
        self.kubelet.put(at, BUILD, 1, git_version=version)

    def crash(self, at: float, times: int, down: float = 5, up: float = 1) -> None:
        """The exporter ends and is started again and again; in minutes."""
        for number in range(times):
            self.exporter.restart(at + number * (down + up), down)

    # What is done to it on an ordinary day.

    def drain(self, at: float) -> None:
        """All its pods are evicted; those of DaemonSets stay."""
        self.churn(at, 15 * CHURN)
        self.churn(at + 4, 0)

    def uncordon(self, at: float) -> None:
        """Pods come back."""
        self.churn(at, 10 * CHURN)
        self.churn(at + 3)

    def reboot(self, at: float, minutes: float = 4) -> None:
        """Nothing on it answers; then the kubelet does first."""
        self.exporter.unscraped(at, minutes)
        self.kubelet.restart(at, minutes)
        self.replace_exporter(at + minutes, 1)

    def restart_runtime(self, at: float, minutes: float = 0.4, into: str = "") -> None:
        """As an upgrade does, which may make it another kind (`into`)."""
        it, back = self.exporter, at + minutes
        it.freeze(at, LAST_SEEN)
        self._relist(back)
        if self.kind.stream == "streaming":
            it.add(at, "shadow_pleg_stream_disconnects_total", 1, reason="unavailable")
            self.state(at, "backoff")
            self.miss(back + 0.3, "ContainerDied", "stream_down", 3)
        self.kind = KINDS[into] if into else self.kind
        self.state(back, self.kind.stream)
        if self.kind.stream == "streaming":
            it.add(back, "shadow_pleg_stream_connections_total", 1)
        self.churn(back, self.rate)

    def replace_exporter(self, at: float, minutes: float = 0.7) -> None:
        """A new pod takes the place of the old one."""
        self.exporter.vanish(at)
        self.install(at + minutes)

    def install(self, at: float) -> None:
        """Its first pod, or a new one, which has not listed anything at once."""
        self.former.append(self.exporter)
        it = self.new_exporter()
        it.appear(at)
        it.put(at, LAST_SEEN, 0)
        if self.kind.stream == "streaming":
            self.state(at, "connecting")
            self.state(at + 0.2, "streaming")
            it.add(at + 0.2, "shadow_pleg_stream_connections_total", 1)
        self._relist(at + 0.3)

    def _relist(self, at: float, every: float = RELISTS) -> None:
        """A relist succeeds, and from then on one every so many seconds."""
        self.exporter.put(at, LAST_SEEN, at * 60)
        self.exporter.pace(at, LAST_SEEN, 60, every)

    def join(self, at: float) -> None:
        """A new node, perhaps of an old name: its kubelet answers first."""
        self.former.append(self.kubelet)
        self.kubelet = self.new_kubelet()
        self.kubelet.appear(at)
        self.install(at + 2)

    def leave(self, at: float) -> None:
        """It is drained and switched off; its targets stay for a while."""
        self.drain(at)
        for target in self.targets:
            target.unscraped(at + 5, 3)
            target.vanish(at + 8)

    def gate_on(self, at: float = 0) -> None:
        """The kubelet is restarted with the feature gate, and subscribes."""
        if at:
            self.kubelet.restart(at, 0.5)
        self.kubelet.put(at, GATE, 1, name="EventedPLEG")
        self.kubelet.put(at, KUBELET_ERRORS, 0)
        self.kubelet.put(at, KUBELET_EVENTS, 0)
        self.kubelet.pace(at, KUBELET_EVENTS, 8 * CHURN)

    def gate_off(self, at: float) -> None:
        """The kubelet is restarted without it."""
        self.kubelet.restart(at, 0.5)
        self.kubelet.put(at, GATE, 0, name="EventedPLEG")
        self.kubelet.put(at, KUBELET_ERRORS, math.nan)
        self.kubelet.put(at, KUBELET_EVENTS, math.nan)

    def failed_starts(self, at: float, minutes: float) -> None:
        """Containers with a command that does not exist are tried again and again."""
        died = {"event": "ContainerDied", "object": "container"}
        for moment, growth in ((at, 10), (at + minutes, -10)):
            self.exporter.grow(moment, LIFECYCLE, growth, object="container")
            self.exporter.grow(moment, MISSED, growth, **died, cause="by_design")
            # Their creation and removal are announced.
            self.exporter.grow(moment, RECEIVED, growth, object="container")

    def slow_disk(self, at: float, minutes: float, seconds: float) -> None:
        """Relists take so long, and the exporter takes its time between them."""
        pace = Pace(
            CONFIG.relist_period,
            CONFIG.relist_max_duty,
            CONFIG.relist_threshold,
            CONFIG.relist_timeout,
        )
        pace.took(seconds)
        pace.took(seconds)
        for moment, took, period, delivery in (
            (at, seconds, pace.period, 0.4),
            (at + minutes, RELISTS - CONFIG.relist_period, CONFIG.relist_period, 0),
        ):
            self.exporter.put(moment, "shadow_pleg_relist_period_seconds", period)
            self._relist(moment, period * 1.1 + took if took == seconds else RELISTS)
            self.timed(moment, "relist_duration", 60 / (period + took), took)
            self.timed(moment, "event_delivery", 8 * self.rate, delivery)
            self.timed(moment, "exit_to_event", self.rate, delivery)
