"""A small fleet as Prometheus scrapes it every minute, its troubles, and promtool's notation."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, Literal

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
    series: dict[Key, list[Value]] = field(default_factory=dict)
    counters: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.gauge("up", 1)
        self.gauge("process_start_time_seconds", BEGAN)

    def gauge(self, name: str, value: float, a_minute: float = 0, /, **labels: str) -> None:
        """A series that begins with this value, and grows steadily."""
        values: list[Value] = [float(value + a_minute * minute) for minute in range(self.minutes)]
        self.series[name, tuple(sorted(labels.items()))] = values

    def counter(self, name: str, a_minute: float = 0, /, **labels: str) -> None:
        """A series that grows steadily from 0, and begins at 0 again after a restart."""
        self.counters.add(name)
        self.gauge(name, 0, a_minute, **labels)

    def matching(self, name: str, /, **labels: str) -> list[list[Value]]:
        """The values of each series of that name with these labels; at least one."""
        wanted = set(labels.items())
        found = [v for (n, has), v in self.series.items() if n == name and wanted <= set(has)]
        assert found, (name, labels)
        return found

    def put(self, name: str, value: float, at: int, /, **labels: str) -> None:
        """From this minute on, another value."""
        for values in self.matching(name, **labels):
            values[at:] = [float(value)] * (self.minutes - at)

    def add(self, name: str, amount: float, /, *minutes: int, **labels: str) -> None:
        """From each of these minutes on, so much more."""
        for values in self.matching(name, **labels):
            for at in minutes:
                values[at:] = [_number(value) + amount for value in values[at:]]

    def grow(self, name: str, a_minute: float, at: int, /, **labels: str) -> None:
        """From this minute on, so much more with each minute."""
        for values in self.matching(name, **labels):
            more = enumerate(values[at:], start=1)
            values[at:] = [_number(value) + a_minute * minute for minute, value in more]

    def freeze(self, name: str, at: int, /, **labels: str) -> None:
        """From this minute on, nothing new."""
        for values in self.matching(name, **labels):
            values[at:] = [values[at]] * (self.minutes - at)

    def restart(self, *minutes: int) -> None:
        """The process starts again at each of these minutes: every counter is 0."""
        for at in minutes:
            for (name, _), values in self.series.items():
                if name in self.counters:
                    values[at:] = [_number(value) - _number(values[at]) for value in values[at:]]
            self.put("process_start_time_seconds", at * 60.0, at)

    def unscraped(self, since: int, until: int | None = None) -> None:
        """Scrapes fail in these minutes: `up` is 0, and everything else is gone."""
        until = self.minutes if until is None else until
        for (name, _), values in self.series.items():
            lost: list[Value] = ["stale", *[None] * (until - since - 1)]
            values[since:until] = [0.0] * (until - since) if name == "up" else lost

    def forgotten(self, since: int, until: int) -> None:
        """Prometheus itself was away in these minutes."""
        for values in self.series.values():
            values[since:until] = [None] * (until - since)

    def vanish(self, at: int) -> None:
        """The target is removed."""
        for values in self.series.values():
            values[at:] = ["stale", *[None] * (self.minutes - at - 1)]

    def appear(self, at: int) -> None:
        """The target is new at this minute."""
        self.forgotten(0, at)
        self.put("process_start_time_seconds", at * 60.0 - 30, at)

    def was_never_there(self) -> None:
        """Without any series."""
        self.series = {}

    def without(self, name: str) -> None:
        """There are no series of this name."""
        self.series = {key: values for key, values in self.series.items() if key[0] != name}

    def turn_gate_on(self) -> None:
        """This is a kubelet, and subscribes to events."""
        self.put("kubernetes_feature_enabled", 1, 0, name="EventedPLEG")
        self.counter("kubelet_evented_pleg_connection_error_count")
        self.counter("kubelet_evented_pleg_connection_latency_seconds_count", 16)

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


def exporter_target(node: str, minutes: int) -> Target:
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
    for reason in ("eof", "overflow", "unavailable", "deadline_exceeded", "stalled"):
        it.counter("shadow_pleg_stream_disconnects_total", reason=reason)
        it.counter("shadow_pleg_relist_errors_total", reason=reason)
    it.counter("shadow_pleg_stream_connections_total")
    it.counter("shadow_pleg_discard_events_total")
    it.gauge("shadow_pleg_last_seen_seconds", 0, 60)
    it.gauge("shadow_pleg_relist_period_seconds", 10)
    it.gauge("shadow_pleg_web_config_last_reload_successful", 1)
    for name, a_minute in (("relist_duration", 6), ("event_delivery", 16), ("event_loop_lag", 120)):
        for le in BUCKETS:
            it.counter(f"shadow_pleg_{name}_seconds_bucket", a_minute, le=le)
        it.counter(f"shadow_pleg_{name}_seconds_count", a_minute)
    return it


def kubelet_target(node: str, minutes: int) -> Target:
    """A healthy kubelet with the feature gate off."""
    it = Target("kubelet", node, minutes)
    it.gauge("kubernetes_feature_enabled", 0, name="EventedPLEG", stage="ALPHA")
    it.gauge("kubernetes_feature_enabled", 1, name="AnotherGate", stage="BETA")
    it.counter("kubelet_pleg_discard_events")
    return it


def runtime_target(node: str, minutes: int) -> Target:
    """A runtime's own metrics; both counters, for brevity."""
    it = Target("containerd", node, minutes)
    it.counter("containerd_cri_container_events_dropped_total")
    it.counter("container_runtime_crio_containers_events_dropped_total")
    return it


