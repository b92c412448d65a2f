"""A small fleet as Prometheus would have scraped it, minute by minute, and what can befall it.

Here: every series that the rules read, as lists with one value a minute, and
promtool's notation of them. Not here: what should come of it (`incidents`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal

EVENTS: Final = ("ContainerChanged", "ContainerStarted", "ContainerDied", "ContainerRemoved")
OBJECTS: Final = ("container", "sandbox")
CAUSES: Final = ("silent", "stream_down", "discarded", "by_design")
STATES: Final = ("connecting", "streaming", "backoff", "disabled", "unsupported", "refused")
CLUSTER: Final = "blue"
# A day before the first scrape.
BEGAN: Final = -86400.0
MISSED: Final = "kube_pod_missed_events_total"
# What the cluster's rules take from a node that nothing happens to.
ENOUGH: Final = frozenset(
    {
        *("up", "process_start_time_seconds", "shadow_pleg_stream_state"),
        *("shadow_pleg_last_seen_seconds", "shadow_pleg_lifecycle_events_total"),
    }
)
BUCKETS: Final = ("0.005", "0.1", "0.5", "1", "2.5", "5", "10", "30", "60", "+Inf")

# None: not scraped. "stale": scraped, and the series was gone.
Value = float | None | Literal["stale"]
Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class Target:
    """One scraped process: its series by name and labels."""

    job: str
    node: str
    minutes: int
    cluster: str = CLUSTER
    began: float = BEGAN
    series: dict[Key, list[Value]] = field(default_factory=dict)
    counters: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.gauge("up", 1)
        self.gauge("process_start_time_seconds", self.began)

    def gauge(self, name: str, value: float | Callable[[int], float], /, **labels: str) -> None:
        """A series that has this value, or this value of each minute."""
        values: list[Value] = [
            float(value(m) if callable(value) else value) for m in range(self.minutes)
        ]
        self.series[name, tuple(sorted(labels.items()))] = values

    def counter(self, name: str, a_minute: float = 0.0, /, **labels: str) -> None:
        """A series that grows steadily."""
        self.counters.add(name)
        self.gauge(name, lambda minute: a_minute * minute, **labels)

    def matching(self, name: str, /, **labels: str) -> list[list[Value]]:
        """The values of each series of that name with these labels; at least one."""
        wanted = set(labels.items())
        found = [v for (n, has), v in self.series.items() if n == name and wanted <= set(has)]
        assert found, (name, labels)
        return found

    def put(
        self, name: str, value: float | Callable[[int], float], at: int, /, **labels: str
    ) -> None:
        """From this minute on, another value."""
        for values in self.matching(name, **labels):
            for minute in range(at, self.minutes):
                values[minute] = float(value(minute) if callable(value) else value)

    def add(self, name: str, amount: float, at: int, /, **labels: str) -> None:
        """From this minute on, so much more."""
        for values in self.matching(name, **labels):
            for minute in range(at, self.minutes):
                values[minute] = _number(values[minute]) + amount

    def grow(self, name: str, a_minute: float, at: int, /, **labels: str) -> None:
        """From this minute on, so much more with each minute."""
        for values in self.matching(name, **labels):
            for minute in range(at, self.minutes):
                values[minute] = _number(values[minute]) + a_minute * (minute - at + 1)

    def freeze(self, name: str, at: int, /, **labels: str) -> None:
        """From this minute on, nothing new."""
        for values in self.matching(name, **labels):
            values[at:] = [values[at]] * (self.minutes - at)

    def restart(self, at: int) -> None:
        """The process begins anew at this minute: every counter at 0."""
        for (name, _), values in self.series.items():
            if name in self.counters:
                before = _number(values[at])
                values[at:] = [_number(value) - before for value in values[at:]]
        self.put("process_start_time_seconds", at * 60.0, at)

    def unscraped(self, since: int, until: int) -> None:
        """Scrapes fail in these minutes: `up` is 0, and everything else is gone."""
        for (name, _), values in self.series.items():
            lost: list[Value] = ["stale", *[None] * (until - since - 1)]
            values[since:until] = [0.0] * (until - since) if name == "up" else lost

    def forgotten(self, since: int, until: int) -> None:
        """Prometheus itself was away in these minutes."""
        for values in self.series.values():
            values[since:until] = [None] * (until - since)

    def vanish(self, at: int) -> None:
        """The target is no more."""
        for values in self.series.values():
            values[at:] = ["stale", *[None] * (self.minutes - at - 1)]

    def appear(self, at: int) -> None:
        """The target is new at this minute."""
        for values in self.series.values():
            values[:at] = [None] * at
        self.put("process_start_time_seconds", at * 60.0 - 30, at)

    def without(self, name: str) -> None:
        """The series of this name never were."""
        self.series = {key: values for key, values in self.series.items() if key[0] != name}

    def notation(self, cluster: str) -> Iterator[dict[str, str]]:
        """What promtool reads, if the cluster has this name."""
        mine = {"job": self.job, "node": self.node, "instance": f"{self.node}:{self.job}"}
        if cluster:
            mine["cluster"] = cluster
        for (name, labels), values in self.series.items():
            text = ", ".join(f'{k}="{v}"' for k, v in sorted((mine | dict(labels)).items()))
            yield {"series": f"{name}{{{text}}}", "values": " ".join(_written(values))}


def _number(value: Value) -> float:
    assert isinstance(value, float), value
    return value


def _written(values: list[Value]) -> Iterator[str]:
    """The values; steady growth, or none, in promtool's short form."""
    at = 0
    while at < len(values):
        value, at = values[at], at + 1
        if not isinstance(value, float):
            yield value or "_"
            continue
        text, more, step = f"{value:.10g}", 0, 0.0
        while at < len(values) and isinstance(after := values[at], float):
            if more and after - value != step:
                break
            value, step, more, at = after, after - value, more + 1, at + 1
        yield f"{text}{step:+.10g}x{more}"


