"""What is done to a node on an ordinary day, and what of it Prometheus sees.

Times are minutes, and in order: what is done later to a node is called later.
"""

import math
from typing import Final

from exporter.settings.config import Config
from exporter.timing.pace import Pace
from tests.support.alert_node import (
    CHURN,
    GATE,
    KINDS,
    KUBELET_ERRORS,
    KUBELET_EVENTS,
    LAST_SEEN,
    LIFECYCLE,
    MISSED,
    RECEIVED,
    RELISTS,
    Counting,
)

CONFIG: Final = Config()


class Node(Counting):
    """A node that is drained, rebooted, upgraded and so on."""

    def drain(self, at: float, minutes: float = 4) -> None:
        """All its pods are evicted; those of DaemonSets stay."""
        self.churn(at, 15 * CHURN)
        self.churn(at + minutes, 0)

    def uncordon(self, at: float) -> None:
        """Pods come back."""
        self.churn(at, 10 * CHURN)
        self.churn(at + 3)

    def reboot(self, at: float, minutes: float = 4) -> None:
        """Nothing on it answers; then the kubelet does first."""
        for target in self.targets:
            target.unscraped(at, minutes)
        self.kubelet.restart(at + minutes)
        self.replace_exporter(at + minutes, 1)

    def restart_kubelet(self, at: float, minutes: float = 0.5) -> None:
        """As an upgrade does. What it has counted is gone."""
        self.kubelet.unscraped(at, minutes)
        self.kubelet.restart(at + minutes)

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
        self.uninstall(at)
        self.install(at + minutes)

    def restart_exporter(self, at: float, minutes: float = 0.3) -> None:
        """Its container ends and is started again in the same pod."""
        self.exporter.unscraped(at, minutes)
        self.exporter.restart(at + minutes)

    def uninstall(self, at: float) -> None:
        """Its pod is removed. At minute 0: there was none."""
        self.exporter.vanish(at)

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
            self.restart_kubelet(at)
        self.kubelet.put(at, GATE, 1, name="EventedPLEG")
        self.kubelet.put(at, KUBELET_ERRORS, 0)
        self.kubelet.put(at, KUBELET_EVENTS, 0)
        self.kubelet.pace(at, KUBELET_EVENTS, 8 * CHURN)

    def gate_off(self, at: float) -> None:
        """The kubelet is restarted without it."""
        self.restart_kubelet(at)
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
            CONFIG.relist_threshold - CONFIG.relist_timeout,
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