# Targets, or "all" or "fleet", and a method of theirs with its arguments; labels are the last.
Change = dict[str, list[Any]]


class AlertFleet:
    """Two nodes with kubelet, runtime and exporter: `a`, to which things happen, and `b`."""

    def __init__(
        self, minutes: int = 60, changes: Iterable[Change] = (), *, evented: bool = False
    ) -> None:
        self.minutes = minutes
        self.cluster = CLUSTER
        self.a, self.b = exporter_target("a", minutes), exporter_target("b", minutes)
        self.b.series = {key: values for key, values in self.b.series.items() if key[0] in ENOUGH}
        self.kubelet, self.kubelet_b = kubelet_target("a", minutes), kubelet_target("b", minutes)
        self.runtime = runtime_target("a", minutes)
        if evented:
            self.kubelet.turn_gate_on()
            self.kubelet_b.turn_gate_on()
        for change in changes:
            self.change(change)

    @property
    def targets(self) -> tuple[Target, ...]:
        """All that is scraped."""
        return self.a, self.b, self.kubelet, self.kubelet_b, self.runtime

    def change(self, change: Change) -> None:
        """Let something happen."""
        ((names, [method, *arguments]),) = change.items()
        labels = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        special: dict[str, tuple[object, ...]] = {"all": self.targets, "fleet": (self,)}
        for target in special.get(names) or [getattr(self, name) for name in names.split()]:
            getattr(target, method)(*arguments, **labels)

    def state(self, state: str, at: int = 0) -> None:
        """The stream of node `a` is in this state from then on."""
        self.a.put("shadow_pleg_stream_state", 0, at)
        self.a.put("shadow_pleg_stream_state", 1, at, state=state)

    def exporter_knows_gate(self, gate: str) -> None:
        """No kubelet is scraped; that of node `a` told its exporter the state of its gate."""
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

    def no_stream_on_b(self) -> None:
        """Node `b` has no stream."""
        self.b.put("shadow_pleg_stream_state", 0, 0)
        self.b.put("shadow_pleg_stream_state", 1, 0, state="unsupported")

    def has_no_cluster_label(self) -> None:
        """Prometheus gives its targets no such label."""
        self.cluster = ""
