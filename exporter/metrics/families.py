"""Every metric of shadow-pleg: name, type, labels, help. Defined nowhere else.

Users' rules and dashboards depend on these names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

from prometheus_client.core import Metric
from prometheus_client.metrics import Histogram
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Exemplar

from exporter.runtimes.kubelets import LAST_TRUSTING

Labels = TypeVar("Labels", bound=tuple[str, ...])
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})

# The kubelet's buckets, extended: its own top bucket of 10 s hides every slow relist.
_KUBELETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_RELIST: Final = (*_KUBELETS, 30, 60, 120, 300)
_SUB_MILLISECOND: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025)
_DELIVERY: Final = (*_SUB_MILLISECOND, *_KUBELETS, 30, 60)
_EXIT: Final = (0.001, 0.0025, *_RELIST)
_LAG: Final = (0.001, 0.0025, *_KUBELETS)
_EVENT_OBJECT: Final = ("event", "object")
_EVENT_OBJECT_CAUSE: Final = (*_EVENT_OBJECT, "cause")


@dataclass(frozen=True)
class Spec:
    """A metric; a sample's name is `name` plus `suffix`."""

    kind: ClassVar[str]
    suffix: ClassVar[str] = ""
    name: str
    help: str
    labels: tuple[str, ...] = ()

    def family(
        self, values: Mapping[Labels, float], newest: Mapping[Labels, Exemplar] = _NONE
    ) -> Metric:
        """The family with these values and exemplars, keyed by label values."""
        family = Metric(self.name, self.help, self.kind)
        for labels, value in values.items():
            named = dict(zip(self.labels, labels, strict=True))
            family.add_sample(self.name + self.suffix, named, value, exemplar=newest.get(labels))
        return family


class CounterSpec(Spec):
    """A counter."""

    kind = "counter"
    suffix = "_total"


class GaugeSpec(Spec):
    """A gauge."""

    kind = "gauge"


class InfoSpec(Spec):
    """A metric with the value 1, whose labels are the information."""

    kind = "info"
    suffix = "_info"


@dataclass(frozen=True)
class HistogramSpec(Spec):
    """A histogram of seconds, without labels."""

    kind = "histogram"
    buckets: tuple[float, ...] = ()

    def register(self, registry: CollectorRegistry) -> Histogram:
        """Register the histogram and return it."""
        return Histogram(self.name, self.help, buckets=self.buckets, registry=registry)