def exporter(node: str, minutes: int) -> Target:
    """A healthy shadow-pleg: containers come and go, and all of it is announced."""
    it = Target("shadow-pleg", node, minutes)
    for event, kind in product(EVENTS, OBJECTS):
        for cause in CAUSES:
            it.counter(MISSED, event=event, object=kind, cause=cause)
        it.counter("shadow_pleg_lifecycle_events_total", 2, event=event, object=kind)
        it.counter("shadow_pleg_late_events_total", event=event, object=kind)
        it.counter("shadow_pleg_event_gaps_total", event=event, object=kind)
    for event, kind in product(("CREATED", "STARTED", "STOPPED", "DELETED"), OBJECTS):
        it.counter("shadow_pleg_events_received_total", 2, event=event, object=kind)
    for state in STATES:
        it.gauge("shadow_pleg_stream_state", state == "streaming", state=state)
    for reason in ("eof", "overflow", "unavailable", "deadline_exceeded"):
        it.counter("shadow_pleg_stream_disconnects_total", reason=reason)
        it.counter("shadow_pleg_relist_errors_total", reason=reason)
    it.counter("shadow_pleg_stream_connections_total")
    it.counter("shadow_pleg_discard_events_total")
    it.gauge("shadow_pleg_last_seen_seconds", lambda minute: minute * 60.0)
    it.gauge("shadow_pleg_relist_period_seconds", 10)
    it.gauge("shadow_pleg_web_config_last_reload_successful", 1)
    for name, a_minute in (("relist_duration", 6), ("event_delivery", 16), ("event_loop_lag", 120)):
        for le in BUCKETS:
            it.counter(f"shadow_pleg_{name}_seconds_bucket", a_minute, le=le)
        it.counter(f"shadow_pleg_{name}_seconds_count", a_minute)
    return it


def kubelet(node: str, minutes: int, *, evented: bool) -> Target:
    """A healthy kubelet, with or without the feature gate."""
    it = Target("kubelet", node, minutes)
    it.gauge("kubernetes_feature_enabled", evented, name="EventedPLEG", stage="ALPHA")
    it.gauge("kubernetes_feature_enabled", 1, name="AnotherGate", stage="BETA")
    it.counter("kubelet_pleg_discard_events")
    if evented:
        it.counter("kubelet_evented_pleg_connection_error_count")
        it.counter("kubelet_evented_pleg_connection_latency_seconds_count", 16)
    return it


def runtime(node: str, minutes: int) -> Target:
    """A runtime's own metrics; both counters, for brevity."""
    it = Target("containerd", node, minutes)
    it.counter("containerd_cri_container_events_dropped_total")
    it.counter("container_runtime_crio_containers_events_dropped_total")
    return it


class Fleet:
    """Two nodes with kubelet, runtime and exporter: `a`, to which things happen, and `b`."""

    def __init__(self, minutes: int = 60, *, evented: bool = False) -> None:
        self.minutes = minutes
        self.a, self.b = exporter("a", minutes), exporter("b", minutes)
        self.b.series = {key: values for key, values in self.b.series.items() if key[0] in ENOUGH}
        self.kubelet = kubelet("a", minutes, evented=evented)
        self.kubelet_b = kubelet("b", minutes, evented=evented)
        self.runtime = runtime("a", minutes)

    @property
    def targets(self) -> tuple[Target, ...]:
        """All that is scraped."""
        return self.a, self.b, self.kubelet, self.kubelet_b, self.runtime

    def state(self, state: str, at: int = 0) -> None:
        """The stream of node `a` is in this state from then on."""
        self.a.put("shadow_pleg_stream_state", 0, at)
        self.a.put("shadow_pleg_stream_state", 1, at, state=state)

    def told(self, gate: str) -> None:
        """No kubelet is scraped; that of node `a` told its exporter this of its gate."""
        for it in (self.kubelet, self.kubelet_b):
            it.without("kubernetes_feature_enabled")
        for state in ("on", "off", "unlisted", "unknown"):
            self.a.gauge("shadow_pleg_kubelet_evented_pleg", state == gate, state=state)

    def miss(self, event: str, cause: str, number: int, at: int) -> None:
        """Node `a` counts so many containers' events as missed."""
        self.a.add(MISSED, number, at, event=event, object="container", cause=cause)

    def slow(self, name: str, seconds: str, at: int) -> None:
        """What a histogram of node `a` counts from then on is longer than that bound."""
        for le in BUCKETS[: BUCKETS.index(seconds) + 1]:
            self.a.freeze(f"shadow_pleg_{name}_seconds_bucket", at, le=le)

    def alone(self) -> None:
        """Node `b` is not like `a`, but has no stream either."""
        self.b.put("shadow_pleg_stream_state", 0, 0)
        self.b.put("shadow_pleg_stream_state", 1, 0, state="unsupported")
