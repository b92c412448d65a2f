"""Every metric of shadow-pleg: name, type, labels, help. Defined nowhere else.

Users' rules and dashboards depend on these names.
"""

from typing import Final

from exporter.metrics.specs import CounterSpec, GaugeSpec, HistogramSpec, InfoSpec
from exporter.runtimes.kubelets import LAST_TRUSTING

# The kubelet's buckets, extended: its own top bucket of 10 s hides every slow relist.
_KUBELETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_RELIST: Final = (*_KUBELETS, 30, 60, 120, 300)
_SUB_MILLISECOND: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025)
_DELIVERY: Final = (*_SUB_MILLISECOND, *_KUBELETS, 30, 60)
_EXIT: Final = (0.001, 0.0025, *_RELIST)
_LAG: Final = (0.001, 0.0025, *_KUBELETS)
_EVENT_OBJECT: Final = ("event", "object")
_EVENT_OBJECT_CAUSE: Final = (*_EVENT_OBJECT, "cause")

MISSED: Final = CounterSpec(
    "kube_pod_missed_events",
    "Lifecycle events that the relist or the kernel proved and the event stream did not announce;"
    " by_design: no loss, this runtime never announces them.",
    _EVENT_OBJECT_CAUSE,
)
LIFECYCLE: Final = CounterSpec(
    "shadow_pleg_lifecycle_events",
    "Lifecycle events that the relist or the kernel proved: the denominator.",
    _EVENT_OBJECT,
)
LATE: Final = CounterSpec(
    "shadow_pleg_late_events",
    "Lifecycle events counted as missed with this cause, and announced later. Missed minus late is"
    " lost for good.",
    _EVENT_OBJECT_CAUSE,
)
VERDICTS: Final = CounterSpec(
    "shadow_pleg_verdicts",
    "What else was found. unseen: announced, and neither relist nor kernel observed it. gap:"
    " neither announced nor observed, although a later step of the same container was announced;"
    " with a cause, if that may explain it. undecided: an unannounced exit of a container that may"
    " never have run. duplicate: announced again. contradicted: by two relists in a row. backlog:"
    " from before this subscription.",
    ("verdict", *_EVENT_OBJECT_CAUSE),
)
NODE_CONDITION: Final = GaugeSpec(
    "shadow_pleg_node_condition",
    "1 while that condition of the node holds, as the exporter decides it by the last 15 minutes.",
    ("condition",),
)
UNRESOLVED: Final = GaugeSpec(
    "shadow_pleg_unresolved_events",
    "Proven lifecycle events that are not yet announced and not yet counted as missed.",
)
CONTRADICTIONS: Final = CounterSpec(
    "shadow_pleg_contradictions",
    "Containers and sandboxes of which witnesses differ. ghost: listed as running after its last"
    " process ended. stray: of a listed pod, it runs and is not listed, or listed as exited. twin:"
    " it runs beside an older one of the same pod and name. frozen: listed as running, and its"
    " processes are stopped. stale: it has ended, and the kubelet"
    " shows it running. disagrees: the kubelet shows another exit code or reason than was"
    " announced. unknown_to_kubelet: it runs, and the kubelet has dropped its pod. overdue_process,"
    " overdue_runtime, overdue_kubelet: its pod should have ended, and a process lives, the runtime"
    " lists it running, or the kubelet keeps the pod.",
    ("kind",),
)
ACTIVE: Final = GaugeSpec(
    "shadow_pleg_active_contradictions",
    "Containers and sandboxes of which witnesses differ now: kinds of"
    " shadow_pleg_contradictions_total.",
    ("kind",),
)
OOM_KILLS: Final = CounterSpec(
    "shadow_pleg_oom_kills",
    "OOM kills, by what the runtime said of them. announced: the container ended as OOMKilled."
    " announced_as_error: it ended by it with 137 and another reason. unannounced: it ended, and"
    " nothing announced says how. survived: it runs on, or ended otherwise. unattributed: the"
    " node's kills that are known of no pod. reason_only is no kill: OOMKilled was announced of an"
    " end that none made.",
    ("kind",),
)
OOM_WITNESS: Final = GaugeSpec(
    "shadow_pleg_oom_witness",
    "Whether OOM kills are counted: exactly one is 1; partly: on cgroup v1, where a container's"
    " count is gone with it; unavailable: unreadable.",
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
    "shadow_pleg_last_seen_seconds", "Unix time of the last successful relist; 0 until the first."
)
STREAM_LAST_SEEN: Final = GaugeSpec(
    "shadow_pleg_stream_last_seen_seconds",
    "Unix time of the last event received; 0 until the first.",
)
RELIST_DURATION: Final = HistogramSpec(
    "shadow_pleg_relist_duration_seconds",
    "Duration of a shadow relist, failed ones included.",
    _RELIST,
)
RELIST_INTERVAL: Final = HistogramSpec(
    "shadow_pleg_relist_interval_seconds", "Time between the starts of two shadow relists.", _RELIST
)
RELIST_PERIOD: Final = GaugeSpec(
    "shadow_pleg_relist_period_seconds",
    "Current pause between two shadow relists; longer than configured if the runtime is slow.",
)
CALLS: Final = CounterSpec(
    "shadow_pleg_runtime_calls",
    "Calls to the runtime, failed ones included: those of a relist, and ContainerStatus.",
    ("call",),
)
CALL_SECONDS: Final = CounterSpec(
    "shadow_pleg_runtime_call_seconds", "Seconds that these calls took.", ("call",)
)
LIST_BYTES: Final = GaugeSpec(
    "shadow_pleg_list_bytes",
    "Size of the last list that came; most runtimes can send, and kubelets take, 16 MiB.",
    ("call",),
)
RELIST_ERRORS: Final = CounterSpec(
    "shadow_pleg_relist_errors", "Relists that failed, by gRPC code.", ("reason",)
)
STREAM_STATE: Final = GaugeSpec(
    "shadow_pleg_stream_state", "State of the event subscription: exactly one is 1.", ("state",)
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
    "Stalls: the stream was open and delivered nothing in time, although events were due.",
)
KERNEL_WITNESS: Final = GaugeSpec(
    "shadow_pleg_kernel_witness",
    "Whether the cgroups are watched: exactly one is 1; polling: only read beside each relist, for"
    " the kernel gives no more inotify; unavailable: unreadable, or not those of the listed"
    " containers.",
    ("state",),
)
EVENTS_RECEIVED: Final = CounterSpec(
    "shadow_pleg_events_received",
    "Events that the exporter received from the stream.",
    _EVENT_OBJECT,
)
EVENT_DELIVERY: Final = HistogramSpec(
    "shadow_pleg_event_delivery_seconds",
    "Time from the runtime's created_at of an event to its reception, backlog excluded.",
    _DELIVERY,
)
EXIT_TO_EVENT: Final = HistogramSpec(
    "shadow_pleg_exit_to_event_seconds",
    "Time from a container's exit to the reception of its STOPPED, backlog excluded.",
    _EXIT,
)
EXIT_TO_LIST: Final = HistogramSpec(
    "shadow_pleg_exit_to_list_seconds",
    "Time from a container's exit to the first shadow relist that shows it.",
    _EXIT,
)
EXIT_TO_STATUS: Final = HistogramSpec(
    "shadow_pleg_exit_to_status_seconds",
    "Time from a container's exit until the kubelet's status shows it.",
    _EXIT,
)
EVENT_TO_STATUS: Final = HistogramSpec(
    "shadow_pleg_event_to_status_seconds",
    "Time from the reception of a container's STOPPED until the kubelet's status shows the exit;"
    " 0 if it did before.",
    _EXIT,
)
UNTIMED: Final = CounterSpec(
    "shadow_pleg_untimed_exits",
    "STOPPED events whose delay is unknown; no_time: neither kernel nor runtime reported the exit"
    " time, clock: the clock was set since, outage: the subscription was down.",
    ("reason",),
)
CLOCK_STEPS: Final = CounterSpec(
    "shadow_pleg_clock_steps",
    "Times that the node's wall clock was set by 0.1 s or more, or that the node slept.",
)
FLAWED: Final = CounterSpec(
    "shadow_pleg_flawed_events",
    f"Events that came, and from which a kubelet up to {LAST_TRUSTING} would take a wrong state of"
    " the pod, or none.",
    ("event", "flaw"),
)
MALFORMED: Final = CounterSpec(
    "shadow_pleg_malformed_messages",
    "Malformed fields and messages from the runtime, which the exporter repaired or ignored.",
    ("reason",),
)
EVIDENCE_DROPPED: Final = CounterSpec(
    "shadow_pleg_evidence_dropped",
    "Verdicts without a case in /debug/misses, because too many came at once.",
)
LOG_DROPPED: Final = CounterSpec(
    "shadow_pleg_log_lines_dropped",
    "Lines of the log that nothing read in time, or that could not be written.",
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
    "Whether the kubelet's pods are watched: exactly one is 1; unavailable: it does not serve them"
    " (yet), denied: only uid 0 may connect.",
    ("state",),
)
KUBELET_PODS_ENDS: Final = CounterSpec(
    "shadow_pleg_kubelet_pods_disconnects",
    "Watches of the kubelet's pods that ended; not_synchronized: the kubelet has just started,"
    " lagged: it dropped the exporter, overflow: the exporter dropped what it cannot take.",
    ("reason",),
)
LOOP_LAG: Final = HistogramSpec(
    "shadow_pleg_event_loop_lag_seconds", "How late the exporter's event loop woke up.", _LAG
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