MISSED: Final = CounterSpec(
    "kube_pod_missed_events",
    "Lifecycle events that relist or kernel proved and the event stream did not announce;"
    " by_design: no loss, this runtime never announces them.",
    _EVENT_OBJECT_CAUSE,
)
LIFECYCLE: Final = CounterSpec(
    "shadow_pleg_lifecycle_events",
    "Lifecycle events that relist or kernel proved: the denominator.",
    _EVENT_OBJECT,
)
LATE: Final = CounterSpec(
    "shadow_pleg_late_events",
    "Missed events that were announced later. Missed minus late is lost for good.",
    _EVENT_OBJECT_CAUSE,
)
VERDICTS: Final = CounterSpec(
    "shadow_pleg_verdicts",
    "Other verdicts. unseen: announced, neither relist nor kernel saw it. gap: neither announced"
    " nor seen, but a later step announced; cause: what may explain it. undecided: unannounced exit"
    " of a container that may never have run. duplicate: announced again. contradicted: by two"
    " relists. backlog: from before this subscription.",
    ("verdict", *_EVENT_OBJECT_CAUSE),
)
NODE_CONDITION: Final = GaugeSpec(
    "shadow_pleg_node_condition",
    "1 while that condition of the node holds, by the last 15 minutes.",
    ("condition",),
)
UNRESOLVED: Final = GaugeSpec(
    "shadow_pleg_unresolved_events",
    "Proven lifecycle events, neither announced nor counted as missed yet.",
)
CONTRADICTIONS: Final = CounterSpec(
    "shadow_pleg_contradictions",
    "Containers about which sources disagree. ghost: listed as running without a process. stray:"
    " runs, not listed as running. twin: runs beside an older one of the same pod and name. frozen:"
    " its processes are frozen. stale: ended, and the kubelet shows it running. disagrees: the"
    " kubelet shows another exit code or reason than announced. unknown_to_kubelet: runs, and the"
    " kubelet dropped its pod. overdue_*: its pod should have ended; the suffix says who is late.",
    ("kind",),
)
ACTIVE: Final = GaugeSpec(
    "shadow_pleg_active_contradictions",
    "Contradictions that stand now, by kind of shadow_pleg_contradictions_total.",
    ("kind",),
)
OOM_KILLS: Final = CounterSpec(
    "shadow_pleg_oom_kills",
    "OOM kills, by what the runtime announced. announced: OOMKilled. announced_as_error: exit code"
    " 137 with another reason. unannounced: ended, and no event says how. survived: runs on, or"
    " ended otherwise. unattributed: of no known pod. reason_only: OOMKilled without a kill.",
    ("kind",),
)
OOM_WITNESS: Final = GaugeSpec(
    "shadow_pleg_oom_witness",
    "Whether OOM kills are counted: the current state is 1; partly: on cgroup v1, a container's"
    " count goes with it; unavailable: unreadable.",
    ("state",),
)
DISCARDS: Final = CounterSpec(
    "shadow_pleg_discard_events", "Events that the exporter dropped because its queue was full."
)
DISCARDS_UNRECONCILED: Final = GaugeSpec(
    "shadow_pleg_discard_events_unreconciled",
    "Events that the exporter dropped since the last successful relist.",
)
LAST_SEEN: Final = GaugeSpec(
    "shadow_pleg_last_seen_seconds", "Unix time of the last successful relist, or 0."
)
STREAM_LAST_SEEN: Final = GaugeSpec(
    "shadow_pleg_stream_last_seen_seconds", "Unix time of the last event received, or 0."
)
RELIST_DURATION: Final = HistogramSpec(
    "shadow_pleg_relist_duration_seconds",
    "Duration of a shadow relist, failed ones included.",
    buckets=_RELIST,
)
RELIST_INTERVAL: Final = HistogramSpec(
    "shadow_pleg_relist_interval_seconds",
    "Time between the starts of two shadow relists.",
    buckets=_RELIST,
)
RELIST_PERIOD: Final = GaugeSpec(
    "shadow_pleg_relist_period_seconds",
    "Current pause between two shadow relists; longer if the runtime is slow.",
)
CALLS: Final = CounterSpec(
    "shadow_pleg_runtime_calls",
    "Calls of relists and ContainerStatus, failed ones included.",
    ("call",),
)
CALL_SECONDS: Final = CounterSpec(
    "shadow_pleg_runtime_call_seconds", "Seconds that these calls took.", ("call",)
)
LIST_BYTES: Final = GaugeSpec(
    "shadow_pleg_list_bytes", "Size of the last list; kubelets take at most 16 MiB.", ("call",)
)
RELIST_ERRORS: Final = CounterSpec(
    "shadow_pleg_relist_errors", "Relists that failed, by gRPC code.", ("reason",)
)
STREAM_STATE: Final = GaugeSpec(
    "shadow_pleg_stream_state",
    "State of the event subscription: the current state is 1.",
    ("state",),
)
STREAM_CONNECTIONS: Final = CounterSpec(
    "shadow_pleg_stream_connections", "Successful subscriptions."
)
STREAM_DISCONNECTS: Final = CounterSpec(
    "shadow_pleg_stream_disconnects",
    "Subscriptions that ended, by gRPC code; eof: closed cleanly, overflow: closed by the"
    " exporter.",
    ("reason",),
)
STREAM_STALLS: Final = CounterSpec(
    "shadow_pleg_stream_stalls",
    "Times that the stream was open and delivered no due event in time.",
)
KERNEL_WITNESS: Final = GaugeSpec(
    "shadow_pleg_kernel_witness",
    "Whether the cgroups are watched: the current state is 1; polling: read with each relist, as"
    " inotify is used up; unavailable: unreadable, or not those of the listed containers.",
    ("state",),
)
EVENTS_RECEIVED: Final = CounterSpec(
    "shadow_pleg_events_received", "Events received.", _EVENT_OBJECT
)
EVENT_DELIVERY: Final = HistogramSpec(
    "shadow_pleg_event_delivery_seconds",
    "Time from an event's created_at to its reception, without backlog.",
    buckets=_DELIVERY,
)
EXIT_TO_EVENT: Final = HistogramSpec(
    "shadow_pleg_exit_to_event_seconds",
    "Time from an exit to the reception of its STOPPED, without backlog.",
    buckets=_EXIT,
)
EXIT_TO_LIST: Final = HistogramSpec(
    "shadow_pleg_exit_to_list_seconds",
    "Time from an exit to the first shadow relist that shows it.",
    buckets=_EXIT,
)
EXIT_TO_STATUS: Final = HistogramSpec(
    "shadow_pleg_exit_to_status_seconds",
    "Time from an exit until the kubelet shows it.",
    buckets=_EXIT,
)
EVENT_TO_STATUS: Final = HistogramSpec(
    "shadow_pleg_event_to_status_seconds",
    "Time from the reception of a STOPPED until the kubelet shows the exit; 0 if it was first.",
    buckets=_EXIT,
)
UNTIMED: Final = CounterSpec(
    "shadow_pleg_untimed_exits",
    "STOPPED events of unknown delay. no_time: no exit time from kernel or runtime; clock: the"
    " clock was set since; outage: the subscription was down.",
    ("reason",),
)
CLOCK_STEPS: Final = CounterSpec(
    "shadow_pleg_clock_steps",
    "Times that the wall clock was set by 0.1 s or more, or the node slept.",
)
FLAWED: Final = CounterSpec(
    "shadow_pleg_flawed_events",
    f"Events from which a kubelet up to {LAST_TRUSTING} would take a wrong state, or none.",
    ("event", "flaw"),
)
MALFORMED: Final = CounterSpec(
    "shadow_pleg_malformed_messages",
    "Malformed fields and messages of the runtime, repaired or ignored.",
    ("reason",),
)
EVIDENCE_DROPPED: Final = CounterSpec(
    "shadow_pleg_evidence_dropped", "Verdicts without a case in /debug/misses: too many at once."
)
LOG_DROPPED: Final = CounterSpec(
    "shadow_pleg_log_lines_dropped", "Log lines that could not be written in time."
)
QUEUE_LENGTH: Final = GaugeSpec("shadow_pleg_event_queue_length", "Events waiting in the queue.")
QUEUE_CAPACITY: Final = GaugeSpec("shadow_pleg_event_queue_capacity", "Events the queue can hold.")
PODS: Final = GaugeSpec("shadow_pleg_pods", "Pods in the last relist.")
SANDBOXES: Final = GaugeSpec(
    "shadow_pleg_sandboxes", "Pod sandboxes in the last relist.", ("state",)
)
CONTAINERS: Final = GaugeSpec(
    "shadow_pleg_containers", "Containers in the last relist.", ("state",)
)
RUNTIME: Final = InfoSpec(
    "shadow_pleg_runtime",
    "The node's container runtime.",
    ("name", "version", "api_version", "stream"),
)
BUILD: Final = InfoSpec("shadow_pleg_build", "The exporter's version.", ("version", "python"))
KUBELET_PODS: Final = GaugeSpec(
    "shadow_pleg_kubelet_pods",
    "Whether the kubelet's pods are watched: the current state is 1; unavailable: not served (yet);"
    " denied: only uid 0 may connect.",
    ("state",),
)
KUBELET_PODS_ENDS: Final = CounterSpec(
    "shadow_pleg_kubelet_pods_disconnects",
    "Watches of the kubelet's pods that ended. not_synchronized: just started; lagged: it dropped"
    " the exporter; overflow: more than the exporter takes.",
    ("reason",),
)
LOOP_LAG: Final = HistogramSpec(
    "shadow_pleg_event_loop_lag_seconds",
    "How late the exporter's event loop woke up.",
    buckets=_LAG,
)
WEB_REFUSALS: Final = CounterSpec(
    "shadow_pleg_web_refusals",
    "Connections and requests that the HTTP server refused.",
    ("reason",),
)
WEB_RELOADED: Final = GaugeSpec(
    "shadow_pleg_web_config_last_reload_successful",
    "Whether the active web configuration is the one on disk.",
)
